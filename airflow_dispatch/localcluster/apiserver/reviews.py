"""Questions that clients ask about themselves: may I, and who am I."""

from __future__ import annotations

from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.access import Attributes, User
from airflow_dispatch.localcluster.apiserver.errors import bad_request
from airflow_dispatch.localcluster.apiserver.objects import Object

__all__ = ["ACCESS_REVIEWS", "SELF_REVIEWS", "access_review", "self_review"]

ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SELF_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def access_review(user: User, review: Any) -> Object:
    """The answered ``SelfSubjectAccessReview``.

    Raises:
        ApiError: 400 without a question.
    """
    spec = review.get("spec", {}) if isinstance(review, dict) else {}
    wanted = spec.get("resourceAttributes")
    if wanted is not None:
        asked = Attributes(
            wanted.get("verb", ""),
            wanted.get("group", ""),
            wanted.get("resource", ""),
            wanted.get("subresource", ""),
            wanted.get("namespace", ""),
            wanted.get("name", ""),
        )
        allowed = user.may(asked)
    elif spec.get("nonResourceAttributes") is not None:
        allowed = "system:masters" in user.groups
    else:
        raise bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": allowed, "reason": "RBAC: allowed by a rule" if allowed else ""},
    }


def self_review(user: User) -> Object:
    """The answered ``SelfSubjectReview``."""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": list(user.groups)}},
    }

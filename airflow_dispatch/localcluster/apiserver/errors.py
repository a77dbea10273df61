"""What the API server refuses, with the bodies of the real one.

The wording of each ``Status`` was taken from answers of Kubernetes 1.36: clients tell a conflict from a precondition,
or a missing object from a denied one, by reason and text, so the texts matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_dispatch.localcluster.resources import Resource

__all__ = [
    "ApiError",
    "Cause",
    "already_exists",
    "bad_request",
    "conflict",
    "denied_by_webhook",
    "expired",
    "forbidden",
    "invalid",
    "manager_required",
    "method_not_allowed",
    "namespace_terminating",
    "not_acceptable",
    "not_found",
    "path_not_found",
    "success",
    "too_new",
    "uid_mismatch",
    "uid_precondition",
    "unauthorized",
    "unsupported_media_type",
]

Cause = tuple[str, str, str]
"""A cause of an invalid object: reason (``FieldValueInvalid``), field path, message."""

_OUTDATED = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    """A refusal with its HTTP code, the machine-readable reason, and the details of its ``Status`` body."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """The ``Status`` object that answers the request."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(**fields: Any) -> dict[str, Any]:
    """A ``Status`` that reports success, with ``details`` or ``code`` as given."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **fields}


def _details(resource: Resource, name: str, *, kind: str = "") -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for one object."""
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def path_not_found() -> ApiError:
    """404 for a path that nothing serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 on create."""
    return ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str = _OUTDATED) -> ApiError:
    """409 on an update whose resourceVersion is no longer the newest."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def uid_mismatch(resource: Resource, namespace: str, name: str, wanted: str, found: str) -> ApiError:
    """409 on an update that names another UID than the object has: the storage layer's words."""
    key = "/" + "/".join(part for part in (resource.group, resource.plural, namespace, name) if part)
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )


def uid_precondition(resource: Resource, name: str, wanted: str, found: str) -> ApiError:
    """409 on a delete whose UID precondition fails."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": the UID in the precondition '
        f"({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated",
        _details(resource, name, kind=resource.kind),
    )


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause per field."""
    texts = [f"{field}: {message}" for _, field, message in causes]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(resource, name, kind=resource.kind)
    details["causes"] = [{"reason": reason, "message": message, "field": field} for reason, field, message in causes]
    return ApiError(422, "Invalid", f'{resource.qualified_kind} "{name}" is invalid: {joined}', details)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def denied_by_webhook(webhook: str, why: str) -> ApiError:
    """403 as an admission webhook's denial arrives."""
    return ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {why}')


def forbidden(
    user: str, verb: str, resource: Resource, namespace: str | None, *, name: str = "", subresource: str = ""
) -> ApiError:
    """403 as the RBAC authorizer words it."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiError(
        403,
        "Forbidden",
        f'{subject} is forbidden: User "{user}" cannot {verb} resource "{plural}" in API group "{resource.group}" '
        f"{scope}",
        _details(resource, name),
    )


def namespace_terminating(resource: Resource, namespace: str, name: str) -> ApiError:
    """403 on a create in a namespace that is going."""
    details = _details(resource, name)
    details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return ApiError(
        403,
        "Forbidden",
        f'{resource.qualified} "{name}" is forbidden: unable to create new content in namespace {namespace} because '
        "it is being terminated",
        details,
    )


def manager_required() -> ApiError:
    """422 on an apply that names no field manager."""
    message = "Required value: is required for apply patch"
    return ApiError(
        422,
        "Invalid",
        f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: {message}',
        {
            "group": "meta.k8s.io",
            "kind": "PatchOptions",
            "causes": [{"reason": "FieldValueRequired", "message": message, "field": "fieldManager"}],
        },
    )


def unauthorized() -> ApiError:
    """401: no token, or one that nobody has."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> ApiError:
    """410: the history does not go back that far."""
    return ApiError(410, "Expired", message)


def too_new(wanted: int, current: int) -> ApiError:
    """504: a version that has not been written yet, as after a restart of the cluster."""
    return ApiError(
        504,
        "Timeout",
        f"Too large resource version: {wanted}, current: {current}",
        {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
    )


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable() -> ApiError:
    """406: the client accepts only encodings that are not served."""
    return ApiError(406, "NotAcceptable", "only the following media types are accepted: application/json")


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415, naming what would be accepted."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )

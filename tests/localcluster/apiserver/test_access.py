from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.access import Access, Attributes, Rule
from airflow_dispatch.localcluster.apiserver.errors import ApiError

READ_PODS = Attributes("get", "", "pods", "", "ml", "p")


def rule(**changes: Any) -> Rule:
    return Rule.parse({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"apiGroups": ["*"]},
        {"resources": ["*"]},
        {"verbs": ["*"]},
        {"namespaces": ["ml"]},
        {"resourceNames": ["p"]},
    ],
)
def test_what_a_rule_allows(changes: dict[str, Any]) -> None:
    assert rule(**changes).allows(READ_PODS)


@pytest.mark.parametrize(
    "changes",
    [
        {"apiGroups": ["batch"]},
        {"resources": ["nodes"]},
        {"resources": ["pods/log"]},
        {"verbs": ["list"]},
        {"namespaces": ["other"]},
        {"resourceNames": ["q"]},
    ],
)
def test_what_a_rule_does_not_allow(changes: dict[str, Any]) -> None:
    assert not rule(**changes).allows(READ_PODS)


def test_subresources_are_allowed_by_their_own_name() -> None:
    log = READ_PODS._replace(subresource="log")
    assert not rule().allows(log)
    assert rule(resources=["pods/log"]).allows(log)
    assert rule(resources=["*/log"]).allows(log)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic {token}"])
def test_only_a_known_bearer_token_authenticates(header: str) -> None:
    access = Access()
    assert access.authenticate(f"Bearer {access.admin.token}") == access.admin
    with pytest.raises(ApiError) as refused:
        access.authenticate(header.format(token=access.admin.token))
    assert refused.value.code == 401

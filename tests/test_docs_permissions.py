"""The manifests of the guide on permissions hang together; tests/suite applies them, and takes each verb away."""

from __future__ import annotations

import pytest

from airflow_dispatch.adapter.permissions import NEEDS
from tests.support.accounts import TRIGGERER, WORKER, documented, verbs_of


def test_the_bindings_name_roles_that_are_there() -> None:
    made = {(each["kind"], each["metadata"]["name"]) for each in documented()}
    bindings = [each for each in documented() if each["kind"].endswith("Binding")]
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    assert bound == {(kind, name) for kind, name in made if kind in ("Role", "ClusterRole")}
    assert all(each["kind"].removesuffix("Binding") == each["roleRef"]["kind"] for each in bindings)


@pytest.mark.parametrize(("role", "account"), [("worker", WORKER), ("triggerer", TRIGGERER)])
def test_preflight_asks_for_what_the_guide_gives(role: str, account: str) -> None:
    given = {each.qualified for each in verbs_of(account)}
    assert {f"{verb} {need.name}" for need in NEEDS for verb in need.verbs(role)} == given

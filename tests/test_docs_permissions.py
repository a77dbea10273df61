"""The manifests of the guide on permissions hang together; tests/suite applies them, and takes each verb away."""

from __future__ import annotations

from airflow_dispatch.adapter import preflight
from tests.support.accounts import TRIGGERER, WORKER, documented, verbs_of


def test_the_bindings_name_roles_that_are_there() -> None:
    made = {(each["kind"], each["metadata"]["name"]) for each in documented()}
    bindings = [each for each in documented() if each["kind"].endswith("Binding")]
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    assert bound == {(kind, name) for kind, name in made if kind in ("Role", "ClusterRole")}
    assert all(each["kind"].removesuffix("Binding") == each["roleRef"]["kind"] for each in bindings)


def test_preflight_asks_for_nothing_that_the_guide_does_not_give() -> None:
    given = {(each.resource, each.verb) for account in (WORKER, TRIGGERER) for each in verbs_of(account)}
    asked = {
        (f"{resource.plural}/{part}" if part else resource.plural, verb)
        for resource, part, verbs in preflight._NEEDED
        for verb in verbs
    }
    may_be_left_out = {("clustertrainingruntimes", "list"), ("nodes", "list"), ("nodes", "watch")}
    assert asked == given - may_be_left_out

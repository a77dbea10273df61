"""Pods that vanished while they ran: what they block, and what ends that (contract, section 12)."""

from __future__ import annotations

import msgspec
import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.cessation import Answer, ask, ceased, of_other_submissions
from airflow_dispatch.core.identity import Submission
from airflow_dispatch.core.ledger import Entry
from airflow_dispatch.core.snapshot import CapturedPod, Leftovers, Machine, NodeAbsence
from tests.support.builders import (
    JOB_ID,
    NAME,
    NAMESPACE,
    NodeBuilder,
    Scenario,
    at,
    jobset,
    node,
    pod,
    runtime_patch,
    scenario,
)

RAN_ON = Machine("uid-node-0", "boot-node-0")


def remembered(machine: Machine = RAN_ON, uid: str = "uid-a") -> CapturedPod:
    entry = Entry(
        train_job=NAME, pod="a", node="node-0", node_uid=machine.node_uid, boot_id=machine.boot_id, admission=1
    )
    return entry.captured(uid)


def held(*nodes: NodeBuilder) -> Scenario:
    """A held object whose JobSet is finished, so that nothing but pods can stand in its way."""
    found = scenario().suspended()
    found.jobset = jobset(suspend=True).with_condition("Failed")
    found.nodes = list(nodes)
    return found


def another(name: str) -> NodeBuilder:
    built = node(name)
    built.metadata["uid"] = "uid-new"
    return built


@pytest.mark.row("12/vanished")
@pytest.mark.parametrize(
    ("now", "state"),
    [(node("node-0"), "Ready=True"), (node("node-0").lost(), "Ready=Unknown")],
)
def test_a_remembered_pod_blocks_while_its_machine_may_run_it(now: NodeBuilder, state: str) -> None:
    found = held(now)
    found.vanished = [remembered()]
    assert ask(found.snapshot(), at(30)) == Answer((f"a on node-0 (vanished, {state})",))


def test_it_blocks_where_its_node_may_not_be_read() -> None:
    found = held()
    found.nodes_readable = False
    found.vanished = [remembered()]
    assert ask(found.snapshot(), at(30)).remaining == ("a on node-0 (vanished, not readable)",)


@pytest.mark.parametrize(
    "nodes",
    [[], [node("node-0").tainted(names.TAINT_OUT_OF_SERVICE)], [node("node-0").rebooted()], [another("node-0")]],
    ids=["gone", "out of service", "rebooted", "another of its name"],
)
def test_its_machine_s_end_settles_it(nodes: list[NodeBuilder]) -> None:
    found = held(*nodes)
    found.vanished = [remembered()]
    assert ask(found.snapshot(), at(30)).nothing_runs


@pytest.mark.parametrize("unknown", [Machine(), Machine("uid-node-0"), Machine("", "boot-node-0")])
def test_a_machine_that_could_not_be_read_settles_nothing_by_being_there(unknown: Machine) -> None:
    found = held(node("node-0"))
    found.vanished = [remembered(unknown)]
    assert ask(found.snapshot(), at(30)).remaining


def test_an_operator_s_word_settles_it_for_what_a_watcher_has_seen_too() -> None:
    found = held(node("node-0").lost())
    found.captured = [pod("a").on("node-0").running().captured(node("node-0").lost())]
    assert ask(found.snapshot(), at(30)).remaining
    found.confirmed = frozenset({"uid-a"})
    assert ask(found.snapshot(), at(30)).nothing_runs


def test_where_it_was_first_seen_running_counts_and_not_where_its_end_began() -> None:
    """Its Node was rebooted before its deletion was seen: the boot ID of then says nothing."""
    found = held(node("node-0").rebooted())
    captured = pod("a").on("node-0").running().captured(node("node-0").rebooted())
    found.captured = [captured]
    assert ask(found.snapshot(), at(30)).remaining
    found.captured = [CapturedPod(pod=captured.pod, node=captured.node, machine=RAN_ON)]
    assert ask(found.snapshot(), at(30)).nothing_runs


@pytest.mark.parametrize(
    "then", [NodeAbsence.GONE, node("node-0").tainted(names.TAINT_OUT_OF_SERVICE)], ids=["gone", "out of service"]
)
def test_a_machine_that_had_ended_when_the_pod_went_stays_ended(
    then: NodeBuilder | NodeAbsence,
) -> None:
    found = held(node("node-0"))
    found.captured = [pod("a").on("node-0").running().captured(then)]
    assert ask(found.snapshot(), at(30)).nothing_runs


def test_a_pod_that_is_listed_again_is_asked_itself() -> None:
    found = held(node("node-0"))
    found.pods = [pod("a").on("node-0").terminated(0)]
    found.vanished = [remembered()]
    assert ask(found.snapshot(), at(30)).nothing_runs


def test_what_can_t_be_read_of_the_ledger_blocks_and_is_noted() -> None:
    found = held()
    found.unreadable = ("entry odd of ConfigMap ml/x",)
    assert ask(found.snapshot(), at(30)) == Answer(("entry odd of ConfigMap ml/x",))
    assert found.notes()[-1] == "remaining pods: entry odd of ConfigMap ml/x"


def test_a_remembered_pod_is_noted_as_remaining_and_as_an_earlier_execution() -> None:
    found = held(node("node-0").lost())
    found.vanished = [remembered()]
    assert found.notes()[-1] == "remaining pods: a on node-0 (vanished, Ready=Unknown)"
    running = scenario(pod("b", admission=2).on("node-1").running())
    running.trainjob.spec(runtimePatches=[runtime_patch(admission="2")])
    running.vanished = [remembered()]
    assert running.notes() == ["earlier execution: a on node-0 (vanished, Ready=True)"]


def leftovers(*nodes: NodeBuilder, pods: tuple[CapturedPod, ...] = (), owner: str = NAME) -> Leftovers:
    return Leftovers(
        namespace=NAMESPACE,
        vanished=tuple((owner, each) for each in pods),
        nodes={each.raw["metadata"]["name"]: each.build() for each in nodes},
    )


def test_a_vanished_pod_of_another_submission_blocks_and_one_of_another_job_does_not() -> None:
    pods = (remembered(),)
    second, other = Submission(JOB_ID, 2), Submission("01K6NJRFAE13R8H0C3SWZGBJ7S", 2)
    lost = node("node-0").lost()
    assert of_other_submissions(leftovers(lost, pods=pods), second) == ("a on node-0 (vanished, Ready=Unknown)",)
    assert of_other_submissions(leftovers(lost, pods=pods), Submission(JOB_ID, 1)) == ()
    assert of_other_submissions(leftovers(lost, pods=pods), other) == ()
    assert of_other_submissions(leftovers(pods=pods), second) == ()
    assert of_other_submissions(leftovers(node("node-0").rebooted(), pods=pods), second) == ()
    listed = msgspec.structs.replace(leftovers(lost, pods=pods), pods=(pod("a").on("node-0").terminated(0).build(),))
    assert of_other_submissions(listed, second) == ()


def test_ceased_needs_the_node_of_a_vanished_pod_or_an_operator_s_word() -> None:
    found = held(node("node-0").lost())
    assert ceased(found.snapshot()) is None
    found.vanished = [remembered()]
    assert ceased(found.snapshot()) is False
    found.nodes = []
    assert ceased(found.snapshot()) is True
    found.vanished, found.confirmed = [], frozenset({"uid-a"})
    assert ceased(found.snapshot()) is True
    found.unreadable = ("entry odd",)
    assert ceased(found.snapshot()) is False

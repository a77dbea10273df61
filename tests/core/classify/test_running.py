"""Contract, section 6.1."""

from __future__ import annotations

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.observation import State
from airflow_dispatch.core.snapshot import Site
from tests.support.builders import JOB_UID, JOBSET_UID, Scenario, at, event, jobset, node, pod, scenario


def gang(mode: str = "plain") -> Scenario:
    return scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").running(), mode=mode)


@pytest.mark.row("6.1/7")
def test_healthy_gang_has_no_cause() -> None:
    assert gang().cause() == ("none", "", "")


@pytest.mark.row("6.1/0")
def test_row_0_eviction_that_nothing_acts_on() -> None:
    job = gang("kueue")
    assert job.workload is not None
    job.workload.with_condition("Evicted", "Preempted", "words", since=3)
    assert job.observe().state is State.RUNNING
    assert job.cause() == ("preempted", "reported", "Workload Evicted: Preempted: words")


@pytest.mark.row("6.1/1")
def test_row_1_node_gone() -> None:
    job = gang()
    job.nodes = [node("node-0")]
    assert job.cause() == ("node-lost", "derived", "pod b: node node-1 is gone")
    assert job.observe().cause.at is None


@pytest.mark.row("6.1/2")
def test_row_2_node_not_ready() -> None:
    job = gang()
    job.nodes = [node("node-0"), node("node-1").ready("Unknown", "NodeStatusUnknown", since=9)]
    assert job.cause() == ("node-lost", "derived", "pod b: node node-1 Ready=Unknown (NodeStatusUnknown)")
    assert job.observe().cause.at == at(9)


def test_row_2_names_no_reason_where_there_is_none() -> None:
    job = gang()
    job.nodes = [node("node-0").ready("False"), node("node-1")]
    assert job.cause()[2] == "pod a: node node-0 Ready=False"


@pytest.mark.row("6.1/3")
def test_row_3_node_tainted_names_the_first_key_in_order() -> None:
    job = gang()
    job.site = Site(node_loss_taints=("example.com/broken",))
    job.nodes = [node("node-0"), node("node-1").tainted("example.com/broken").tainted(names.TAINT_NOT_READY)]
    assert job.cause() == ("node-lost", "derived", "pod b: node node-1 tainted node.kubernetes.io/not-ready")


@pytest.mark.row("6.1/3")
def test_row_3_taint_of_the_site() -> None:
    job = gang()
    job.nodes = [node("node-0"), node("node-1").tainted("example.com/broken")]
    assert job.cause()[0] == "none"
    job.site = Site(node_loss_taints=("example.com/broken",))
    assert job.cause()[2] == "pod b: node node-1 tainted example.com/broken"


@pytest.mark.row("6.1/1")
def test_node_gone_of_any_rank_beats_not_ready_of_a_lower_one() -> None:
    job = gang()
    job.nodes = [node("node-0").lost()]
    assert job.cause()[2] == "pod b: node node-1 is gone"


def test_nodes_that_may_not_be_read_are_never_judged() -> None:
    job = gang()
    job.nodes, job.nodes_readable = [], False
    assert job.cause() == ("none", "", "")


def test_finished_pod_on_a_lost_node_is_no_loss() -> None:
    job = scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").terminated(0))
    job.nodes = [node("node-0"), node("node-1").lost()]
    assert job.cause() == ("none", "", "")


def test_pod_of_an_earlier_execution_on_a_lost_node_is_no_loss() -> None:
    job = scenario(pod("old").on("node-1").running(), pod("new", admission=2).on("node-0").running())
    job.nodes = [node("node-0"), node("node-1").lost()]
    assert job.cause()[0] == "none"


@pytest.mark.row("6.1/4")
def test_row_4_rank_that_failed() -> None:
    job = scenario(pod("a").on("node-0").running(), pod("b", index=1).on("node-1").terminated(3, finished=12))
    assert job.cause() == ("non-zero-exit", "derived", "pod b: exit code 3")
    assert job.observe().cause.at == at(12)


def test_row_4_not_when_the_container_runs_again() -> None:
    assert scenario(pod("a").on("node-0").restarted_in_place(3)).cause() == ("none", "", "")


def test_row_4_not_when_the_rank_has_a_newer_live_pod() -> None:
    job = scenario(pod("a").on("node-0").terminated(3).created(1), pod("b").on("node-1").running().created(2))
    assert job.cause()[0] == "none"


def test_row_4_not_of_pods_whose_restart_is_over() -> None:
    job = scenario(pod("a").on("node-0").terminated(3))
    job.jobset = jobset(restarts=1)
    assert job.cause()[0] == "none"


def test_row_4_not_of_pods_whose_admission_is_over() -> None:
    job = scenario(pod("a", admission=0).on("node-0").terminated(3))
    assert job.cause()[0] == "none"


@pytest.mark.row("6.1/5")
def test_row_5_unschedulable_names_the_lowest_rank() -> None:
    job = scenario(pod("z", index=0).unschedulable("no room", since=4), pod("a", index=1).unschedulable("none either"))
    assert job.cause() == ("no-capacity", "derived", "pod z: Unschedulable: no room")
    assert job.observe().cause.at == at(4)


@pytest.mark.row("6.1/6-quota")
def test_row_6_quota_of_the_namespace_is_exceeded() -> None:
    job = scenario()
    job.events = [event("FailedCreate", "exceeded quota: q", kind="Job", uid=JOB_UID)]
    assert job.cause() == ("no-capacity", "derived", "no pods yet: exceeded quota: q")


@pytest.mark.row("6.1/6-refused")
def test_row_6_pods_that_are_forbidden_or_invalid_are_rejected() -> None:
    for word in ("forbidden", "invalid"):
        job = scenario()
        job.events = [event("FailedCreate", f"pods are {word}", kind="Job", uid=JOB_UID)]
        assert job.cause()[:2] == ("rejected", "derived")


def test_row_6_job_that_cannot_be_created() -> None:
    job = scenario()
    job.job = None
    job.events = [event("JobCreationFailed", "jobs is forbidden", kind="JobSet", uid=JOBSET_UID)]
    assert job.cause() == ("rejected", "derived", "no Job yet: jobs is forbidden")


def test_row_6_looks_at_the_newest_event_only() -> None:
    job = scenario()
    job.events = [
        event("FailedCreate", "exceeded quota", kind="Job", uid=JOB_UID, seen=5, name="old"),
        event("FailedCreate", "the API server is slow", kind="Job", uid=JOB_UID, seen=9, name="new"),
    ]
    assert job.cause() == ("none", "", "no pods yet: the API server is slow")


def test_row_6_not_when_there_are_pods() -> None:
    job = gang()
    job.events = [event("FailedCreate", "exceeded quota", kind="Job", uid=JOB_UID)]
    assert job.cause() == ("none", "", "")


def test_row_6_not_from_an_event_before_the_job_was_resumed() -> None:
    job = scenario()
    assert job.job is not None
    job.job.with_condition("Suspended", "JobResumed", status="False", since=20)
    job.events = [event("FailedCreate", "exceeded quota", kind="Job", uid=JOB_UID, seen=5)]
    assert job.cause() == ("none", "", "")

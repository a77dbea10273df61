"""Cases that lie just beside a rule, and what a rule must not take for its own."""

from __future__ import annotations

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify, end_of, orphans
from airflow_dispatch.core.identity import MAX_NUMBER
from airflow_dispatch.core.objects import JobSet, TrainingRuntime, TrainJob
from airflow_dispatch.core.observation import State
from airflow_dispatch.core.snapshot import Leftovers, Site
from tests.support.builders import (
    JOB_UID,
    JOBSET_UID,
    NAME,
    Scenario,
    at,
    event,
    exited,
    jobset,
    node,
    pod,
    runtime,
    runtime_patch,
    scenario,
    trainjob,
    workload,
)

# ---------------------------------------------------------------- running


def test_a_younger_pod_of_another_rank_does_not_take_a_failed_rank_s_place() -> None:
    job = scenario(pod("a").on("node-0").terminated(3), pod("b", index=1).created(9).on("node-1").running())
    assert job.cause()[2] == "pod a: exit code 3"


def test_a_younger_pod_of_the_rank_takes_its_place() -> None:
    job = scenario(pod("a").on("node-0").terminated(3), pod("b").created(9).on("node-1").running())
    assert job.cause()[0] == "none"


def test_the_site_s_taint_tells_why_a_rank_has_failed() -> None:
    job = scenario(pod("a").on("node-0").disrupted("DeletionByTaintManager").terminated(143))
    job.nodes = [node("node-0").tainted("site/broken")]
    assert job.cause()[0] == "preempted"
    job.site = Site(node_loss_taints=("site/broken",))
    assert job.cause()[2].startswith("pod a: DeletionByTaintManager; node node-0 tainted site/broken")


def test_a_rejected_pod_is_named() -> None:
    job = scenario(pod("a").on("node-0").phase("Failed", "OutOfcpu", "m"))
    assert job.cause() == ("no-capacity", "derived", "pod a: OutOfcpu: m")


def test_the_newest_of_what_could_not_be_created_counts() -> None:
    job = scenario()
    job.job = None
    job.events = [event("JobCreationFailed", "jobs is forbidden", kind="JobSet", uid=JOBSET_UID, name="b", seen=9)]
    job.events.append(event("JobCreationFailed", "exceeded quota", kind="JobSet", uid=JOBSET_UID, name="a", seen=5))
    assert job.cause()[0] == "rejected"


def test_a_job_that_is_there_needs_no_creation() -> None:
    job = scenario(pod("a").on("node-0").running())
    job.events = [event("JobCreationFailed", "jobs is forbidden", kind="JobSet", uid=JOBSET_UID)]
    assert job.cause() == ("none", "", "")


def test_a_creation_event_without_a_message_says_no_reason() -> None:
    job = scenario()
    job.events = [event("FailedCreate", "", kind="Job", uid=JOB_UID)]
    assert job.cause() == ("none", "", "no pods yet")


# ---------------------------------------------------------------- pending and held


def test_preempted_is_told_of_a_preemption_only() -> None:
    job = scenario(mode="kueue").suspended()
    job.workload = workload().with_condition("Evicted", "ClusterQueueStopped").with_condition("Preempted", "Before")
    assert job.cause()[2] == "Workload Evicted: ClusterQueueStopped"


def test_a_disruption_without_a_time_is_no_later_than_the_suspension() -> None:
    taken = pod("a").on("node-0").disrupted("EvictionByEvictionAPI")
    taken.raw["status"]["conditions"][-1]["lastTransitionTime"] = None
    job = scenario(taken, mode="kueue").suspended(since=1)
    job.workload = workload()
    assert job.cause()[0] == "preempted"


def test_a_suspended_job_that_could_not_be_read_in_full_keeps_its_detail() -> None:
    job = scenario().suspended()
    snapshot = job.snapshot()
    odd = msgspec.structs.replace(snapshot.trainjob, problem="p")
    found = classify(msgspec.structs.replace(snapshot, trainjob=odd), at(30)).cause
    assert found.detail == f"TrainJob is suspended; TrainJob {NAME} can't be read in full: p"


def test_an_end_is_ended_whatever_ended_it() -> None:
    job = scenario()
    job.trainjob.with_condition("Failed", "DeadlineExceeded")
    assert job.observe().state is State.ENDED
    assert end_of(job.snapshot(), at(30)) is not None


# ---------------------------------------------------------------- how a container ended


def said(job: Scenario) -> str:
    return job.cause()[2].removeprefix("pod a: ")


def test_memory_pressure_may_stand_in_the_pod_s_message_alone() -> None:
    built = pod("a").on("node-0").phase("Failed", "Evicted", "The node was low on resource: memory. ")
    built.disrupted("TerminationByKubelet", "evicted")
    assert scenario(built).cause()[0] == "out-of-memory"


def test_129_is_the_first_signal() -> None:
    assert said(scenario(pod("a").terminated(129))) == "exit code 129 (signal 1)"


def test_a_pod_that_has_succeeded_does_not_ask_its_init_containers() -> None:
    built = pod("a").phase("Succeeded").init_container("setup", {"terminated": exited(3)})
    assert scenario(built).cause()[0] == "none"


def test_an_init_container_that_never_started_says_its_message_once() -> None:
    built = pod("a").init_container("setup", {"terminated": exited(128, "StartError", "no such file")})
    assert said(scenario(built)) == "init container setup: StartError, exit code 128: no such file"


def test_a_stopped_init_container_asks_its_node_too() -> None:
    built = pod("a").on("node-0").deleted(5).init_container("setup", {"terminated": exited(143)})
    job = scenario(built)
    job.site = Site(disruption_taints=("site/drained",))
    job.nodes = [node("node-0").tainted("site/drained")]
    assert job.cause()[0] == "preempted"


def test_a_container_that_ended_in_the_second_of_the_deletion_was_stopped_by_it() -> None:
    """Another rank's exit is the cause then, though it came later."""
    stopped = pod("a").on("node-0").deleted(10, grace=0)
    other = pod("b", index=1).on("node-1").terminated(3, finished=20)
    assert scenario(stopped.terminated(143, finished=10), other).cause()[2].startswith("pod b: exit code 3")
    assert scenario(stopped.terminated(143, finished=9), other).cause()[2].startswith("pod a: exit code 143")


def test_a_sidecar_beside_a_container_that_runs_is_no_news() -> None:
    assert scenario(pod("a").on("node-0").running().running("proxy")).notes() == []


# ---------------------------------------------------------------- pods


def test_the_highest_number_is_an_execution_and_the_next_is_none() -> None:
    def number(restart: int) -> int | None:
        job = scenario(pod("a", admission=1, restart=restart).on("node-0").running())
        job.trainjob.spec(runtimePatches=[runtime_patch()])
        found = job.observe().execution
        return found.number if found is not None else None

    assert number(MAX_NUMBER - 1) == MAX_NUMBER
    assert number(MAX_NUMBER) is None


def test_ranks_of_two_jobs_do_not_replace_each_other() -> None:
    other = pod("b").created(9).label(names.LABEL_JOB_NAME, "another").on("node-1").running()
    assert scenario(pod("a").on("node-0").terminated(3), other).cause()[2].startswith("pod a: exit code 3")


def test_a_container_that_has_run_before_counts_as_started() -> None:
    job = scenario(pod("a").on("node-0").running(), pod("b").created(1).on("node-1").restarted_in_place(3))
    assert "execution 1.0 has run twice: a, b" in job.notes()
    waits = pod("b").created(1).on("node-1").waiting("CrashLoopBackOff")
    assert "execution 1.0 has run twice: a, b" not in scenario(pod("a").on("node-0").running(), waits).notes()


# ---------------------------------------------------------------- orphans


def test_an_orphan_was_seen_now() -> None:
    copy = msgspec.convert(runtime().raw, TrainingRuntime)
    owner = msgspec.convert(jobset().raw, JobSet)
    left = Leftovers(namespace="ml", jobsets=(owner,), pods=(pod("a").build(),), runtimes=(copy,))
    assert {each.seen_at for each in orphans(left, at(30))} == {at(30)}


def test_a_pod_with_half_of_our_labels_is_nobody_s() -> None:
    nameless = pod("a").label(names.LABEL_JOBSET_NAME, None).labelled(job_id=None).build()
    numberless = pod("b").label(names.LABEL_JOBSET_NAME, None).labelled(submission=None).build()
    assert orphans(Leftovers(namespace="ml", pods=(nameless, numberless)), at(30)) == []


def test_an_orphan_whose_node_is_gone_runs_no_more_though_its_status_says_so() -> None:
    unconfirmed = pod("a").running().phase("Failed").on("gone").build()
    (found,) = orphans(Leftovers(namespace="ml", pods=(unconfirmed,)), at(30))
    assert found.state is State.ENDED


def test_a_jobset_without_owner_is_an_orphan_when_it_is_older_than_the_trainjob() -> None:
    def found(created: float | None) -> int:
        built = jobset()
        built.metadata["ownerReferences"] = []
        if created is None:
            del built.metadata["creationTimestamp"]
        else:
            built.created(created)
        owner = msgspec.convert(trainjob().created(10).raw, TrainJob)
        left = Leftovers(namespace="ml", trainjobs=(owner,), jobsets=(msgspec.convert(built.raw, JobSet),))
        return len(orphans(left, at(30)))

    assert [found(9), found(10), found(None)] == [1, 0, 0]

"""Contract, section 6.3."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.findings import cause, findings, findings_of
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.snapshot import NodeAbsence, NodeView, Site
from tests.support.builders import NodeBuilder, PodBuilder, at, exited, node, pod, scenario
from tests.support.rows import showing


def view(built: PodBuilder, on: NodeBuilder | NodeAbsence | None = None, *, live: bool = True) -> PodView:
    found: NodeView | None = on.build() if isinstance(on, NodeBuilder) else on
    return PodView(built.build(), found, live=live)


def said(built: PodBuilder, on: NodeBuilder | NodeAbsence | None = None) -> list[tuple[str, str]]:
    return [(each.kind.value, each.detail) for each in findings_of(view(built, on), Site())]


# ---------------------------------------------------------------- DisruptionTarget


@pytest.mark.row("6.3/preempting")
@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByDeviceTaintManager"])
def test_taken_away_on_purpose(reason: str) -> None:
    assert said(pod("a").disrupted(reason, "m")) == [("preempted", f"{reason}: m")]


TAINT_MANAGER = "DeletionByTaintManager: m"


@pytest.mark.parametrize(
    ("on", "kind", "detail"),
    [
        showing(
            "6.3/taint-node-lost",
            node("n").tainted(names.TAINT_UNREACHABLE),
            "node-lost",
            "; node n tainted node.kubernetes.io/unreachable",
        ),
        showing("6.3/taint-node-lost", NodeAbsence.GONE, "node-lost", "; node n is gone"),
        showing("6.3/taint-node-lost", node("n").ready("False"), "node-lost", "; node n Ready=False"),
        showing("6.3/taint-node-lost", node("n").ready("Unknown"), "node-lost", "; node n Ready=Unknown"),
        showing(
            "6.3/taint-node-lost",
            node("n").ready("True", since=11),
            "node-lost",
            "; node n was lost until 2026-01-01T00:00:11Z",
        ),
        showing(
            "6.3/taint-preempted", node("n").ready("True", since=10), "preempted", "; no node-loss taint on node n"
        ),
        showing(
            "6.3/taint-preempted", node("n").tainted("example.com/other"), "preempted", "; no node-loss taint on node n"
        ),
        showing("6.3/taint-unknown", NodeAbsence.NOT_READABLE, "unknown", "; node n is not readable"),
        showing("6.3/taint-unknown", None, "unknown", ""),
    ],
)
def test_taint_manager_asks_the_node(on: NodeBuilder | NodeAbsence | None, kind: str, detail: str) -> None:
    taken = pod("a").disrupted("DeletionByTaintManager", "m", since=10)
    assert said(taken if on is None else taken.on("n"), on) == [(kind, TAINT_MANAGER + detail)]


@pytest.mark.parametrize(
    ("on", "kind", "detail"),
    [
        showing("6.3/gc-node-lost", NodeAbsence.GONE, "node-lost", "; node n is gone"),
        showing(
            "6.3/gc-node-lost", node("n").tainted(names.TAINT_OUT_OF_SERVICE), "node-lost", "; node n is out of service"
        ),
        showing("6.3/gc-unknown", node("n"), "unknown", ""),
        showing("6.3/gc-unknown", NodeAbsence.NOT_READABLE, "unknown", ""),
    ],
)
def test_pod_garbage_collection_asks_the_node(on: NodeBuilder | NodeAbsence, kind: str, detail: str) -> None:
    assert said(pod("a").on("n").disrupted("DeletionByPodGC", "m"), on) == [(kind, f"DeletionByPodGC: m{detail}")]


@pytest.mark.parametrize(
    ("message", "pod_reason", "kind"),
    [
        showing("6.3/kubelet-shutdown", "Pod was terminated in response to imminent node shutdown.", None, "node-lost"),
        showing("6.3/kubelet-shutdown", "m", "Terminated", "node-lost"),
        showing("6.3/kubelet-shutdown", "m", "NodeShutdown", "node-lost"),
        showing("6.3/kubelet-memory", "The node was low on resource: memory. ", "Evicted", "out-of-memory"),
        showing("6.3/kubelet-other", "The node was low on resource: ephemeral-storage. ", "Evicted", "preempted"),
        showing("6.3/kubelet-other", "m", None, "preempted"),
    ],
)
def test_kubelet_says_why(message: str, pod_reason: str | None, kind: str) -> None:
    taken = pod("a").phase("Failed", pod_reason).disrupted("TerminationByKubelet", message)
    assert said(taken) == [(kind, f"TerminationByKubelet: {message}")]


@pytest.mark.row("6.3/disruption-unknown")
def test_disruption_that_nobody_knows() -> None:
    assert said(pod("a").disrupted("Surprise")) == [("unknown", "Surprise")]


def test_disruption_that_is_not_true_is_none() -> None:
    assert said(pod("a").with_condition("DisruptionTarget", "PreemptionByScheduler", status="False")) == []


# ---------------------------------------------------------------- the container


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind", "detail"),
    [
        showing("6.3/oom", 137, "OOMKilled", None, "out-of-memory", "OOMKilled, exit code 137"),
        showing("6.3/oom", 1, "OOMKilled", None, "out-of-memory", "OOMKilled, exit code 1"),
        showing(
            "6.3/status-unknown",
            137,
            "ContainerStatusUnknown",
            None,
            "unknown",
            "ContainerStatusUnknown, exit code 137",
        ),
        showing(
            "6.3/never-started",
            128,
            "StartError",
            "no such file",
            "non-zero-exit",
            "StartError, exit code 128: no such file",
        ),
        showing(
            "6.3/never-started", 127, "ContainerCannotRun", "m", "non-zero-exit", "ContainerCannotRun, exit code 127: m"
        ),
        showing("6.3/signal", 137, "Error", None, "non-zero-exit", "exit code 137 (signal 9)"),
        showing("6.3/signal", 139, "Error", None, "non-zero-exit", "exit code 139 (signal 11)"),
        showing("6.3/exit", 128, "Error", None, "non-zero-exit", "exit code 128"),
        showing("6.3/exit", 3, "Error", "ignored", "non-zero-exit", "exit code 3"),
    ],
)
def test_exit(code: int, reason: str, message: str | None, kind: str, detail: str) -> None:
    assert said(pod("a").terminated(code, reason, message)) == [(kind, detail)]


@pytest.mark.row("6.3/exit-0")
@pytest.mark.parametrize("reason", ["Completed", "OOMKilled", "Error"])
def test_exit_0_is_no_finding_whatever_the_reason(reason: str) -> None:
    assert said(pod("a").terminated(0, reason)) == []


@pytest.mark.row("6.3/exit")
def test_last_state_speaks_when_the_state_does_not() -> None:
    waiting = pod("a").container("node", {"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": exited(3)})
    assert said(waiting) == [("non-zero-exit", "exit code 3")]


def test_only_the_trainer_container_counts() -> None:
    assert said(pod("a").running().ended("sidecar", 3)) == []


def test_pod_gives_both_findings() -> None:
    both = pod("a").terminated(143).disrupted("EvictionByEvictionAPI")
    assert said(both) == [("preempted", "EvictionByEvictionAPI"), ("non-zero-exit", "exit code 143 (signal 15)")]


# ---------------------------------------------------------------- more evidence


@pytest.mark.row("6.3/init")
def test_init_container_that_failed() -> None:
    failed = pod("a").phase("Failed").init_container("fetch", {"terminated": exited(2, message="no bucket")})
    assert said(failed) == [("non-zero-exit", "init container fetch: exit code 2: no bucket")]


@pytest.mark.row("6.3/init")
def test_init_container_that_ran_out_of_memory() -> None:
    failed = pod("a").init_container("fetch", {"terminated": exited(137, "OOMKilled")})
    assert said(failed) == [("out-of-memory", "init container fetch: OOMKilled, exit code 137")]


def test_sidecar_that_was_stopped_after_the_trainer_is_no_evidence() -> None:
    done = pod("a").terminated(0).init_container("sidecar", {"terminated": exited(143)})
    assert said(done) == []


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        showing("6.3/no-room", "OutOfcpu", "m", "no-capacity"),
        showing("6.3/no-room", "OutOfnvidia.com/gpu", "m", "no-capacity"),
        showing("6.3/no-room", "UnexpectedAdmissionError", "m", "no-capacity"),
        showing("6.3/no-room", "TopologyAffinityError", "m", "no-capacity"),
        showing("6.3/no-room", "NodeAffinity", "m", "no-capacity"),
        showing("6.3/rejected-node-lost", "NodeShutdown", "m", "node-lost"),
        showing("6.3/rejected-node-lost", "Terminated", "m", "node-lost"),
        showing("6.3/evicted-limit", "Evicted", "Usage of EmptyDir volume exceeds the limit", "non-zero-exit"),
        showing(
            "6.3/evicted-memory",
            "Evicted",
            "The node was low on resource: memory. Container node exceeds its request",
            "out-of-memory",
        ),
        showing(
            "6.3/evicted-other",
            "Evicted",
            "The node was low on resource: ephemeral-storage. Container node exceeds its request",
            "preempted",
        ),
        showing("6.3/evicted-other", "Evicted", "m", "preempted"),
    ],
)
def test_pod_that_was_refused(reason: str, message: str, kind: str) -> None:
    assert said(pod("a").phase("Failed", reason, message)) == [(kind, f"{reason}: {message}")]


@pytest.mark.row("6.3/terminated-by-kueue")
def test_pod_that_kueue_ended() -> None:
    assert said(pod("a").phase("Failed").with_condition("TerminatedByKueue", "R", "m")) == [("no-capacity", "R: m")]


def test_refusal_is_read_only_without_other_findings() -> None:
    assert said(pod("a").terminated(3).phase("Failed", "Evicted", "m")) == [("non-zero-exit", "exit code 3")]


# ---------------------------------------------------------------- consequences


def consequences(built: PodBuilder, on: NodeBuilder | None = None) -> list[tuple[str, bool]]:
    return [(each.kind.value, each.consequence) for each in findings_of(view(built, on), Site())]


@pytest.mark.parametrize(
    ("code", "reason", "is_consequence"),
    [
        showing("6.3/consequence", 143, "Error", True),
        showing("6.3/consequence", 137, "Error", True),
        showing("6.3/consequence", 143, "OOMKilled", True),
        (137, "OOMKilled", False),
        (1, "Error", False),
    ],
)
def test_stopped_while_being_deleted(code: int, reason: str, is_consequence: bool) -> None:
    stopped = pod("a").terminated(code, reason, finished=10).deleted(8)
    assert [each[1] for each in consequences(stopped)] == [is_consequence]


def test_exit_before_the_deletion_is_no_consequence() -> None:
    assert consequences(pod("a").terminated(137, finished=7).deleted(8)) == [("non-zero-exit", False)]


def test_exit_of_a_pod_that_was_not_deleted_is_no_consequence() -> None:
    assert consequences(pod("a").terminated(143)) == [("non-zero-exit", False)]


def test_disrupted_pod_is_no_consequence() -> None:
    stopped = pod("a").terminated(143).deleted(8).disrupted("EvictionByEvictionAPI")
    assert consequences(stopped) == [("preempted", False), ("non-zero-exit", False)]


@pytest.mark.row("6.3/node-going")
@pytest.mark.parametrize("key", ["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"])
def test_node_that_is_being_drained_preempts(key: str) -> None:
    stopped = pod("a").on("n").terminated(143).deleted(8)
    on = node("n").tainted(key)
    assert said(stopped, on) == [("preempted", f"exit code 143 (signal 15); node n tainted {key}")]
    assert consequences(stopped, on) == [("preempted", False)]


@pytest.mark.row("6.3/node-going")
def test_node_that_is_being_deleted_preempts() -> None:
    stopped = pod("a").on("n").terminated(143).deleted(8)
    assert said(stopped, node("n").deleted(5)) == [("preempted", "exit code 143 (signal 15); node n is being deleted")]


# ---------------------------------------------------------------- which one is the cause


def detail_of(*built: PodBuilder) -> str:
    ranked = findings([view(each, node("n")) for each in built], Site())
    return cause(ranked[0], ranked).detail


@pytest.mark.row("6.3/winner")
def test_earliest_is_the_cause_and_the_others_follow_in_order() -> None:
    detail = detail_of(
        pod("a", index=0).terminated(1, finished=12),
        pod("b", index=1).terminated(3, finished=11),
        pod("c", index=2).terminated(2, finished=13),
    )
    assert detail == "pod b: exit code 3; other ranks: a non-zero-exit (exit code 1), c non-zero-exit (exit code 2)"


@pytest.mark.row("6.3/consequence", "6.3/winner")
def test_consequence_sorts_last_whatever_its_time() -> None:
    first = pod("a", index=0).terminated(143, finished=5).deleted(4)
    assert detail_of(first, pod("b", index=1).terminated(3, finished=11)).startswith("pod b: exit code 3")


def test_finding_without_a_time_sorts_before_consequences_only() -> None:
    timeless = pod("b", index=1).terminated(137, "ContainerStatusUnknown", finished=None)
    assert detail_of(timeless, pod("a", index=2).terminated(3, finished=99)).startswith("pod a")
    assert detail_of(timeless, pod("a", index=0).terminated(143, finished=5).deleted(4)).startswith("pod b")


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        (pod("x", index=9).on("n").disrupted("DeletionByTaintManager"), pod("p").disrupted("PreemptionByScheduler")),
        (pod("x", index=9).disrupted("PreemptionByScheduler"), pod("o").terminated(137, "OOMKilled")),
        (pod("x", index=9).terminated(137, "OOMKilled"), pod("e").terminated(1)),
        (pod("x", index=9).terminated(1), pod("u").terminated(137, "ContainerStatusUnknown")),
        (pod("x", index=0).terminated(1), pod("a", index=1).terminated(2)),
        (pod("x", index=2).terminated(1), pod("a", index=10).terminated(2)),
    ],
)
def test_on_a_tie_the_stronger_kind_then_the_lower_index_wins(winner: PodBuilder, loser: PodBuilder) -> None:
    lost = node("n").lost()
    ranked = findings([view(loser, lost), view(winner, lost)], Site())
    assert ranked[0].view.name == "x"


@pytest.mark.row("6.3/winner")
def test_only_the_newest_pod_of_a_rank_counts() -> None:
    old, new = pod("old").terminated(3, finished=5).created(1), pod("new").terminated(4, finished=9).created(2)
    assert detail_of(old, new) == "pod new: exit code 4"


def test_live_pod_is_newer_than_a_captured_one_of_the_same_second() -> None:
    views = [view(pod("z").terminated(3), live=False), view(pod("a").terminated(4))]
    assert [each.view.name for each in findings(views, Site())] == ["a"]


def test_time_of_the_evidence_is_the_causes_and_unknown_has_no_provenance() -> None:
    ranked = findings([view(pod("a").disrupted("Surprise", since=7))], Site())
    found = cause(ranked[0], ranked)
    assert (found.kind, found.provenance, found.at) == ("unknown", "", at(7))


@pytest.mark.row("6.3/taint-node-lost")
def test_captured_pod_is_judged_by_the_node_as_it_was() -> None:
    taken: Any = pod("a").on("node-0").terminated(143).disrupted("DeletionByTaintManager", since=10)
    job = scenario()
    job.captured = [taken.captured(node("node-0").lost())]
    job.trainjob.with_condition("Failed", "FailedJobs")
    assert job.cause()[0] == "node-lost"

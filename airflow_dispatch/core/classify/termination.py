"""How ``node``, or an init container before it, ended (contract, section 6.3, second and third tables)."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from airflow_dispatch.core.classify.conditions import words
from airflow_dispatch.core.classify.nodes import taint
from airflow_dispatch.core.classify.pods import PodView, running, termination_of
from airflow_dispatch.core.classify.verdict import Verdict
from airflow_dispatch.core.objects import ContainerStatus, Node, Terminated
from airflow_dispatch.core.observation import CauseKind
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import Site

SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137
_NEVER_STARTED: Final = ("StartError", "ContainerCannotRun")


class Ended(NamedTuple):
    """A termination that is no success; ``restarted``: the container runs again."""

    kind: CauseKind
    detail: str
    at: datetime | None
    consequence: bool
    restarted: bool


def judge(view: PodView, site: Site) -> Ended | None:
    """What ``node`` says, else the first init container that failed; None when nothing ended badly."""
    if view.trainer is not None and view.started:
        return _judge_container(view, view.trainer, site)
    if view.phase == "Succeeded":
        return None
    judged = (_judge_init_container(view, status, site) for status in view.init_containers)
    return next((ended for ended in judged if ended is not None), None)


def _judge_container(view: PodView, status: ContainerStatus, site: Site) -> Ended | None:
    terminated = termination_of(status)
    verdict = _exit(terminated) if terminated is not None else None
    if terminated is None or verdict is None:
        return None
    ended = Ended(verdict.kind, verdict.detail, terminated.finished_at, consequence=False, restarted=running(status))
    return _stopped(view, ended, site) if _was_stopped(view, terminated) else ended


@implements(
    Row(
        "6.3",
        "init",
        "an init container, by the same rows",
        cause="the same",
        details=("init container <name>: <detail>", "init container <name>: <detail>: <message>"),
    )
)
def _judge_init_container(view: PodView, status: ContainerStatus, site: Site) -> Ended | None:
    ended = _judge_container(view, status, site)
    terminated = termination_of(status)
    if ended is None or terminated is None:
        return None
    said = terminated.message if terminated.reason not in _NEVER_STARTED else None
    return ended._replace(detail=words(f"init container {status.name}: {ended.detail}", said))


@implements(
    Row("6.3", "exit-0", "exit code 0: no finding, whatever the reason says", (CauseKind.NONE,)),
    Row("6.3", "oom", "{reasons}", (CauseKind.OUT_OF_MEMORY,), None, ("OOMKilled, exit code <n>",), ("OOMKilled",)),
    Row(
        "6.3",
        "status-unknown",
        "{reasons}",
        (CauseKind.UNKNOWN,),
        details=("ContainerStatusUnknown, exit code <n>",),
        reasons=("ContainerStatusUnknown",),
    ),
    Row(
        "6.3",
        "never-started",
        "{reasons}",
        (CauseKind.NON_ZERO_EXIT,),
        details=("<reason>, exit code <n>: <message>", "<reason>, exit code <n>"),
        reasons=_NEVER_STARTED,
    ),
    Row(
        "6.3",
        "signal",
        "exit code above 128",
        (CauseKind.NON_ZERO_EXIT,),
        details=("exit code <n> (signal <n-128>)",),
    ),
    Row("6.3", "exit", "any other exit code", (CauseKind.NON_ZERO_EXIT,), details=("exit code <n>",)),
)
def _exit(terminated: Terminated) -> Verdict | None:
    """The first test that matches; None for exit code 0, whatever the reason says."""
    code, reason = terminated.exit_code, terminated.reason or ""
    if code == 0:
        return None
    if reason == "OOMKilled":
        return Verdict(CauseKind.OUT_OF_MEMORY, f"OOMKilled, exit code {code}")
    if reason == "ContainerStatusUnknown":
        return Verdict(CauseKind.UNKNOWN, f"ContainerStatusUnknown, exit code {code}")
    if reason in _NEVER_STARTED:
        return Verdict(CauseKind.NON_ZERO_EXIT, words(f"{reason}, exit code {code}", terminated.message))
    if code > 128:  # noqa: PLR2004 - the shell's convention: 128 + the signal's number
        return Verdict(CauseKind.NON_ZERO_EXIT, f"exit code {code} (signal {code - 128})")
    return Verdict(CauseKind.NON_ZERO_EXIT, f"exit code {code}")


def _was_stopped(view: PodView, terminated: Terminated) -> bool:
    """It ended because its pod was being deleted, and nothing says why that was.

    A pod that ended by itself and was deleted later was not stopped. ``OOMKilled`` with 143 is a stale reason on a
    container that SIGTERM ended (kubernetes#140716).
    """
    by_signal = terminated.exit_code == SIGTERM_EXIT or (
        terminated.exit_code == SIGKILL_EXIT and terminated.reason != "OOMKilled"
    )
    requested = view.deletion_requested
    if not by_signal or requested is None or view.disruption is not None:
        return False
    return terminated.finished_at is None or terminated.finished_at >= requested


@implements(
    Row(
        "6.3",
        "node-going",
        "143, or 137 without `OOMKilled`, of a pod that was being deleted without DisruptionTarget, and its Node is "
        "being deleted or has a disruption taint",
        (CauseKind.PREEMPTED,),
        details=("<detail>; node <node> tainted <key>", "<detail>; node <node> is being deleted"),
    ),
    Row(
        "6.3",
        "consequence",
        "the same, otherwise: a *consequence*, which sorts last whatever its time",
        cause="the same",
        details=("<detail>",),
    ),
)
def _stopped(view: PodView, ended: Ended, site: Site) -> Ended:
    """A consequence of what went wrong first; not so when its Node is being taken away: that is what happened to it."""
    if isinstance(view.node, Node):
        disrupted = taint(view.node, site.all_disruption_taints)
        if disrupted is not None:
            return _preempted(ended, f"node {view.node_name} tainted {disrupted.key}")
        if view.node.metadata.deletion_timestamp is not None:
            return _preempted(ended, f"node {view.node_name} is being deleted")
    return ended._replace(consequence=True)


def _preempted(ended: Ended, why: str) -> Ended:
    return ended._replace(kind=CauseKind.PREEMPTED, detail=f"{ended.detail}; {why}")

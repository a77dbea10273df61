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
from airflow_dispatch.core.snapshot import Site

SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137
_NEVER_STARTED: Final = frozenset({"StartError", "ContainerCannotRun"})


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
    verdict, consequence = _when_deleted(view, terminated, verdict, site)
    return Ended(verdict.kind, verdict.detail, terminated.finished_at, consequence, running(status))


def _judge_init_container(view: PodView, status: ContainerStatus, site: Site) -> Ended | None:
    ended = _judge_container(view, status, site)
    terminated = termination_of(status)
    if ended is None or terminated is None:
        return None
    said = terminated.message if terminated.reason not in _NEVER_STARTED else None
    return ended._replace(detail=words(f"init container {status.name}: {ended.detail}", said))


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


def _when_deleted(view: PodView, terminated: Terminated, verdict: Verdict, site: Site) -> tuple[Verdict, bool]:
    """The verdict, and whether it is a consequence: it was stopped because its pod was being deleted.

    Not so when its Node is being taken away: then that is what happened to it. A pod that ended by itself and was
    deleted later is no consequence. ``OOMKilled`` with 143 is a stale reason on a container that SIGTERM ended
    (kubernetes#140716).
    """
    stopped = terminated.exit_code == SIGTERM_EXIT or (
        terminated.exit_code == SIGKILL_EXIT and terminated.reason != "OOMKilled"
    )
    requested = view.deletion_requested
    if not stopped or requested is None or view.disruption is not None:
        return verdict, False
    if terminated.finished_at is not None and terminated.finished_at < requested:
        return verdict, False
    if isinstance(view.node, Node):
        disrupted = taint(view.node, site.all_disruption_taints)
        if disrupted is not None:
            return _preempted(verdict, f"node {view.node_name} tainted {disrupted.key}"), False
        if view.node.metadata.deletion_timestamp is not None:
            return _preempted(verdict, f"node {view.node_name} is being deleted"), False
    return verdict, True


def _preempted(verdict: Verdict, why: str) -> Verdict:
    return Verdict(CauseKind.PREEMPTED, f"{verdict.detail}; {why}")

"""The cause of a running object: the first rule that applies (contract, section 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from airflow_dispatch.core.classify.conditions import condition, words_of
from airflow_dispatch.core.classify.creation import creation_refused
from airflow_dispatch.core.classify.evicted import evicted
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.findings import Finding, cause
from airflow_dispatch.core.classify.nodes import ready, taint
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.objects import Node
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import NodeAbsence


@implements(
    Row(
        "6.1",
        "0",
        "Kueue mode: the Workload is evicted, and still admitted",
        cause="see [Pending](#pending), its first rows",
        details=("<detail>",),
    )
)
def evicted_and_admitted(facts: Facts) -> Cause | None:
    """Row 0: both conditions may be True for good."""
    return evicted(facts)


@implements(
    Row(
        "6.1",
        "1",
        "a live, unfinished pod of the current execution is bound to a Node that is gone",
        (CauseKind.NODE_LOST,),
        Provenance.DERIVED,
        ("pod <pod>: node <node> is gone",),
    )
)
def node_gone(facts: Facts) -> Cause | None:
    for view in facts.bound:
        if view.node is NodeAbsence.GONE:
            return Cause(
                kind=CauseKind.NODE_LOST,
                provenance=Provenance.DERIVED,
                detail=f"pod {view.name}: node {view.node_name} is gone",
            )
    return None


@implements(
    Row(
        "6.1",
        "2",
        "the same, its Node is `Ready=False` or `Ready=Unknown`",
        (CauseKind.NODE_LOST,),
        Provenance.DERIVED,
        ("pod <pod>: node <node> Ready=<status> (<reason>)", "pod <pod>: node <node> Ready=<status>"),
    )
)
def node_not_ready(facts: Facts) -> Cause | None:
    for view, node in _on_nodes(facts):
        state = ready(node)
        if state is not None and state.status in ("False", "Unknown"):
            because = f" ({state.reason})" if state.reason else ""
            return Cause(
                kind=CauseKind.NODE_LOST,
                provenance=Provenance.DERIVED,
                detail=f"pod {view.name}: node {view.node_name} Ready={state.status}{because}",
                at=state.last_transition_time,
            )
    return None


@implements(
    Row(
        "6.1",
        "3",
        "the same, its Node has a node-loss taint",
        (CauseKind.NODE_LOST,),
        Provenance.DERIVED,
        ("pod <pod>: node <node> tainted <key>",),
    )
)
def node_tainted(facts: Facts) -> Cause | None:
    keys = facts.site.all_node_loss_taints
    for view, node in _on_nodes(facts):
        lost = taint(node, keys)
        if lost is not None:
            return Cause(
                kind=CauseKind.NODE_LOST,
                provenance=Provenance.DERIVED,
                detail=f"pod {view.name}: node {view.node_name} tainted {lost.key}",
                at=lost.time_added,
            )
    return None


@implements(
    Row(
        "6.1",
        "4",
        "a rank of the admission and restart that should run now has failed, and nothing has acted on it yet",
        cause="as the pod says, derived",
        details=("pod <pod>: <detail>", "pod <pod>: <detail>; other ranks: <others>"),
    )
)
def rank_failed(facts: Facts) -> Cause | None:
    ranked = [each for each in facts.findings if _still_counts(facts, each)]
    return cause(ranked[0], ranked) if ranked else None


@implements(
    Row(
        "6.1",
        "5",
        "a live pod has `PodScheduled=False`, {reasons}",
        (CauseKind.NO_CAPACITY,),
        Provenance.DERIVED,
        ("pod <pod>: <words>",),
        ("Unschedulable",),
    )
)
def unschedulable(facts: Facts) -> Cause | None:
    for view in facts.live:
        scheduled = condition(view.pod.status, "PodScheduled")
        if scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable":
            return Cause(
                kind=CauseKind.NO_CAPACITY,
                provenance=Provenance.DERIVED,
                detail=f"pod {view.name}: {words_of(scheduled)}",
                at=scheduled.last_transition_time,
            )
    return None


@implements(Row("6.1", "7", "otherwise", (CauseKind.NONE,)))
def _nothing_wrong() -> Cause:
    return Cause()


ROWS: Final[tuple[Callable[[Facts], Cause | None], ...]] = (
    evicted_and_admitted,
    node_gone,
    node_not_ready,
    node_tainted,
    rank_failed,
    unschedulable,
    creation_refused,
)
"""Rows 0 to 6, in their order."""


def running(facts: Facts) -> Cause:
    """What is wrong with an object that runs, if anything."""
    return next((found for row in ROWS if (found := row(facts)) is not None), None) or _nothing_wrong()


def _on_nodes(facts: Facts) -> Iterator[tuple[PodView, Node]]:
    for view in facts.bound:
        if isinstance(view.node, Node):
            yield view, view.node


def _still_counts(facts: Facts, finding: Finding) -> bool:
    """It is of the pods that should run now, its container does not run again, and no newer pod has taken its rank."""
    should_run = finding.view.counters == (facts.patch_admission, facts.restarts)
    return should_run and not finding.restarted and not facts.replaced(finding.view)

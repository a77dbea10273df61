"""What pods say of why an execution broke, and which of it is the cause (contract, section 6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from airflow_dispatch.core.classify import disruption, rejection, termination
from airflow_dispatch.core.classify.pods import PodView, newest_of_each_rank
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import Site

PRECEDENCE: Final = (CauseKind.NODE_LOST, CauseKind.PREEMPTED, CauseKind.OUT_OF_MEMORY, CauseKind.NON_ZERO_EXIT)
"""On a tie of time, which beats which; anything else comes after."""

_LAST = datetime.max.replace(tzinfo=UTC)


class Finding(NamedTuple):
    """One piece of evidence of one pod.

    ``disruptive``: it comes from DisruptionTarget. ``consequence``: it was stopped because something else had gone
    wrong. ``restarted``: its container runs again.
    """

    view: PodView
    kind: CauseKind
    detail: str
    at: datetime | None
    disruptive: bool = False
    consequence: bool = False
    restarted: bool = False

    @property
    def order(self) -> tuple[bool, datetime, int, tuple[int, str], str]:
        """Sorts the cause first; the end of time stands for no time."""
        beats = PRECEDENCE.index(self.kind) if self.kind in PRECEDENCE else len(PRECEDENCE)
        return self.consequence, self.at or _LAST, beats, self.view.position, self.detail


def findings_of(view: PodView, site: Site) -> list[Finding]:
    """What one pod says: its disruption and its termination, or, when there is neither, why it was rejected."""
    found: list[Finding] = []
    if view.disruption is not None:
        verdict = disruption.judge(view, view.disruption, site)
        found.append(Finding(view, verdict.kind, verdict.detail, view.disruption.last_transition_time, disruptive=True))
    ended = termination.judge(view, site)
    if ended is not None:
        found.append(
            Finding(
                view,
                ended.kind,
                ended.detail,
                ended.at,
                consequence=ended.consequence,
                restarted=ended.restarted,
            )
        )
    if not found:
        refused = rejection.judge(view)
        if refused is not None:
            found.append(Finding(view, refused.kind, refused.detail, None))
    return found


def findings(execution: Iterable[PodView], site: Site) -> list[Finding]:
    """All findings of an execution, the cause first; of each completion index only the newest pod counts."""
    found = (each for view in newest_of_each_rank(execution) for each in findings_of(view, site))
    return sorted(found, key=lambda each: each.order)


@implements(
    Row(
        "6.3",
        "winner",
        "the finding that comes first is the cause, all others are told with it",
        cause="its own, derived; unknown has no provenance",
        details=("pod <pod>: <detail>", "pod <pod>: <detail>; other ranks: <others>"),
    )
)
def cause(winner: Finding, ranked: Sequence[Finding]) -> Cause:
    """The cause that a finding makes: ``pod <name>: <detail>``, then every other finding under ``other ranks``."""
    detail = f"pod {winner.view.name}: {winner.detail}"
    others = [f"{each.view.name} {each.kind} ({each.detail})" for each in ranked if each is not winner]
    if others:
        detail = f"{detail}; other ranks: {', '.join(others)}"
    provenance = Provenance.NONE if winner.kind is CauseKind.UNKNOWN else Provenance.DERIVED
    return Cause(kind=winner.kind, provenance=provenance, detail=detail, at=winner.at)

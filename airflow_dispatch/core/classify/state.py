"""The state, and the cause it comes with: the first rule that matches (contract, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.conditions import join, true, words_of
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.failed import failed
from airflow_dispatch.core.classify.pending import pending
from airflow_dispatch.core.classify.running import running
from airflow_dispatch.core.classify.suspended import suspended_by_another
from airflow_dispatch.core.objects import Condition
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance, State
from airflow_dispatch.core.rows import Row, implements

KNOWN_CONDITIONS: Final = frozenset({"Suspended", "Complete", "Failed"})


class Ruling(NamedTuple):
    """What the rules say, before the notes of sections 7 and 8 are added to the detail."""

    state: State
    cause: Cause
    admin_held: bool = False


@implements(
    Row(
        "3",
        "0",
        "its end was seen or written down (annotation `verdict`), and the object shows none any more",
        state=State.ENDED,
        cause="as it was then",
        details=("<detail>",),
    )
)
def erased_end(facts: Facts) -> Ruling | None:
    """Rule 0: its end was seen or written down, and the object has lost it since."""
    if facts.complete is not None or facts.failed is not None:
        return None
    text = facts.metadata.annotation(names.ANNOTATION_VERDICT)
    if text is not None:
        return Ruling(State.ENDED, _verdict(text))
    return Ruling(State.ENDED, facts.snapshot.seen_end) if facts.snapshot.seen_end is not None else None


@implements(
    Row(
        "3",
        "1",
        "`Complete=True`",
        (CauseKind.COMPLETED,),
        Provenance.REPORTED,
        ("<words>",),
        state=State.ENDED,
    ),
    Row(
        "3",
        "2",
        "`Failed=True`",
        state=State.ENDED,
        cause="see [Failed](#failed)",
        details=("<detail>",),
    ),
)
def ended(facts: Facts) -> Ruling | None:
    """Rules 1 and 2: ``Complete=True``, then ``Failed=True``."""
    if facts.complete is not None:
        return Ruling(State.ENDED, _completed(facts.complete))
    if facts.failed is not None:
        return Ruling(State.ENDED, failed(facts, facts.failed))
    return None


@implements(
    Row(
        "3",
        "3",
        "dispatch's own gate is on the TrainJob; in plain mode also when it was never opened and is suspended",
        (CauseKind.NONE,),
        state=State.GATED,
    )
)
def gated(facts: Facts) -> Ruling | None:
    """Rule 3: dispatch's own gate, read from the TrainJob alone; another party's gate makes nothing gated."""
    closed = not facts.kueue and not facts.opened and facts.suspend_asked
    return Ruling(State.GATED, Cause()) if closed or names.GATE in facts.trainjob_gates else None


@implements(
    Row(
        "3",
        "4",
        "a hold of dispatch's is in force: `hold-instance` is a decimal of at least 1",
        (CauseKind.NONE,),
        state=State.HELD,
    )
)
def held(facts: Facts) -> Ruling | None:
    """Rule 4: a hold of ours is in force."""
    return Ruling(State.HELD, Cause()) if facts.hold_instance else None


@implements(
    Row(
        "3",
        "5",
        "suspended by somebody else",
        state=State.HELD,
        cause="see [Suspended](#suspended-by-somebody-else)",
        details=("<detail>",),
    )
)
def held_by_another(facts: Facts) -> Ruling | None:
    """Rule 5: suspended by someone else."""
    found = suspended_by_another(facts)
    return Ruling(State.HELD, found.cause, found.admin_held) if found is not None else None


@implements(
    Row(
        "3",
        "6-running",
        "everything else: admitted and not suspended",
        state=State.RUNNING,
        cause="see [Running](#running)",
        details=("<detail>",),
    ),
    Row(
        "3",
        "6-pending",
        "everything else: not admitted, or suspended",
        state=State.PENDING,
        cause="see [Pending](#pending)",
        details=("<detail>",),
    ),
)
def everything_else(facts: Facts) -> Ruling:
    """Rule 6: running when admitted and not suspended, else pending."""
    if facts.admitted and facts.not_suspended:
        return Ruling(State.RUNNING, running(facts))
    return Ruling(State.PENDING, pending(facts))


RULES: Final[tuple[Callable[[Facts], Ruling | None], ...]] = (erased_end, ended, gated, held, held_by_another)
"""Rules 0 to 5, in their order; rule 6 covers the rest."""


def rule(facts: Facts) -> Ruling:
    """The ruling of the first rule that matches, with TrainJob conditions that no rule knows when it names no cause."""
    matching = next((found for each in RULES if (found := each(facts)) is not None), None)
    ruling = matching if matching is not None else everything_else(facts)
    unknown = unknown_conditions(facts, ruling.cause) or unreadable(facts, ruling.cause)
    return ruling._replace(cause=unknown) if unknown is not None else ruling


@implements(
    Row(
        "3",
        "unknown-condition",
        "the rules name no cause, and conditions of the TrainJob are True that nobody knows",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        ("TrainJob <type>: <words>", "<detail>; TrainJob <type>: <words>"),
        cause="unknown; the state stays",
    )
)
def unknown_conditions(facts: Facts, cause: Cause) -> Cause | None:
    """What conditions say that are not Suspended, Complete or Failed, in order of type, when no rule names a cause."""
    if cause.kind is not CauseKind.NONE:
        return None
    status = facts.trainjob.status
    types = {each.type for each in (status.conditions if status is not None else None) or ()}
    unknown = [found for kind in sorted(types - KNOWN_CONDITIONS) if (found := true(status, kind)) is not None]
    if not unknown:
        return None
    detail = join([cause.detail, *(f"TrainJob {each.type}: {words_of(each)}" for each in unknown)])
    return Cause(kind=CauseKind.UNKNOWN, detail=detail, at=unknown[0].last_transition_time)


@implements(
    Row(
        "3",
        "unreadable",
        "the rules name no cause, and a part of an object is not of the documented shape; the notes say it",
        (CauseKind.UNKNOWN,),
        Provenance.NONE,
        ("<detail>",),
        cause="unknown; the state stays",
    )
)
def unreadable(facts: Facts, cause: Cause) -> Cause | None:
    """A cause that nothing names may stand in what could not be read."""
    odd = cause.kind is CauseKind.NONE and facts.odd
    return Cause(kind=CauseKind.UNKNOWN, detail=cause.detail) if odd else None


def _completed(condition: Condition) -> Cause:
    return Cause(
        kind=CauseKind.COMPLETED,
        provenance=Provenance.REPORTED,
        detail=words_of(condition),
        at=condition.last_transition_time,
    )


def _verdict(text: str) -> Cause:
    """The annotation ``verdict``; one that can't be read still says that the object had ended."""
    try:
        return msgspec.json.decode(text, type=Cause)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return Cause(kind=CauseKind.UNKNOWN, detail=f"verdict is {text}")

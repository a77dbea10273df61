"""What contradicts the object's name or was changed by someone else (contract, section 7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.identity import parse_comment, parse_decimal
from airflow_dispatch.core.rows import Row, implements


@implements(
    Row(
        "7",
        "labels",
        "a label of ours is there and contradicts the name",
        details=(
            "label job-id is <v>",
            "label submission is <v>",
        ),
    )
)
def labels(facts: Facts) -> Iterator[str]:
    """A label that is present and different; one that was removed contradicts nothing."""
    if facts.submission is None:
        return
    for key, word, expected in (
        (names.LABEL_JOB_ID, "job-id", facts.submission.job_id),
        (names.LABEL_SUBMISSION, "submission", str(facts.submission.number)),
    ):
        value = facts.metadata.label(key)
        if value is not None and value != expected:
            yield f"label {word} is {value}"


@implements(
    Row(
        "7",
        "comment",
        "the comment annotation is not of its form, or of another submission",
        details=("comment is <v>",),
    )
)
def comment(facts: Facts) -> Iterator[str]:
    text = facts.metadata.annotation(names.ANNOTATION_COMMENT)
    if text is None or facts.submission is None:
        return
    parsed = parse_comment(text)
    if parsed is None or parsed[0] != facts.submission.number:
        yield f"comment is {text}"


@implements(
    Row("7", "patch", "our runtime patch is missing or contradicts the name", details=("runtime patch was changed",))
)
def patch(facts: Facts) -> Iterator[str]:
    """Our runtime-patch entry; unlike a TrainJob's labels, those in it can't be stripped without rewriting it."""
    if facts.submission is None:
        return
    expected = facts.submission.job_id, str(facts.submission.number)
    if facts.patch is None or facts.patch.admission is None or facts.patch[:2] != expected:
        yield "runtime patch was changed"


@implements(
    Row(
        "7",
        "floor",
        "the admission in the patch is no decimal, or below what it was raised to",
        details=("admission <v> is below the floor <f>",),
    )
)
def admission(facts: Facts) -> Iterator[str]:
    text = facts.patch.admission if facts.patch is not None else None
    if text is None:
        return
    floor = parse_decimal(facts.metadata.annotation(names.ANNOTATION_ADMISSION_FLOOR)) or 0
    number = parse_decimal(text)
    if number is None or number < floor:
        yield f"admission {text} is below the floor {floor}"


@implements(Row("7", "jobset", "the JobSet is another one than at first", details=("JobSet was replaced",)))
def jobset(facts: Facts) -> Iterator[str]:
    expected = facts.metadata.annotation(names.ANNOTATION_JOBSET_UID)
    found = facts.snapshot.jobset
    if expected and found is not None and found.metadata.uid != expected:
        yield "JobSet was replaced"


@implements(
    Row(
        "7",
        "runtime",
        "the runtime copy is missing, edited, or another TrainJob's",
        details=(
            "runtime copy is gone",
            "runtime copy was edited (generation <g>)",
            "runtime copy is owned by <uid>",
        ),
    )
)
def runtime(facts: Facts) -> Iterator[str]:
    copy = facts.snapshot.runtime
    if copy is None:
        yield "runtime copy is gone"
        return
    if (copy.metadata.generation or 0) > 1:
        yield f"runtime copy was edited (generation {copy.metadata.generation})"
    owners = [owner.uid for owner in copy.metadata.owner_references or () if owner.kind == "TrainJob"]
    if owners and facts.metadata.uid not in owners:
        yield f"runtime copy is owned by {owners[0]}"


@implements(
    Row(
        "7",
        "pods",
        "a pod of the JobSet says it is another job's",
        details=(
            "pod <pod> has job-id <v>",
            "pod <pod> has submission <v>",
        ),
    )
)
def pods(facts: Facts) -> Iterator[str]:
    """Pods of this JobSet's name that say they are another job's; initializer pods carry no labels of ours."""
    if facts.submission is None:
        return
    expectations = (
        (names.LABEL_JOB_ID, "job-id", facts.submission.job_id),
        (names.LABEL_SUBMISSION, "submission", str(facts.submission.number)),
    )
    for view in sorted(facts.live, key=lambda each: each.name):
        labels = view.pod.metadata.labels or {}
        if labels.get(names.LABEL_JOBSET_NAME) != facts.metadata.name:
            continue
        for key, word, expected in expectations:
            value = labels.get(key)
            if value is not None and value != expected:
                yield f"pod {view.name} has {word} {value}"


@implements(Row("7", "hold", "a hold that is no decimal of at least 1", details=("hold-instance is <v>",)))
def hold(facts: Facts) -> Iterator[str]:
    """A malformed hold-instance is no hold."""
    if facts.hold_text is not None and not facts.hold_instance:
        yield f"hold-instance is {facts.hold_text}"


@implements(
    Row(
        "7",
        "run-twice",
        "two pods of one rank have started under the same A and J",
        details=("execution <A>.<J> has run twice: <pods>",),
    )
)
def run_twice(facts: Facts) -> Iterator[str]:
    """Two pods of one completion index that have started under the same A and J: one note an execution."""
    ran: dict[tuple[tuple[int, int], int, str], list[PodView]] = defaultdict(list)
    for view in facts.pods:
        if view.counters is not None and view.index is not None and view.started:
            ran[view.counters, view.index, view.rank[0]].append(view)
    twice = sorted(rank for rank, views in ran.items() if len(views) > 1)
    lowest = {rank[0]: rank for rank in reversed(twice)}
    for counters in sorted(lowest, key=lambda each: (sum(each), each)):
        views = sorted(ran[lowest[counters]], key=lambda view: (view.age[0], view.name))
        yield f"execution {counters[0]}.{counters[1]} has run twice: {', '.join(view.name for view in views)}"


ROWS: Final[tuple[Callable[[Facts], Iterator[str]], ...]] = (
    labels,
    comment,
    patch,
    admission,
    jobset,
    runtime,
    pods,
    hold,
    run_twice,
)


def foreign(facts: Facts) -> list[str]:
    """The notes, in the table's order; any of them makes the object foreign."""
    return [note for row in ROWS for note in row(facts)]


def accepted(facts: Facts) -> list[str]:
    """What was allowed though it is unsafe (contract, section 9): a note beside these that makes nothing foreign."""
    copy = facts.snapshot.runtime
    unsafe = copy is not None and copy.metadata.annotation(names.ANNOTATION_RUNTIME_UNSAFE) is not None
    return ["runtime may overlap"] if unsafe else []

"""What could not be created: Events alone say why (contract, section 6.1, row 6, and the notes of section 8)."""

from __future__ import annotations

from typing import Final

from airflow_dispatch.core.classify.conditions import condition
from airflow_dispatch.core.classify.events import (
    JOB_CREATION_FAILED,
    POD_CREATION_FAILED,
    RESOURCES_CREATION_FAILED,
    about,
    event_time,
    newest,
)
from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.objects import Event
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance
from airflow_dispatch.core.rows import Row, implements

_REFUSALS: Final = ("forbidden", "invalid")


def resources_failure(facts: Facts) -> Event | None:
    """The newest Event in which Trainer says why it could not write the TrainJob's resources."""
    return newest(facts.snapshot.events, RESOURCES_CREATION_FAILED)


def job_is_missing(facts: Facts) -> bool:
    """The JobSet is there and resumed, its Job is not."""
    jobset = facts.snapshot.jobset
    return jobset is not None and jobset.spec.suspend is not True and not facts.snapshot.jobs


def job_failure(facts: Facts) -> Event | None:
    """The newest Event in which JobSet says why it could not create the Job."""
    return newest(facts.snapshot.events, JOB_CREATION_FAILED)


def pods_are_missing(facts: Facts) -> bool:
    """The Job is there and resumed, and has no pod."""
    job = facts.trainer_job
    return job is not None and job.spec.suspend is not True and not facts.pods_of(job)


def pod_failure(facts: Facts) -> Event | None:
    """The newest Event in which the Job controller says why it could not create a pod, since the Job was resumed."""
    job = facts.trainer_job
    if job is None:
        return None
    resumed = condition(job.status, "Suspended")
    since = resumed.last_transition_time if resumed is not None else None
    return newest(
        facts.snapshot.events,
        POD_CREATION_FAILED,
        of=lambda event: about(event, "Job", job.metadata.uid) and (since is None or event_time(event) >= since),
    )


@implements(
    Row(
        "6.1",
        "6-quota",
        "the Job or its pods can't be created, and the newest Event says `exceeded quota`; the notes say it",
        (CauseKind.NO_CAPACITY,),
        Provenance.DERIVED,
    ),
    Row(
        "6.1",
        "6-refused",
        "the same, and it says `forbidden` or `invalid`",
        (CauseKind.REJECTED,),
        Provenance.DERIVED,
    ),
)
def creation_refused(facts: Facts) -> Cause | None:
    """Section 6.1, row 6: a refusal that waiting alone does not mend; its words stand in the notes of section 8."""
    failures = [
        job_failure(facts) if not facts.snapshot.jobs else None,
        pod_failure(facts) if pods_are_missing(facts) else None,
    ]
    event = max((each for each in failures if each is not None), key=event_time, default=None)
    if event is None:
        return None
    message, at = event.message or "", event_time(event)
    if "exceeded quota" in message:
        return Cause(kind=CauseKind.NO_CAPACITY, provenance=Provenance.DERIVED, at=at)
    if any(word in message for word in _REFUSALS):
        return Cause(kind=CauseKind.REJECTED, provenance=Provenance.DERIVED, at=at)
    return None

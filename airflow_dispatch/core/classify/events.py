"""The newest Event of a reason: Trainer, JobSet and Job say in Events alone why they could not create something."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from airflow_dispatch.core.objects import Event

_FIRST = datetime.min.replace(tzinfo=UTC)

RESOURCES_CREATION_FAILED = "TrainJobResourcesCreationFailed"
JOB_CREATION_FAILED = "JobCreationFailed"
POD_CREATION_FAILED = "FailedCreate"


def event_time(event: Event) -> datetime:
    """When it was last seen; the first instant there is when it carries no time at all."""
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or _FIRST


def newest(events: Iterable[Event], *reasons: str, of: Callable[[Event], bool] = lambda _: True) -> Event | None:
    """The newest Event with one of these reasons for which ``of`` holds, or None; on a tie the later name."""
    matching = (event for event in events if event.reason in reasons and of(event))
    return max(matching, key=lambda event: (event_time(event), event.metadata.name), default=None)


def about(event: Event, kind: str, uid: str) -> bool:
    """The Event is about this object."""
    involved = event.involved_object
    return involved is not None and involved.kind == kind and involved.uid == uid

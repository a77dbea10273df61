"""When the current execution began, for the durations that a person reads."""

from __future__ import annotations

from datetime import datetime

from airflow_dispatch.core.classify.facts import Facts
from airflow_dispatch.core.snapshot import Snapshot

__all__ = ["began"]


def began(snapshot: Snapshot, now: datetime) -> datetime | None:
    """When a kubelet took up the first pod of the current execution (section 6.4); None when none is known."""
    statuses = [view.pod.status for view in Facts(snapshot, now).current]
    return min((status.start_time for status in statuses if status and status.start_time), default=None)

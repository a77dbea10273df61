"""Events in the older and the newer form."""

from __future__ import annotations

from datetime import timedelta

from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.controllers.events import EventRecorder, Recorder
from airflow_dispatch.localcluster.resources import CONFIGMAPS, EVENTS


def _events(recorder_type: type[Recorder], *, changed: bool) -> list[dict[str, object]]:
    """Two Events of the same words, the second a minute later and perhaps about a changed object."""
    clock = VirtualClock()
    registry = Registry(clock)
    obj = registry.create(CONFIGMAPS, "default", {"metadata": {"name": "a"}})
    recorder = recorder_type(registry, clock, "some-controller")
    recorder.record(CONFIGMAPS, obj, "Normal", "Reason", "words")
    clock.step(clock.now() + timedelta(minutes=1))
    if changed:
        obj["data"] = {"x": "y"}
        obj = registry.update(CONFIGMAPS, "default", "a", obj)
    recorder.record(CONFIGMAPS, obj, "Normal", "Reason", "words")
    return list(registry.list(EVENTS, "default").items)


def test_the_older_form_counts_repetitions() -> None:
    (event,) = _events(Recorder, changed=True)
    assert event["count"] == 2
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-01-01T00:01:00Z"
    assert event["source"] == {"component": "some-controller"}
    assert "eventTime" not in event


def test_the_newer_form_makes_a_series_of_repetitions() -> None:
    (event,) = _events(EventRecorder, changed=False)
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert event["series"] == {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    assert event["action"] == "Reconciling"
    assert not {"count", "lastTimestamp", "firstTimestamp"} & set(event)


def test_the_newer_form_starts_anew_with_each_version_of_the_object() -> None:
    assert len(_events(EventRecorder, changed=True)) == 2

"""Every observation that the contract gives for the recordings of the real controllers, replayed through the store."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from airflow_dispatch.core.classify import classify, orphans
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.kube.store import Store
from tests.support.recordings import Expectation, expectations, recording, replay


@pytest.mark.parametrize("expected", [*expectations("plain"), *expectations("kueue")], ids=str)
def test_recorded_moment_is_classified_as_the_contract_says(expected: Expectation) -> None:
    played = recording(expected.mode, expected.scenario)
    until = played.time_of(expected.mark)
    now = played.clock(until)

    observation = _observe(replay(played, until), played.name, expected.ref, now)

    assert observation is not None
    assert _only(expected.observation, json.loads(observation.to_json())) == expected.observation


def _observe(store: Store, name: str, ref: str | None, now: datetime) -> Observation | None:
    if ref is not None:
        return next((each for each in orphans(store.leftovers(), now) if each.ref == ref), None)
    snapshot = store.snapshot(name)
    return classify(snapshot, now) if snapshot is not None else None


def _only(wanted: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``found`` that ``wanted`` has: fields that an expectation leaves out are not checked."""
    return {
        key: _only(value, found[key]) if isinstance(value, dict) and isinstance(found[key], dict) else found[key]
        for key, value in wanted.items()
    }

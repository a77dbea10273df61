"""Every observation that the contract gives for the recordings of the real controllers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_dispatch.core.classify import classify, orphans
from airflow_dispatch.core.observation import Observation
from tests.support.folding import Fold
from tests.support.recordings import Expectation, expectations, recording


@pytest.mark.parametrize("expected", [*expectations("plain"), *expectations("kueue")], ids=str)
def test_recorded_moment_is_classified_as_the_contract_says(expected: Expectation) -> None:
    played = recording(expected.mode, expected.scenario)
    until = played.time_of(expected.mark)
    fold = Fold(played.head["namespace"])
    for event, raw in played.events(until):
        fold.apply(event, raw)
    now = played.clock(until)

    if expected.ref is None:
        observation: Observation | None = classify(fold.snapshot(played.name), now)
    else:
        observation = next((each for each in orphans(fold.leftovers(), now) if each.ref == expected.ref), None)

    assert observation is not None
    assert _only(expected.observation, json.loads(observation.to_json())) == expected.observation


def _only(wanted: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``found`` that ``wanted`` has: fields that an expectation leaves out are not checked."""
    return {
        key: _only(value, found[key]) if isinstance(value, dict) and isinstance(found[key], dict) else found[key]
        for key, value in wanted.items()
    }

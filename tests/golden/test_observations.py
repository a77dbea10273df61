"""Every observation that the contract gives for the recordings of the real controllers, as ``replay`` prints it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from tests.support.recordings import Expectation, expectations, path_of, recording

EXPECTED = [*expectations("plain"), *expectations("kueue")]
THROUGH_THE_EXECUTABLE = [next(each for each in EXPECTED if each.mode == mode) for mode in ("plain", "kueue")]
EXECUTABLE = Path(sys.executable).parent / "airflow-dispatch"


@pytest.mark.parametrize("expected", EXPECTED, ids=str)
def test_recorded_moment_is_classified_as_the_contract_says(
    expected: Expectation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(expected)) == Exit.DONE
    printed, complaints = capsys.readouterr()

    assert only(expected.observation, observed(expected, printed)) == expected.observation
    assert complaints == ""


@pytest.mark.parametrize("expected", THROUGH_THE_EXECUTABLE, ids=str)
def test_the_executable_says_the_same(expected: Expectation, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([EXECUTABLE, *arguments(expected)], capture_output=True, text=True, check=True)
    main(arguments(expected))
    assert done.stdout == capsys.readouterr().out


def arguments(expected: Expectation) -> list[str]:
    file = str(path_of(expected.mode, expected.scenario))
    return ["replay", file, "--until", expected.mark, "--output", "json"]


def observed(expected: Expectation, printed: str) -> dict[str, Any]:
    """The object that is meant, among those that were printed."""
    head = recording(expected.mode, expected.scenario)
    ref = expected.ref or f"{head.head['namespace']}/{head.name}"
    (found,) = (each for each in map(json.loads, printed.splitlines()) if each["ref"] == ref)
    return dict(found)


def only(wanted: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``found`` that ``wanted`` has: fields that an expectation leaves out are not checked."""
    return {
        key: only(value, found[key]) if isinstance(value, dict) and isinstance(found[key], dict) else found[key]
        for key, value in wanted.items()
    }

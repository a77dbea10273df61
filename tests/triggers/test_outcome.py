from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_dispatch.exceptions import TrainJobNodeLostError
from airflow_dispatch.triggers.outcome import raise_or_return


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def log(self, level: int, message: str, *args: object) -> None:
        self.lines.append((level, message % args))


def event(kind: str, *output: str) -> dict[str, Any]:
    return {
        "status": "ended",
        "outcome": {"ref": "ml/dj-x-s1", "cause": {"kind": kind}},
        "line": f"ended: {kind}",
        "output": list(output),
    }


def test_the_worker_repeats_the_last_line_and_folds_the_output_of_the_rank_that_failed() -> None:
    log = Recorder()

    with pytest.raises(TrainJobNodeLostError, match="ended: node-lost"):
        raise_or_return(event("node-lost", "100 % done", "Killed"), log)

    assert log.lines == [
        (logging.ERROR, "ended: node-lost"),
        (logging.INFO, "::group::Last output of the rank that failed"),
        (logging.INFO, "100 % done"),
        (logging.INFO, "Killed"),
        (logging.INFO, "::endgroup::"),
    ]


def test_success_is_one_line() -> None:
    log = Recorder()

    outcome = raise_or_return(event("completed", "last words"), log)

    assert outcome["cause"]["kind"] == "completed"
    assert log.lines == [(logging.INFO, "ended: completed")]

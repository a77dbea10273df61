from __future__ import annotations

import pickle

import pytest

from airflow_dispatch import exceptions
from airflow_dispatch.core.observation import CauseKind
from airflow_dispatch.exceptions import TrainJobError, TrainJobUnknownError, error_of


def outcome(kind: str) -> dict[str, object]:
    return {"ref": "ml/dj-x-s1", "cause": {"kind": kind, "detail": "why"}}


def test_each_kind_of_cause_but_success_has_a_class_of_its_own() -> None:
    kinds = set(CauseKind) - {CauseKind.COMPLETED, CauseKind.NONE}

    classes = {type(error_of("line", outcome(kind))) for kind in kinds}

    assert len(classes) == len(kinds)
    assert all(issubclass(each, TrainJobError) for each in classes)


def test_an_end_without_a_cause_is_unknown() -> None:
    assert type(error_of("line", outcome("none"))) is TrainJobUnknownError


def test_success_is_no_exception() -> None:
    with pytest.raises(ValueError, match="completed"):
        error_of("line", outcome("completed"))


def test_an_exception_survives_pickling_with_its_message_and_outcome() -> None:
    error = error_of("ended: node-lost: why", outcome("node-lost"))

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.outcome, copy.cause) == (
        exceptions.TrainJobNodeLostError,
        "ended: node-lost: why",
        outcome("node-lost"),
        CauseKind.NODE_LOST,
    )

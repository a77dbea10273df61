"""Raising A: in our entry of the runtime patches and in the floor, nowhere else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.manifest import raise_admission, read_admission
from tests.support.builders import runtime_patch

OTHER = {"manager": "example.com/other", "trainingRuntimeSpec": runtime_patch()["trainingRuntimeSpec"]}


def trainjob(admission: str | None = "0", floor: str | None = None, *others: Any) -> dict[str, Any]:
    annotations = {} if floor is None else {names.ANNOTATION_ADMISSION_FLOOR: floor}
    patches = [*copy.deepcopy(list(others)), runtime_patch(admission=admission)]
    return {"metadata": {"name": "t", "annotations": annotations}, "spec": {"runtimePatches": patches}}


@pytest.mark.parametrize(
    ("admission", "floor", "raised"),
    [("0", None, 1), ("1", "1", 2), ("1", "7", 8), ("7", "1", 8), ("3", "nonsense", 4), ("3", "-1", 4)],
)
def test_it_is_above_all_that_ever_was(admission: str, floor: str | None, raised: int) -> None:
    found = trainjob(admission, floor, OTHER)
    assert raise_admission(found) == raised
    assert read_admission(found) == raised
    assert found["metadata"]["annotations"][names.ANNOTATION_ADMISSION_FLOOR] == str(raised)
    assert found["spec"]["runtimePatches"][0] == OTHER


@pytest.mark.parametrize("admission", [None, "", "x", "01", "-1", "1.0"])
def test_an_entry_that_somebody_changed_is_not_raised(admission: str | None) -> None:
    found = trainjob(admission)
    before = copy.deepcopy(found)
    with pytest.raises(Refused, match="removed or changed by someone else"):
        raise_admission(found)
    assert found == before


def test_an_entry_that_is_gone_is_not_made_anew() -> None:
    with pytest.raises(Refused, match="removed or changed"):
        raise_admission({"metadata": {"name": "t"}, "spec": {"runtimePatches": [OTHER]}})


def test_the_counter_has_an_end() -> None:
    with pytest.raises(Refused, match="admission 1000000 is above 999999"):
        raise_admission(trainjob("999999"))

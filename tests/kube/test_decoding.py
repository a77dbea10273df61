"""What is kept of an object that is not of the shape that Kubernetes documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_dispatch.core.objects import Pod, TrainJob
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import Unreadable, decode_record
from tests.support.builders import NAME, UID, pod, trainjob


def decoded(raw: Any) -> TrainJob:
    found = decode_record(paths.TRAINJOBS, json.dumps(raw).encode())
    assert isinstance(found, TrainJob)
    return found


def test_an_object_as_documented_has_no_problem() -> None:
    assert decoded(trainjob().raw).problem == ""


def test_a_status_that_is_odd_is_left_out_and_the_rest_stays() -> None:
    raw = trainjob(suspend=True).with_condition("Complete").raw
    raw["status"]["conditions"][0]["lastTransitionTime"] = "yesterday"
    found = decoded(raw)
    assert (found.metadata.name, found.metadata.uid, found.spec.suspend, found.status) == (NAME, UID, True, None)
    assert found.problem == "Invalid RFC3339 encoded datetime - at `$.status.conditions[0].lastTransitionTime`"


def test_of_odd_metadata_what_is_as_documented_stays() -> None:
    raw = trainjob().with_condition("Complete").raw
    raw["metadata"] |= {"generation": "2", "annotations": {"a": "1", "b": 2}, "labels": 7}
    found = decoded(raw)
    assert (found.metadata.annotations, found.metadata.labels, found.metadata.generation) == ({"a": "1"}, None, None)
    assert found.status is not None


@pytest.mark.parametrize(
    "change", [{"spec": 7}, {"status": {"phase": 7}}, {"metadata": {"name": "a", "labels": {"a": "1", "b": 2}}}]
)
def test_a_pod_that_is_odd_anywhere_says_nothing_of_its_end(change: dict[str, Any]) -> None:
    """Whoever asks whether anything of it may still run must not be told that it has ended."""
    found = decode_record(paths.PODS, json.dumps(pod("a").terminated(0).raw | change).encode())
    assert isinstance(found, Pod)
    assert (found.metadata.name, found.status) == ("a", None)
    assert found.problem


@pytest.mark.parametrize("raw", [7, [], None, {}, {"metadata": 7}, {"metadata": {"name": 7}}])
def test_what_has_no_name_is_no_object(raw: Any) -> None:
    found = decode_record(paths.TRAINJOBS, json.dumps(raw).encode())
    assert isinstance(found, Unreadable)
    assert (found.kind, found.metadata.name, bool(found.problem)) == ("TrainJob", "", True)

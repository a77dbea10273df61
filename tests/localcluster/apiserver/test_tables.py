from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.tables import table
from airflow_dispatch.localcluster.resources import CONFIGMAPS, EVENTS, JOBS, NODES, PODS, Resource

Object = dict[str, Any]
BORN = datetime(2026, 1, 1, tzinfo=UTC)


def cells(resource: Resource, obj: Object, after: timedelta = timedelta(0)) -> list[Any]:
    obj.setdefault("metadata", {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"})
    rows = table(resource, [obj], {}, BORN + after)["rows"]
    return list(rows[0]["cells"])


@pytest.mark.parametrize(
    ("after", "age"),
    [
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=3, seconds=5), "3m5s"),
        (timedelta(minutes=4), "4m"),
        (timedelta(minutes=90), "90m"),
        (timedelta(hours=30), "30h"),
        (timedelta(days=5), "5d"),
    ],
)
def test_ages(after: timedelta, age: str) -> None:
    assert cells(CONFIGMAPS, {}, after) == ["x", age]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}, "Running"),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
            "ErrImagePull",
        ),
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, "OOMKilled"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}, "Init:Error"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
def test_a_pods_status_is_what_holds_it_up(status: Object, words: str) -> None:
    assert cells(PODS, {"status": status, "spec": {"containers": [{}]}})[2] == words


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    metadata = {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:30Z"}
    pod = {"metadata": metadata, "spec": {"containers": [{}]}, "status": {"phase": "Running"}}
    assert cells(PODS, pod)[:5] == ["x", "0/1", "Terminating", "0", "0s"]


def test_nodes_jobs_and_events() -> None:
    node = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}, "spec": {"unschedulable": True}}
    assert cells(NODES, node)[:3] == ["x", "NotReady,SchedulingDisabled", "<none>"]
    job = {"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}}
    assert cells(JOBS, job, timedelta(seconds=7)) == ["x", "Running", "1/2", "7s", "7s"]
    event = {
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "type": "Warning",
        "reason": "Failed",
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": "no",
    }
    assert cells(EVENTS, event, timedelta(seconds=9)) == ["9s", "Warning", "Failed", "pod/p", "no"]


def test_rows_carry_metadata_the_whole_object_or_nothing() -> None:
    obj = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}}
    rows = {include: table(CONFIGMAPS, [obj], {}, BORN, include=include)["rows"][0] for include in ("Object", "None")}
    assert rows["Object"]["object"] == obj
    assert "object" not in rows["None"]
    assert table(CONFIGMAPS, [obj], {}, BORN)["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

"""Bad jobs are refused with the field, the value and what is allowed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.job import Credential, Publish, TrainingJob

GOOD: dict[str, Any] = {"job_id": "01K6NJRFAE13R8H0C3SWZGBJ7R", "argv": ["python", "train.py"], "runtime": "torch"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"env": {"DISPATCH_EPOCH": "1"}}, "'DISPATCH_EPOCH'.*DISPATCH_"),
        ({"env": {"PET_NNODES": "1"}}, "'PET_NNODES'.*num_nodes"),
        ({"env": {"A": 1}}, "'A': 1"),
        ({"num_nodes": 0}, "num_nodes 0.*at least 1"),
        ({"num_nodes": -1}, "num_nodes -1"),
        ({"num_nodes": True}, "num_nodes True"),
        ({"resources_per_node": {"cpu": "a lot"}}, "'cpu'.*'a lot'.*500m"),
        ({"resources_per_node": {"cpu": "-1"}}, "'-1'"),
        ({"resources_per_node": {"requests": {}, "cpu": 1}}, "mixes"),
        ({"argv": "python train.py"}, "argv 'python train.py'.*no list"),
        ({"argv": []}, "argv has 0 items"),
        ({"argv": ["a", 1]}, "argv has 1"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "reserved"),
        ({"annotations": {"dispatch.phpboyscout.uk/opened": "true"}}, "reserved"),
        ({"time_limit": 0}, "time_limit 0"),
        ({"time_limit": timedelta(0)}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit nan"),
        ({"credentials": [Credential(secret="s", mount_path="/opt/dispatch/x")]}, "overlaps /opt/dispatch"),
        ({"credentials": [Credential(secret="s", mount_path="/opt")]}, "overlaps /opt/dispatch"),
        ({"work_dir": "here"}, "work_dir 'here'"),
        ({"publish": Publish()}, "publish"),
        ({"job_id": "x"}, "ULID"),
        ({"runtime": "Torch!"}, "runtime 'Torch!'"),
        ({"unsafe_runtime": "maybe"}, "refuse, harden, allow"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        TrainingJob.validated(**{**GOOD, **fields})


def test_resources_without_parts_are_requested_and_limited_alike() -> None:
    job = TrainingJob.validated(**GOOD, resources_per_node={"cpu": 2, "memory": "1Gi"})
    wanted = {"cpu": "2", "memory": "1Gi"}
    assert job.resources_per_node == {"requests": wanted, "limits": wanted}


def test_a_time_limit_is_in_whole_seconds() -> None:
    assert TrainingJob.validated(**GOOD, time_limit=timedelta(minutes=2)).time_limit == 120

"""The copy of a runtime: verbatim, hardened when asked for, and what is unsafe about it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.manifest import copy_of, hardened, owned_by, trainer_job, unsafe_fields

JOB_ID = "01K6NJRFAE13R8H0C3SWZGBJ7R"


def runtime(**job: Any) -> dict[str, Any]:
    """A safe runtime; ``job``: other fields of its trainer job's spec."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "i"}]}}
    spec = {"backoffLimit": 0, "podReplacementPolicy": "Failed", "template": pod, **job}
    labels = {names.LABEL_ANCESTOR_STEP: names.ANCESTOR_STEP_TRAINER}
    replicated = {"name": "ranks", "template": {"metadata": {"labels": labels}, "spec": spec}}
    return {
        "kind": "ClusterTrainingRuntime",
        "metadata": {
            "name": "torch",
            "resourceVersion": "7",
            "labels": {"framework": "torch"},
            "annotations": {"a": "b"},
        },
        "spec": {"template": {"spec": {"replicatedJobs": [{"name": "other", "template": {}}, replicated]}}},
    }


def with_rules(*actions: str) -> dict[str, Any]:
    found = runtime()
    rules = [{"name": f"r{index}", "action": action} for index, action in enumerate(actions)]
    found["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 1, "rules": rules}
    return found


UNSAFE = [
    (runtime(backoffLimit=6), ["template.spec.backoffLimit: 6, not 0"]),
    (runtime(podReplacementPolicy=None), ["template.spec.podReplacementPolicy: unset, not Failed"]),
    (
        runtime(template={"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "node"}]}}),
        ["template.spec.template.spec.restartPolicy: OnFailure, not Never"],
    ),
    (runtime(ttlSecondsAfterFinished=5), ["template.spec.ttlSecondsAfterFinished: 5, not unset"]),
    (with_rules("RestartJobSet", "RestartJob"), ["failurePolicy rule r1: RestartJob restarts single Jobs"]),
]


def test_a_safe_runtime_has_nothing_unsafe() -> None:
    assert unsafe_fields(runtime()) == []
    assert unsafe_fields(with_rules("RestartJobSet", "FailJobSet")) == []
    assert hardened(runtime()) == runtime()


@pytest.mark.parametrize(("source", "expected"), UNSAFE)
def test_each_unsafe_field_is_named_and_the_safe_twin_has_none(source: dict[str, Any], expected: list[str]) -> None:
    before = copy.deepcopy(source)
    assert unsafe_fields(source) == expected
    assert unsafe_fields(hardened(source)) == []
    assert source == before


def test_a_jobset_that_is_deleted_by_itself_is_unsafe() -> None:
    source = runtime()
    source["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 9
    assert unsafe_fields(source) == ["ttlSecondsAfterFinished: 9, not unset"]
    assert unsafe_fields(hardened(source)) == []


def test_a_copy_is_verbatim_and_says_what_it_is_a_copy_of() -> None:
    found = copy_of(runtime(), JOB_ID, 2)
    assert found["metadata"] == {
        "name": f"dj-{JOB_ID.lower()}-s2",
        "labels": {"framework": "torch", names.LABEL_JOB_ID: JOB_ID, names.LABEL_SUBMISSION: "2"},
        "annotations": {names.ANNOTATION_RUNTIME_SOURCE: "ClusterTrainingRuntime/torch@7"},
    }
    assert (found["kind"], found["spec"]) == ("TrainingRuntime", runtime()["spec"])


@pytest.mark.parametrize(("source", "unsafe"), UNSAFE)
def test_an_unsafe_copy_says_what_is_unsafe_or_what_was_made_safe(source: dict[str, Any], unsafe: list[str]) -> None:
    allowed, safe = copy_of(source, JOB_ID, 1), copy_of(source, JOB_ID, 1, harden=True)
    assert json.loads(allowed["metadata"]["annotations"][names.ANNOTATION_RUNTIME_UNSAFE]) == unsafe
    assert names.ANNOTATION_RUNTIME_HARDENED not in allowed["metadata"]["annotations"]
    assert allowed["spec"] == source["spec"]
    assert json.loads(safe["metadata"]["annotations"][names.ANNOTATION_RUNTIME_HARDENED]) == unsafe
    assert names.ANNOTATION_RUNTIME_UNSAFE not in safe["metadata"]["annotations"]
    assert safe["spec"] == hardened(source)["spec"]


def test_the_owner_may_go_first() -> None:
    assert owned_by("name", "uid") == [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "name",
            "uid": "uid",
            "controller": False,
            "blockOwnerDeletion": False,
        }
    ]


def test_a_runtime_without_a_trainer_job_or_its_container_is_refused() -> None:
    assert trainer_job(runtime())["name"] == "ranks"
    with pytest.raises(Refused, match="has no replicated job labelled"):
        trainer_job({"metadata": {"name": "empty"}, "spec": {}})
    with pytest.raises(Refused, match="has no container 'node'"):
        trainer_job(runtime(template={"spec": {"containers": [{"name": "main"}]}}))

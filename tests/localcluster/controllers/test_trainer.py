"""The TrainJob controller and its webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.resources import (
    CLUSTER_TRAINING_RUNTIMES,
    CONFIGMAPS,
    JOBSETS,
    TRAINING_RUNTIMES,
    TRAINJOBS,
)
from airflow_dispatch.localcluster.runtimes import shipped_runtimes
from tests.support.bed import NAMESPACE, Bed

MANAGER = "example.com/tests"
NAME = "job"


def _bed() -> Bed:
    bed = Bed(grace=10_000)
    bed.node("node-0")
    for runtime in shipped_runtimes():
        bed.registry.create(CLUSTER_TRAINING_RUNTIMES, None, runtime)
    return bed


def _create(bed: Bed, **spec: Any) -> dict[str, Any]:
    trainer = {"image": "example.invalid/train:1", "numNodes": 2}
    body = {
        "metadata": {"name": NAME},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec},
    }
    made: dict[str, Any] = bed.registry.create(TRAINJOBS, NAMESPACE, body)
    bed.advance()
    return made


def _patch(**pod: Any) -> list[dict[str, Any]]:
    """A runtimePatches list that changes the trainer's pod template."""
    replicated = [{"name": "node", "template": {"spec": {"template": pod}}}]
    return [{"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": replicated}}}}]


def _template(bed: Bed) -> dict[str, Any]:
    jobset = bed.get(JOBSETS, NAME)
    found: dict[str, Any] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return found


def test_defaults_are_filled_in() -> None:
    bed = _bed()
    made = _create(bed, runtimePatches=_patch(metadata={"labels": {"a": "b"}}))
    spec = made["spec"]
    assert spec["runtimeRef"] == {
        "name": "torch-distributed",
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
    }
    assert (spec["suspend"], spec["managedBy"]) == (False, "trainer.kubeflow.org/trainjob-controller")
    assert spec["runtimePatches"][0]["time"] == "2026-01-01T00:00:00Z"


def test_the_time_of_a_patch_moves_when_the_patch_changes_and_only_then() -> None:
    bed = _bed()
    _create(bed, suspend=True, runtimePatches=_patch(metadata={"labels": {"a": "b"}}))
    bed.advance(5)
    bed.change(TRAINJOBS, NAME, runtimePatches=_patch(metadata={"labels": {"a": "b"}}))
    assert bed.trainjob(NAME)["spec"]["runtimePatches"][0]["time"] == "2026-01-01T00:00:00Z"
    bed.change(TRAINJOBS, NAME, runtimePatches=_patch(metadata={"labels": {"a": "c"}}))
    assert bed.trainjob(NAME)["spec"]["runtimePatches"][0]["time"] == "2026-01-01T00:00:05Z"


def test_a_job_that_was_never_suspended_has_no_suspended_condition() -> None:
    bed = _bed()
    _create(bed)
    bed.run_all()
    assert bed.conditions(TRAINJOBS, NAME) == []
    assert bed.trainjob(NAME)["status"]["jobsStatus"] == [
        {"name": "node", "active": 1, "failed": 0, "ready": 1, "succeeded": 0, "suspended": 0}
    ]
    for pod in bed.pods():
        bed.report(pod, "Succeeded")
    assert bed.conditions(TRAINJOBS, NAME) == [("Complete", "True", "AllJobsCompleted")]


def test_number_of_nodes_and_command_come_from_the_trainjob() -> None:
    bed = _bed()
    trainer = {"image": "example.invalid/x:1", "numNodes": 3, "command": ["a"], "args": ["b"], "numProcPerNode": 4}
    _create(bed, trainer=trainer)
    job = bed.get(JOBSETS, NAME)["spec"]["replicatedJobs"][0]["template"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert (job["parallelism"], job["completions"]) == (3, 3)
    assert (container["image"], container["command"], container["args"]) == ("example.invalid/x:1", ["a"], ["b"])
    assert env["PET_NNODES"] == "3"
    assert env["PET_NPROC_PER_NODE"] == "4"
    assert env["PET_MASTER_ADDR"] == "job-node-0-0.job"
    assert len(bed.pods()) == 3


@pytest.mark.parametrize(
    ("resources", "processes"),
    [
        ({}, "1"),
        ({"requests": {"cpu": "2500m"}}, "3"),
        ({"limits": {"cpu": "4"}}, "4"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, "2"),
        ({"requests": {"cpu": "8"}, "limits": {"nvidia.com/gpu": "2"}}, "auto"),
    ],
)
def test_a_rank_has_as_many_processes_as_cpus_unless_torchrun_counts_gpus(
    resources: dict[str, Any], processes: str
) -> None:
    bed = _bed()
    _create(bed, trainer={"numNodes": 1, "resourcesPerNode": resources})
    env = {each["name"]: each.get("value") for each in _template(bed)["spec"]["containers"][0]["env"]}
    assert env["PET_NPROC_PER_NODE"] == processes


def test_a_release_carries_the_new_patch_and_running_jobsets_are_left_alone() -> None:
    bed = _bed()
    _create(bed, suspend=True, runtimePatches=_patch(metadata={"annotations": {"a": "0"}}))
    assert bed.conditions(TRAINJOBS, NAME) == [("Suspended", "True", "Suspended")]
    assert bed.pods() == []
    patches = _patch(metadata={"annotations": {"a": "1"}})
    bed.change(TRAINJOBS, NAME, suspend=False, runtimePatches=patches)
    assert _template(bed)["metadata"]["annotations"]["a"] == "1"
    assert bed.conditions(TRAINJOBS, NAME) == [("Suspended", "False", "Resumed")]
    assert {pod["metadata"]["annotations"]["a"] for pod in bed.pods()} == {"1"}
    bed.registry.patch(JOBSETS, NAMESPACE, NAME, {"metadata": {"labels": {"x": "y"}}}, "application/merge-patch+json")
    bed.advance()
    assert bed.get(JOBSETS, NAME)["metadata"]["labels"]["x"] == "y"


def test_counts_of_a_jobset_that_is_made_anew_begin_anew() -> None:
    bed = _bed()
    _create(bed)
    assert bed.trainjob(NAME)["status"]["jobsStatus"]
    bed.manager.pause("jobset")
    bed.registry.delete(JOBSETS, NAMESPACE, NAME)
    bed.advance()
    assert "jobsStatus" not in bed.trainjob(NAME)["status"]


def test_an_edited_runtime_changes_nothing_of_a_job_that_was_seen() -> None:
    bed = _bed()
    _create(bed, suspend=True)
    runtime = bed.registry.get(CLUSTER_TRAINING_RUNTIMES, None, "torch-distributed")
    runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 9
    bed.registry.update(CLUSTER_TRAINING_RUNTIMES, None, "torch-distributed", runtime)
    (owner,) = bed.get(CONFIGMAPS, "job-runtime-snapshot")["metadata"]["ownerReferences"]
    assert owner["uid"] == bed.trainjob(NAME)["metadata"]["uid"]
    bed.registry.delete(JOBSETS, NAMESPACE, NAME, propagation="Background")
    bed.advance()
    assert bed.get(JOBSETS, NAME)["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] == 0


def test_a_snapshot_of_a_job_of_the_same_name_is_not_taken() -> None:
    bed = _bed()
    bed.registry.create(CONFIGMAPS, NAMESPACE, {"metadata": {"name": "job-runtime-snapshot"}, "data": {}})
    _create(bed)
    assert not bed.exists(JOBSETS, NAME)
    (event,) = bed.events("TrainJobResourcesCreationFailed")
    assert event["message"] == "a snapshot configmap exists but is owned by another object"
    assert (event["type"], event["action"]) == ("Warning", "Reconciling")


def test_the_deadline_ends_a_job_and_counts_from_its_release() -> None:
    bed = _bed()
    _create(bed, suspend=True, activeDeadlineSeconds=10)
    bed.advance(30)
    bed.change(TRAINJOBS, NAME, suspend=False)
    bed.run_all()
    bed.advance(9)
    assert bed.exists(JOBSETS, NAME)
    bed.advance(2)
    assert not bed.exists(JOBSETS, NAME)
    assert bed.conditions(TRAINJOBS, NAME)[-1] == ("Failed", "True", "DeadlineExceeded")
    assert bed.trainjob(NAME)["status"]["jobsStatus"][0]["active"] == 1
    bed.advance(30)
    assert not bed.exists(JOBSETS, NAME)


def test_patches_may_not_change_while_neither_side_is_suspended() -> None:
    bed = _bed()
    _create(bed)
    with pytest.raises(ApiError, match="can only be modified when the TrainJob is suspended before or after") as denied:
        bed.change(TRAINJOBS, NAME, runtimePatches=_patch(metadata={"labels": {"a": "c"}}))
    assert denied.value.code == 403


def test_patches_may_not_change_while_the_jobset_is_active() -> None:
    bed = _bed()
    _create(bed)
    bed.run_all()
    with pytest.raises(ApiError, match="ReplicatedJob node is still active"):
        bed.change(TRAINJOBS, NAME, suspend=True, runtimePatches=_patch(metadata={"labels": {"a": "c"}}))
    bed.change(TRAINJOBS, NAME, suspend=True)
    assert all("deletionTimestamp" in pod["metadata"] for pod in bed.pods())
    bed.change(TRAINJOBS, NAME, suspend=False, runtimePatches=_patch(metadata={"labels": {"a": "c"}}))


@pytest.mark.parametrize("field", ["trainer", "runtimeRef", "managedBy"])
def test_what_was_asked_for_is_immutable(field: str) -> None:
    values: dict[str, Any] = {
        "trainer": {"image": "example.invalid/other:1"},
        "runtimeRef": {"name": "torch-distributed-unsafe"},
        "managedBy": "kueue.x-k8s.io/multikueue",
    }
    bed = _bed()
    _create(bed, suspend=True)
    with pytest.raises(ApiError, match=f"spec.{field}: .*field is immutable") as refused:
        bed.change(TRAINJOBS, NAME, **{field: values[field]})
    assert refused.value.code == 422


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"runtimeRef": {"name": "x"}}, 'ClusterTrainingRuntime.trainer.kubeflow.org "x" not found'),
        ({"runtimeRef": {"name": "x", "kind": "TrainingRuntime"}}, "specified trainingRuntime must be created before"),
        (
            {"runtimeRef": {"name": "x", "kind": "Foo", "apiGroup": "example.com"}},
            "unsupported runtime: Foo.example.com",
        ),
        ({"trainer": {"env": [{"name": "PET_NNODES", "value": "1"}]}}, "must not have reserved envs"),
        ({"runtimePatches": [{"manager": "other"}]}, "must be a domain-prefixed path"),
        ({"activeDeadlineSeconds": 0}, "should be greater than or equal to 1"),
    ],
)
def test_what_trainer_refuses(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError) as refused:
        _create(_bed(), **spec)
    assert words in refused.value.message


def test_every_update_needs_the_live_runtime() -> None:
    bed = _bed()
    runtime = bed.registry.get(CLUSTER_TRAINING_RUNTIMES, None, "torch-distributed")
    copy = {"metadata": {"name": "copy"}, "spec": runtime["spec"]}
    bed.registry.create(TRAINING_RUNTIMES, NAMESPACE, copy)
    _create(bed, runtimeRef={"name": "copy", "kind": "TrainingRuntime"})
    bed.registry.delete(TRAINING_RUNTIMES, NAMESPACE, "copy")
    with pytest.raises(ApiError, match="must be created before the TrainJob is created") as denied:
        bed.change(TRAINJOBS, NAME, suspend=True)
    assert denied.value.code == 403


def test_runtimes_get_the_defaults_of_their_jobset() -> None:
    bed = _bed()
    runtime = bed.registry.get(CLUSTER_TRAINING_RUNTIMES, None, "torch-distributed")
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert (replicated["groupName"], replicated["replicas"]) == ("default", 1)

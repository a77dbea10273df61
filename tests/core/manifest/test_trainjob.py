"""From a job to its TrainJob: the names and shapes that others rely on (contract, section 9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.job import Credential, Publish, TrainingJob
from airflow_dispatch.core.manifest import PROLOGUE, trainjob

JOB_ID = "01K6NJRFAE13R8H0C3SWZGBJ7R"
PREFIX = "dispatch.phpboyscout.uk/"


Texts = dict[str, str]


def manifest(*, site_labels: Texts | None = None, site_annotations: Texts | None = None, **job: Any) -> Any:
    """The third submission, made by the second try; ``job``: its other fields."""
    given: dict[str, Any] = {"job_id": JOB_ID, "argv": ["python", "train.py"], "runtime": "torch", **job}
    made = TrainingJob.validated(**given)
    return trainjob(made, 3, 2, replicated_job="node", labels=site_labels, annotations=site_annotations)


def template(found: Any) -> Any:
    """The pod template in our entry of the runtime patches."""
    (entry,) = found["spec"]["runtimePatches"]
    assert entry["manager"] == PREFIX + "adapter"
    (replicated,) = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert replicated["name"] == "node"
    return replicated["template"]["spec"]["template"]


def test_it_is_suspended_gated_and_names_its_own_runtime_copy() -> None:
    found = manifest()
    name = f"dj-{JOB_ID.lower()}-s3"
    assert (found["apiVersion"], found["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert found["metadata"] == {
        "name": name,
        "labels": {PREFIX + "job-id": JOB_ID, PREFIX + "submission": "3"},
        "annotations": {
            PREFIX + "comment": "dispatch:s=3;a=2",
            "kueue.x-k8s.io/admission-gated-by": PREFIX + "gate",
        },
    }
    spec = found["spec"]
    assert spec["suspend"] is True
    assert spec["runtimeRef"] == {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name}
    assert "activeDeadlineSeconds" not in spec


def test_labels_and_annotations_of_site_and_job_are_on_it_and_dispatch_s_own_win() -> None:
    found = manifest(
        site_labels={"team": "site", "cost": "1", names.LABEL_SUBMISSION: "9"},
        site_annotations={"note": "site", names.ANNOTATION_COMMENT: "x"},
        labels={"team": "job"},
        annotations={"mine": "job"},
    )
    assert found["metadata"]["labels"] == {
        "team": "job",
        "cost": "1",
        PREFIX + "job-id": JOB_ID,
        PREFIX + "submission": "3",
    }
    assert found["metadata"]["annotations"]["note"] == "site"
    assert found["metadata"]["annotations"]["mine"] == "job"
    assert found["metadata"]["annotations"][PREFIX + "comment"] == "dispatch:s=3;a=2"


def test_a_queued_job_carries_kueue_s_labels() -> None:
    found = manifest(queue="queue", priority="high")["metadata"]["labels"]
    assert (found["kueue.x-k8s.io/queue-name"], found["kueue.x-k8s.io/priority-class"]) == ("queue", "high")
    assert not [key for key in manifest()["metadata"]["labels"] if key.startswith("kueue")]


def test_the_prologue_comes_before_the_job_s_own_words() -> None:
    found = manifest(image="i:1", num_nodes=4, num_proc_per_node=8, resources_per_node={"cpu": 2})["spec"]["trainer"]
    assert found["command"] == ["sh", "-c", PROLOGUE, "dispatch"]
    assert found["args"] == ["python", "train.py"]
    assert (found["image"], found["numNodes"], found["numProcPerNode"]) == ("i:1", 4, 8)
    assert found["resourcesPerNode"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    assert set(manifest()["spec"]["trainer"]) == {"command", "args", "env"}


def test_the_job_s_environment_comes_sorted_before_dispatch_s_own() -> None:
    env = manifest(env={"Z": "1", "A": "2"}, work_dir="/src")["spec"]["trainer"]["env"]
    assert env == [
        {"name": "A", "value": "2"},
        {"name": "Z", "value": "1"},
        {"name": "DISPATCH_JOB_ID", "value": JOB_ID},
        {"name": "DISPATCH_SUBMISSION", "value": "3"},
        {"name": "DISPATCH_K8S_EPOCH_PREFIX", "value": "3"},
        {"name": "DISPATCH_K8S_TOKEN_PREFIX", "value": f"{JOB_ID}.3.2"},
        {"name": "DISPATCH_K8S_WORKDIR", "value": "/src"},
        {
            "name": "DISPATCH_K8S_ADMISSION",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{PREFIX}admission']"}},
        },
        {
            "name": "DISPATCH_K8S_RESTART",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}},
        },
    ]
    assert "DISPATCH_K8S_WORKDIR" not in [each["name"] for each in manifest()["spec"]["trainer"]["env"]]


@pytest.mark.parametrize(("limit", "seconds"), [(90, 90), (timedelta(minutes=2), 120), (1.9, 1)])
def test_a_time_limit_is_trainer_s_own_deadline(limit: Any, seconds: int) -> None:
    assert manifest(time_limit=limit)["spec"]["activeDeadlineSeconds"] == seconds


def test_the_patch_labels_the_pods_and_begins_with_admission_0() -> None:
    assert template(manifest()) == {
        "metadata": {
            "labels": {PREFIX + "job-id": JOB_ID, PREFIX + "submission": "3"},
            "annotations": {PREFIX + "admission": "0"},
        }
    }


def test_a_credential_is_a_secret_that_may_be_absent_mounted_read_only() -> None:
    credentials = [Credential(secret="one", mount_path="/one"), Credential(secret="two", mount_path="/two")]
    assert template(manifest(credentials=credentials))["spec"] == {
        "volumes": [
            {"name": "dispatch-credential-0", "secret": {"secretName": "one", "defaultMode": 256, "optional": True}},
            {"name": "dispatch-credential-1", "secret": {"secretName": "two", "defaultMode": 256, "optional": True}},
        ],
        "containers": [
            {
                "name": "node",
                "volumeMounts": [
                    {"name": "dispatch-credential-0", "mountPath": "/one", "readOnly": True},
                    {"name": "dispatch-credential-1", "mountPath": "/two", "readOnly": True},
                ],
            }
        ],
    }


def test_what_is_published_as_an_image_is_a_volume_of_it() -> None:
    assert template(manifest(publish=Publish(image="bundle:1")))["spec"] == {
        "volumes": [
            {"name": "dispatch-publish", "image": {"reference": "bundle:1", "pullPolicy": "IfNotPresent"}},
        ],
        "containers": [
            {
                "name": "node",
                "volumeMounts": [{"name": "dispatch-publish", "mountPath": "/opt/dispatch", "readOnly": True}],
            }
        ],
    }


def test_what_an_init_container_publishes_is_in_a_volume_that_it_writes() -> None:
    mount = {"name": "dispatch-publish", "mountPath": "/opt/dispatch"}
    assert template(manifest(publish=Publish(init_container="publish")))["spec"] == {
        "volumes": [{"name": "dispatch-publish", "emptyDir": {}}],
        "initContainers": [
            {
                "name": "publish",
                "env": [{"name": "DISPATCH_PUBLISH_DEST", "value": "/opt/dispatch"}],
                "volumeMounts": [mount],
            }
        ],
        "containers": [{"name": "node", "volumeMounts": [{**mount, "readOnly": True}]}],
    }

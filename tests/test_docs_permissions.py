"""The documented permissions are enough for a worker's and a triggerer's work, and none of their verbs is too much."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Forbidden, InvalidJob
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, CauseKind
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import shared_hub
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES
from airflow_dispatch.localcluster.thread import ClusterThread
from airflow_dispatch.triggers.output import Output
from tests.support.pages import blocks

WORKER, TRIGGERER = "airflow-dispatch-worker", "airflow-dispatch-triggerer"
NAMESPACE = "default"

Rules = list[dict[str, Any]]
Verb = tuple[str, str]

LEFT_OUT = {
    WORKER: {("events", "list"), ("nodes", "get")},
    TRIGGERER: {
        *(("events", verb) for verb in ("list", "watch")),
        *(("nodes", verb) for verb in ("get", "list", "watch")),
        *(("configmaps", verb) for verb in ("create", "update")),
        ("pods/log", "get"),
    },
}
"""What the guide says may be left out: it is missed, but ends nothing."""


def manifests() -> list[dict[str, Any]]:
    texts = [text for page, text in blocks("yaml") if page.endswith("permissions.md")]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def documented(role: str) -> Rules:
    """The rules of a Role and of the ClusterRole of its name; those of the Role hold in its namespace alone."""
    rules = []
    for manifest in manifests():
        if manifest["metadata"]["name"] == role and manifest["kind"] in ("Role", "ClusterRole"):
            where = {"namespaces": [NAMESPACE]} if manifest["kind"] == "Role" else {}
            rules += [{**rule, **where} for rule in manifest["rules"]]
    return rules


def verbs(rules: Rules) -> set[Verb]:
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def without(rules: Rules, missing: Verb) -> Rules:
    resource, verb = missing
    return [
        {**rule, "verbs": [each for each in rule["verbs"] if each != verb]} if resource in rule["resources"] else rule
        for rule in rules
    ]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    with LocalCluster.in_thread(runtime="scripted") as cluster:
        yield cluster


def as_user(cluster: ClusterThread, name: str, rules: Rules) -> ClusterConfig:
    def add(running: LocalCluster) -> Path:
        return running.server.add_user(name, rules)

    return ClusterConfig(kubeconfig=str(cluster.read(add)))


# ---------------------------------------------------------------- what worker and triggerer do


def task_and_job(name: str, runtime: str = "torch-distributed") -> tuple[TaskKey, TrainingJob]:
    now = datetime.now(UTC)
    task = TaskKey("docs", "dag", f"{name} {now}", "task", -1)
    return task, TrainingJob.validated(job_id=job_id_of(task, now), argv=["sleep", "60"], runtime=runtime, num_nodes=1)


def name_of(ref: str) -> str:
    return ref.partition("/")[2]


def leave_copy(cluster: ClusterThread, job: TrainingJob) -> None:
    """What a first submission that was stopped half-way leaves: a runtime copy without an owner."""
    labels = {names.LABEL_JOB_ID: job.job_id, names.LABEL_SUBMISSION: "1"}
    metadata = {"name": names.object_name(job.job_id, 1), "labels": labels}

    def create(running: LocalCluster) -> None:
        runtime = running.registry.list(CLUSTER_TRAINING_RUNTIMES).items[0]
        body = {"apiVersion": names.API_VERSION_TRAINER, "kind": "TrainingRuntime"}
        running.registry.create(TRAINING_RUNTIMES, NAMESPACE, {**body, "metadata": metadata, "spec": runtime["spec"]})

    cluster.read(create)


async def work(cluster: ClusterThread, config: ClusterConfig) -> None:
    """A worker's: an unknown runtime is refused with those that there are; the second try sweeps, runs and reports."""
    async with await KubeClient.connect(config) as client:
        adapter = Adapter(client, NAMESPACE)
        task, job = task_and_job("unknown", "no-such")
        with pytest.raises(InvalidJob, match="torch-distributed"):
            await adapter.submit(job, task, 1)

        task, job = task_and_job("worker")
        leave_copy(cluster, job)
        seen = (await adapter.submit(job, task, 2)).observation
        name = name_of(seen.ref)
        await adapter.open(name, uid=seen.uid)
        await adapter.report(name, seen.uid, Cause(kind=CauseKind.UNKNOWN), "ti")
        assert await adapter.find(job.job_id)
        await adapter.cancel(name, uid=seen.uid)


async def wait(cluster: ClusterThread, config: ClusterConfig) -> None:
    """A triggerer's: opens a job that a worker has left gated, reads its output, and cancels it."""
    task, job = task_and_job("triggerer")
    async with await KubeClient.connect(ClusterConfig(kubeconfig=str(cluster.kubeconfig))) as administrator:
        seen = (await Adapter(administrator, NAMESPACE).submit(job, task, 1)).observation
        name = name_of(seen.ref)
        try:
            await _wait(config, name, seen.uid)
        finally:
            await Adapter(administrator, NAMESPACE).cancel(name, uid=seen.uid)


async def _wait(config: ClusterConfig, name: str, uid: str) -> None:
    async with asyncio.timeout(60), shared_hub(config, NAMESPACE) as hub:
        adapter = Adapter(hub.client, NAMESPACE)
        output = Output(hub.client, NAMESPACE, logging.getLogger(__name__))
        opened = False
        async for snapshot in hub.subscribe(name):
            if snapshot is None:
                break
            output.attend(snapshot)
            if not opened:
                await adapter.open(name, uid=uid)
                opened = True
            if any(pod.status and pod.status.phase == "Running" for pod in snapshot.pods):
                await adapter.cancel(name, uid=uid)
        await output.finish()


Life = Callable[[ClusterThread, ClusterConfig], Coroutine[Any, Any, None]]
LIVES: dict[str, Life] = {WORKER: work, TRIGGERER: wait}


@pytest.mark.parametrize("role", LIVES)
def test_the_documented_permissions_are_enough(
    role: str, cluster: ClusterThread, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(LIVES[role](cluster, as_user(cluster, role, documented(role))))
    assert "no permission" not in caplog.text


def test_output_that_may_not_be_read_is_said(cluster: ClusterThread, caplog: pytest.LogCaptureFixture) -> None:
    assert refusal(TRIGGERER, cluster, ("pods/log", "get")) is None
    assert "rank 0's output is not shown: " in caplog.text
    assert "no permission to get pods/log" in caplog.text


def refusal(role: str, cluster: ClusterThread, missing: Verb) -> str | None:
    """What a life without one verb ends with, or None when it does not need it."""
    user = "-".join((role, *missing)).replace("/", "-")
    config = as_user(cluster, user, without(documented(role), missing))
    try:
        asyncio.run(LIVES[role](cluster, config))
    except Forbidden as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("role", "missing"), [(role, missing) for role in LIVES for missing in sorted(verbs(documented(role)))]
)
def test_a_verb_is_missed_by_name_or_may_be_left_out(role: str, missing: Verb, cluster: ClusterThread) -> None:
    resource, verb = missing
    refused = refusal(role, cluster, missing)
    if missing in LEFT_OUT[role]:
        assert refused is None
    else:
        assert refused is not None
        assert f"no permission to {verb} {resource}" in refused


def test_the_bindings_name_roles_that_are_there() -> None:
    made = {(each["kind"], each["metadata"]["name"]) for each in manifests()}
    bindings = [each for each in manifests() if each["kind"].endswith("Binding")]
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    assert bound == {(kind, name) for kind, name in made if kind in ("Role", "ClusterRole")}
    assert all(each["kind"].removesuffix("Binding") == each["roleRef"]["kind"] for each in bindings)

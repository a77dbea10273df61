"""``start`` and ``submit``: one TrainJob, whatever happens on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_dispatch.adapter import Adapter, retrying
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import InvalidJob, Refused, Unreachable
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.observation import Cause, CauseKind, Provenance, State
from airflow_dispatch.localcluster.resources import (
    CLUSTER_TRAINING_RUNTIMES,
    NAMESPACES,
    TRAINING_RUNTIMES,
    TRAINJOBS,
    Resource,
)
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)
ORIGIN = TaskKey("tests", "dag", "run", "task", -1)


def finish(running: Cluster, name: str, kind: str) -> None:
    trainjob = running.registry.get(TRAINJOBS, NAMESPACE, name)
    condition = {
        "type": kind,
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    trainjob["status"] = {"conditions": [condition]}
    running.registry.update(TRAINJOBS, NAMESPACE, name, trainjob, subresource="status")


def count(running: Cluster) -> int:
    return len(running.registry.list(TRAINJOBS, NAMESPACE).items)


def test_a_started_job_is_gated_and_owns_its_runtime_copy(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            seen = await running.adapter.start(job(), submission=1, attempt=1)
            assert (seen.state, seen.foreign, seen.ref) == (State.GATED, False, f"{NAMESPACE}/{NAME}")
            copy = running.registry.get(TRAINING_RUNTIMES, NAMESPACE, NAME)
            assert [owner["uid"] for owner in copy["metadata"]["ownerReferences"]] == [seen.uid]

    asyncio.run(run())


def test_an_unknown_runtime_is_refused_by_naming_those_there_are(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(InvalidJob, match=r"'nope'.*torch-distributed, torch-distributed-unsafe"):
                await running.adapter.start(job(runtime="nope"), submission=1, attempt=1)
            assert running.registry.list(TRAINING_RUNTIMES, NAMESPACE).items == []

    asyncio.run(run())


def test_an_unsafe_runtime_is_refused_unless_hardened(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            unsafe = job(runtime="torch-distributed-unsafe")
            with pytest.raises(InvalidJob, match="restartPolicy"):
                await running.adapter.start(unsafe, submission=1, attempt=1)
            assert count(running) == 0
            hardened = job(runtime="torch-distributed-unsafe", unsafe_runtime="harden")
            await running.adapter.start(hardened, submission=1, attempt=1)
            copy = running.registry.get(TRAINING_RUNTIMES, NAMESPACE, NAME)
            trainer = copy["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
            assert trainer["template"]["spec"]["restartPolicy"] == "Never"

    asyncio.run(run())


@pytest.mark.parametrize("answered", [False, True], ids=["before it is sent", "after it is answered"])
def test_a_submission_stopped_at_any_request_is_adopted_by_the_next(tmp_path: Path, *, answered: bool) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.submit(job(), ORIGIN, 1)
            whole = running.client.requests
        for step in range(1, whole + 1):
            folder = tmp_path / f"{step}"
            folder.mkdir()
            async with cluster(folder) as running:
                running.client.stop_at, running.client.stop_after = step, answered
                with pytest.raises(asyncio.CancelledError):
                    await running.adapter.submit(job(), ORIGIN, 1)
                left = [item["metadata"]["uid"] for item in running.registry.list(TRAINJOBS, NAMESPACE).items]
                submitted = await running.adapter.submit(job(), ORIGIN, 2)
                assert count(running) == 1
                assert left in ([], [submitted.observation.uid])
                assert (submitted.action == "adopted") == bool(left)
                copies = running.registry.list(TRAINING_RUNTIMES, NAMESPACE).items
                assert [copy["metadata"]["ownerReferences"][0]["uid"] for copy in copies] == [submitted.observation.uid]

    asyncio.run(run())


def test_an_end_that_nobody_took_is_taken_and_a_reported_one_is_followed(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            first = await running.adapter.submit(job(), ORIGIN, 1)
            finish(running, NAME, "Failed")
            taken = await running.adapter.submit(job(), ORIGIN, 2)
            assert (taken.observation.uid, taken.observation.state) == (first.observation.uid, State.ENDED)
            verdict = Cause(kind=CauseKind.NON_ZERO_EXIT, provenance=Provenance.DERIVED, detail="exit code 3")
            await running.adapter.report(NAME, first.observation.uid, verdict, "b")
            following = await running.adapter.submit(job(), ORIGIN, 2)
            assert (following.observation.submission, following.observation.state) == (2, State.GATED)

    asyncio.run(run())


def test_a_changed_job_replaces_the_live_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.submit(job(), ORIGIN, 1)
            changed = await running.adapter.submit(job(argv=["false"]), ORIGIN, 2)
            assert changed.observation.submission == 2
            assert [item["metadata"]["name"] for item in running.registry.list(TRAINJOBS, NAMESPACE).items] == [
                names.object_name(JOB_ID, 2)
            ]

    asyncio.run(run())


def test_a_job_of_another_task_is_not_adopted(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.submit(job(), ORIGIN, 1)
            with pytest.raises(Refused, match="another task's"):
                await running.adapter.submit(job(), ORIGIN._replace(deployment="other"), 1)

    asyncio.run(run())


@pytest.mark.parametrize("resource", [TRAINJOBS, TRAINING_RUNTIMES], ids=lambda each: each.plural)
def test_an_object_of_that_name_that_is_not_dispatch_s_is_refused_and_left_alone(
    tmp_path: Path, resource: Resource
) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            found = running.registry.get(resource, NAMESPACE, NAME)
            for each in (TRAINJOBS, TRAINING_RUNTIMES):
                running.registry.delete(each, NAMESPACE, NAME)
            theirs = {"metadata": {"name": NAME, "labels": {"theirs": "yes"}}, "spec": found["spec"]}
            made = running.registry.create(resource, NAMESPACE, {**theirs, "apiVersion": found["apiVersion"]})
            with pytest.raises(Refused, match=f"{NAMESPACE}/{NAME}"):
                await running.adapter.start(job(), submission=1, attempt=1)
            assert running.registry.get(resource, NAMESPACE, NAME) == made

    asyncio.run(run())


def test_a_copy_that_belongs_to_another_trainjob_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_FIRST_PAUSE", 0.0001)

    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            running.registry.delete(TRAINJOBS, NAMESPACE, NAME)
            with pytest.raises(Unreachable, match="belongs to a TrainJob that is going away"):
                await running.adapter.start(job(), submission=1, attempt=1)

    asyncio.run(run())


def test_a_trainjob_that_is_being_deleted_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_FIRST_PAUSE", 0.0001)

    async def run() -> None:
        async with cluster(tmp_path) as running:
            await running.adapter.start(job(), submission=1, attempt=1)
            running.registry.delete(TRAINJOBS, NAMESPACE, NAME, propagation="Foreground")
            with pytest.raises(Unreachable, match="is being deleted since"):
                await running.adapter.start(job(), submission=1, attempt=1)
            with pytest.raises(Refused, match="is being deleted"):
                await running.adapter.open(NAME)
            again = await running.adapter.submit(job(), ORIGIN, 1)
            assert again.observation.submission == 2

    asyncio.run(run())


def test_a_namespace_that_goes_refuses_a_start_and_lets_a_cancel_pass(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            running.registry.create(NAMESPACES, None, {"metadata": {"name": "going"}})
            adapter = Adapter(running.client, "going")
            await adapter.start(job(), submission=1, attempt=1)
            running.registry.delete(NAMESPACES, None, "going")
            with pytest.raises(Refused, match="being terminated"):
                await adapter.start(job(), submission=2, attempt=1)
            await adapter.cancel(NAME)
            await adapter.cancel(NAME)

    asyncio.run(run())


def test_a_runtime_that_may_overlap_says_so_when_it_is_allowed(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            allowed = job(runtime="torch-distributed-unsafe", unsafe_runtime="allow")
            seen = await running.adapter.start(allowed, submission=1, attempt=1)
            assert (seen.cause.detail, seen.foreign) == ("runtime may overlap", False)
            found = await running.adapter.inspect(NAME)
            assert found == seen
            copy = running.registry.get(TRAINING_RUNTIMES, NAMESPACE, NAME)
            source = running.registry.get(CLUSTER_TRAINING_RUNTIMES, None, "torch-distributed-unsafe")
            assert copy["spec"] == source["spec"]

    asyncio.run(run())

"""The documented permissions are enough, and each verb that is missing is named before anything is left half done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Forbidden, InvalidJob
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, CauseKind, Observation
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.paths import CLUSTER_RUNTIMES, RUNTIMES
from airflow_dispatch.localcluster.thread import ClusterThread
from airflow_dispatch.triggers.status import TaskReference
from tests.suite.conftest import new_workspace
from tests.suite.workspace import WAIT_SECONDS, Workspace, name_of
from tests.support.accounts import TRIGGERER, WORKER, Authority, Verb, verbs_of
from tests.support.lines import Lines

LEFT_OUT = {
    WORKER: {"list events", "get nodes", "list clustertrainingruntimes"},
    TRIGGERER: {
        "list events",
        "watch events",
        "get nodes",
        "list nodes",
        "watch nodes",
        "get pods/log",
        "create configmaps",
        "update configmaps",
    },
}
"""What the guide says may be left out: it is missed, but ends nothing."""

ONLY_OF_A_LOST_JOB = "get trainjobs"
"""What a triggerer asks for when a job is in no list any more."""

NEEDED_LATER = ("list jobs", "update trainjobs", "delete trainjobs", "get configmaps")
"""What a worker does with a submission that is complete by then, and stays as it is for the next try."""

ORIGIN = TaskKey("tests", "dag", "run", "task", -1)


@pytest.fixture(scope="module")
def workspace(cluster: ClusterThread, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return new_workspace(cluster, authority, "permissions", tmp_path_factory.mktemp("accounts"))


def refusal(workspace: Workspace, account: str, missing: Verb) -> str:
    """What has to be said: the verb, the resource, the namespace, and what to do."""
    user = f"system:serviceaccount:{workspace.namespace}:{account}"
    cluster_wide = missing.kind == "ClusterRole"
    scope = "at the cluster scope" if cluster_wide else f'in the namespace "{workspace.namespace}"'
    role = "ClusterRole" if cluster_wide else "Role"
    return f"no permission to {missing.qualified} {scope}: bind {user} to a {role} that allows it"


# ---------------------------------------------------------------- a worker


def one_rank(workspace: Workspace, *argv: str) -> TrainingJob:
    return workspace.job(*argv, num_nodes=1)


async def leave_copy(workspace: Workspace, job: TrainingJob) -> str:
    """What a first submission that was stopped half-way leaves: a runtime copy without an owner; its reference."""
    name = names.object_name(job.job_id, 1)
    labels = {names.LABEL_JOB_ID: job.job_id, names.LABEL_SUBMISSION: "1"}
    async with await KubeClient.connect(workspace.config) as client:
        source = await client.get(CLUSTER_RUNTIMES, job.runtime)
        body = {"apiVersion": names.API_VERSION_TRAINER, "kind": RUNTIMES.kind, "spec": source["spec"]}
        await client.create(RUNTIMES, workspace.namespace, {**body, "metadata": {"name": name, "labels": labels}})
    return f"{workspace.namespace}/trainingruntime/{name}"


async def work(workspace: Workspace, job: TrainingJob) -> str:
    """A worker's life: an unknown runtime is refused, which is returned; a second try sweeps, opens, reports, ends."""
    async with workspace.adapter() as adapter:
        with pytest.raises(InvalidJob, match="'no-such' is not known here") as unknown:
            await adapter.submit(workspace.job("true", runtime="no-such"), ORIGIN, 1)
        seen = (await adapter.submit(job, ORIGIN, 2)).observation
        name = name_of(seen)
        await adapter.open(name, uid=seen.uid)
        await adapter.report(name, seen.uid, Cause(kind=CauseKind.UNKNOWN), "ti")
        assert await adapter.find(job.job_id)
        await adapter.cancel(name, uid=seen.uid)
        return str(unknown.value)


def test_the_documented_permissions_are_enough_for_a_worker(workspace: Workspace) -> None:
    async def main() -> None:
        job = one_rank(workspace, "sleep", "60")
        await leave_copy(workspace, job)
        assert "torch-distributed" in await work(workspace, job)

    asyncio.run(main())


@pytest.mark.parametrize("missing", verbs_of(WORKER), ids=str)
def test_a_verb_that_a_worker_lacks_is_named_and_leaves_nothing_half(missing: Verb, workspace: Workspace) -> None:
    async def main() -> None:
        job = one_rank(workspace, "sleep", "60")
        left_before = await leave_copy(workspace, job)
        async with workspace.accounts.without(WORKER, missing):
            if str(missing) in LEFT_OUT[WORKER]:
                said = await work(workspace, job)
            else:
                with pytest.raises(Forbidden) as refused:
                    await work(workspace, job)
                said = str(refused.value)
        if str(missing) not in ("list events", "get nodes"):
            assert refusal(workspace, WORKER, missing) in said
        async with workspace.administrator() as administrator:
            if str(missing) in NEEDED_LATER:
                whole = await administrator.inspect(names.object_name(job.job_id, 2))
                assert whole is not None
                assert not whole.foreign
                await administrator.cancel(name_of(whole))
            await workspace.until_gone(administrator, job, but=left_before)

    asyncio.run(main())


# ---------------------------------------------------------------- a triggerer


class Killed:
    """A trigger's task instance as far as it is looked at."""

    dag_id, run_id, task_id, map_index = "dag", "run", "train", -1


async def submitted(workspace: Workspace, *argv: str) -> Observation:
    """A job that a worker has left gated."""
    async with workspace.adapter() as adapter:
        return (await adapter.submit(one_rank(workspace, *argv), ORIGIN, 1)).observation


async def wait(
    workspace: Workspace, environment: pytest.MonkeyPatch, observation: Observation, until: str = "\n"
) -> tuple[dict[str, Any] | None, Lines]:
    """What a triggerer's wait for a job ends with, or None when a line of its log has ``until`` in it first."""
    workspace.act_as(TRIGGERER, environment)
    trigger, lines = workspace.trigger(observation, opens=True)
    waiting = asyncio.ensure_future(trigger.wait())
    async with asyncio.timeout(WAIT_SECONDS):
        while not (waiting.done() or lines.has(until)):  # noqa: ASYNC110 (the trigger logs into this loop)
            await asyncio.sleep(0.05)
    if not waiting.done():
        waiting.cancel()
        await asyncio.wait({waiting})
        return None, lines
    return await waiting, lines


async def kill(workspace: Workspace, environment: pytest.MonkeyPatch, observation: Observation) -> Lines:
    """A person ends the task that waits."""
    workspace.act_as(TRIGGERER, environment)
    environment.setattr(TaskReference, "state_now", lambda _: "failed")
    trigger, lines = workspace.trigger(observation, owner="try", on_kill_action="cancel")
    trigger._task_instance = Killed()
    await trigger.on_kill()
    return lines


def test_the_documented_permissions_are_enough_for_a_triggerer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        event, lines = await wait(workspace, monkeypatch, await submitted(workspace, "echo", "trained"))
        assert event is not None
        assert event["outcome"]["cause"]["kind"] == "completed", event
        assert lines.has("rank 0 | trained")
        lines.texts += (await kill(workspace, monkeypatch, await submitted(workspace, "sleep", "60"))).texts
        assert lines.has("cancelled ")
        assert not lines.has("no permission")

    asyncio.run(main())


def test_a_triggerer_that_may_not_get_a_trainjob_says_so_when_it_is_gone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        (missing,) = (each for each in verbs_of(TRIGGERER) if str(each) == ONLY_OF_A_LOST_JOB)
        observation = await submitted(workspace, "true")
        async with workspace.administrator() as administrator:
            await administrator.cancel(name_of(observation))
        async with workspace.accounts.without(TRIGGERER, missing):
            ended, _ = await wait(workspace, monkeypatch, observation, until="never logged")
        assert ended is not None
        assert ended["status"] == "error"
        assert refusal(workspace, TRIGGERER, missing) in ended["line"]

    asyncio.run(main())


@pytest.mark.parametrize("missing", [each for each in verbs_of(TRIGGERER) if str(each) != ONLY_OF_A_LOST_JOB], ids=str)
def test_a_verb_that_a_triggerer_lacks_is_named_and_the_job_goes_on(
    missing: Verb, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        observation = await submitted(workspace, "sh", "-c", "echo trained; sleep 2")
        said = refusal(workspace, TRIGGERER, missing)
        optional = str(missing) in LEFT_OUT[TRIGGERER]
        async with workspace.accounts.without(TRIGGERER, missing):
            if str(missing) == "delete trainjobs":
                ended, lines = None, await kill(workspace, monkeypatch, observation)
            else:
                ended, lines = await wait(workspace, monkeypatch, observation, until="\n" if optional else said)
        if optional:
            assert ended is not None
            assert ended["outcome"]["cause"]["kind"] == "completed", ended
            assert lines.has("rank 0 | trained") is (str(missing) != "get pods/log")
            assert lines.has(said) is (str(missing) == "get pods/log")
        else:
            assert lines.has(said) or (ended is not None and said in ended["line"]), (ended, lines.texts)
            assert ended is None or ended["status"] == "error"
        async with workspace.administrator() as administrator:
            (left,) = await administrator.find(observation.job_id)
            assert (left.uid, left.foreign) == (observation.uid, False)
            await administrator.cancel(name_of(left))

    asyncio.run(main())


def test_a_triggerer_that_may_not_ask_for_a_job_that_is_gone_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        observation = await submitted(workspace, "sleep", "60")
        async with workspace.administrator() as administrator:
            await administrator.cancel(name_of(observation))
        (missing,) = [each for each in verbs_of(TRIGGERER) if str(each) == ONLY_OF_A_LOST_JOB]
        said = refusal(workspace, TRIGGERER, missing)
        async with workspace.accounts.without(TRIGGERER, missing):
            ended, lines = await wait(workspace, monkeypatch, observation, until=said)
        assert lines.has(said) or (ended is not None and said in ended["line"]), (ended, lines.texts)

    asyncio.run(main())

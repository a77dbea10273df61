"""A process that ends at any await of a verb: a fresh one repeats the verb, and nothing shows that it was interrupted.

On a whole cluster over HTTPS, under virtual time. Each row of section 13 is here, and each verb that writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Unreachable
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import Cause, CauseKind, State
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster import LocalCluster, NodeSpec, Timings, VirtualClock
from airflow_dispatch.localcluster.kubelet import ScriptedRuntime
from airflow_dispatch.localcluster.resources import JOBSETS, PODS, TRAINING_RUNTIMES, TRAINJOBS, Resource
from airflow_dispatch.localcluster.thread import ClusterThread
from tests.support.crash import Crash
from tests.support.picture import picture

NAMESPACE: Final = "default"
SETTLED: Final = 40.0
"""Seconds in which pods that were told to stop have stopped, and controllers have said so."""

_numbers = itertools.count()


class Life:
    """One job on the cluster, and what happens to it."""

    def __init__(self, cluster: ClusterThread) -> None:
        self.cluster = cluster
        self.task = TaskKey("tests", "dag", f"run-{next(_numbers)}", "task", -1)
        self.job = self.of()

    def of(self, *argv: str) -> TrainingJob:
        job_id = job_id_of(self.task, datetime(2026, 1, 1, tzinfo=UTC))
        return TrainingJob.validated(
            job_id=job_id,
            argv=argv or ("true",),
            runtime="torch-distributed",
            num_nodes=1,
            resources_per_node={"cpu": "1m"},
        )

    def name(self, number: int = 1) -> str:
        return names.object_name(self.job.job_id, number)

    def items(self, resource: Resource) -> list[dict[str, Any]]:
        """What there is of the job."""
        listed = self.cluster.read(lambda cluster: cluster.registry.list(resource, NAMESPACE).items)
        prefix = self.name(0)[:-1]
        return [item for item in listed if item["metadata"]["name"].startswith(prefix)]

    def change(self, change: Callable[[dict[str, Any]], object], *, number: int = 1, subresource: str = "") -> None:
        """Somebody else edits the TrainJob."""

        def edit(cluster: LocalCluster) -> None:
            found = cluster.registry.get(TRAINJOBS, NAMESPACE, self.name(number))
            change(found)
            cluster.registry.update(TRAINJOBS, NAMESPACE, self.name(number), found, subresource=subresource)

        self.cluster.read(edit)

    def picture(self) -> list[str]:
        """All that matters of what is there."""
        kinds = (TRAINJOBS, TRAINING_RUNTIMES, JOBSETS)
        return picture([(each.plural, self.items(each)) for each in kinds], self.items(PODS), self.task.run_id)

    def check_never_two(self) -> None:
        """No two containers of the job, which has one rank, ever ran at the same time."""
        spans = sorted(self.cluster.read(lambda cluster: _spans(cluster, self.job.job_id)))
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), spans


def _spans(cluster: LocalCluster, job_id: str) -> list[tuple[datetime, datetime]]:
    """From when to when each container of a job ran."""
    assert isinstance(cluster.runtime, ScriptedRuntime)
    never = datetime.max.replace(tzinfo=UTC)
    return [
        (each.started_at, each._exit.result().finished_at if each._exit.done() else never)
        for each in cluster.runtime.containers
        if each.spec.env[names.ENV_JOB_ID] == job_id
    ]


Step = Callable[[Life, Adapter], Coroutine[Any, Any, object]]


async def start(life: Life, adapter: Adapter) -> None:
    await adapter.start(life.job, submission=1, attempt=1)


async def open_it(life: Life, adapter: Adapter) -> None:
    await adapter.open(life.name())


async def hold(life: Life, adapter: Adapter) -> None:
    await adapter.hold(life.name(), instance=1, who="tests", reason="why")


async def release(life: Life, adapter: Adapter) -> None:
    await adapter.release(life.name(), instance=1)


async def cancel(life: Life, adapter: Adapter) -> None:
    await adapter.cancel(life.name())


async def fail(life: Life, _: Adapter) -> None:
    pod = life.items(PODS)[0]["metadata"]["name"]
    await asyncio.to_thread(life.cluster.faults.pod_exit, pod, 3)


async def take(life: Life, adapter: Adapter, *argv: str) -> None:
    """A try: submits and opens, or takes the end that it finds and reports it."""
    submitted = (await adapter.submit(life.of(*argv), life.task, 1)).observation
    name = submitted.ref.partition("/")[2]
    if submitted.state is State.ENDED:
        await adapter.report(name, submitted.uid, submitted.cause, "ti")
    elif submitted.state is State.GATED:
        await adapter.open(name, uid=submitted.uid)


async def take_changed(life: Life, adapter: Adapter) -> None:
    await take(life, adapter, "changed")


async def take_verdict(life: Life, adapter: Adapter) -> None:
    assert (await adapter.submit(life.job, life.task, 1)).observation.state is State.ENDED


async def submit(life: Life, adapter: Adapter) -> None:
    await adapter.submit(life.job, life.task, 1)


async def start_beside(life: Life, adapter: Adapter) -> None:
    """A second submission, as of a worker that listed before the first one was made."""
    await adapter.start(life.job, submission=2, attempt=1)


async def report(life: Life, adapter: Adapter) -> None:
    (found,) = await adapter.find(life.job.job_id)
    await adapter.report(life.name(), found.uid, Cause(kind=CauseKind.NON_ZERO_EXIT, detail="exit code 3"), "ti")


async def revive(life: Life, _: Adapter) -> None:
    """Its JobSet goes, and somebody unsuspends it: Trainer runs it again, though its end was reported."""

    def delete(cluster: LocalCluster) -> None:
        cluster.registry.delete(JOBSETS, NAMESPACE, life.name(), propagation="Background")

    life.cluster.read(delete)
    await _advance(life.cluster)
    life.change(lambda trainjob: trainjob["spec"].update(suspend=False))


# What happened before, what is stopped, and the requests that it makes, at each of which it has to stop at least once.
SCENARIOS: Final[dict[str, tuple[tuple[Step, ...], Step, int]]] = {
    "start": ((), start, 6),
    "open": ((start,), open_it, 6),
    "hold": ((start, open_it), hold, 7),
    "release": ((start, open_it, hold), release, 6),
    "cancel": ((start, open_it), cancel, 2),
    "report": ((start, open_it, fail), report, 2),
    "none": ((), take, 12),
    "live, same": ((take,), take, 6),
    "live, other": ((take,), take_changed, 13),
    "ended, not reported": ((take, fail), take_verdict, 6),
    "ended, reported": ((take, fail, take), take, 12),
    "reported and alive again": ((take, fail, take, revive), take, 12),
    "two gated": ((submit, start_beside), take, 12),
    "one opened beside a gated one": ((take, start_beside), take, 6),
}


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    timings = Timings(heartbeat=300, grace=1000)
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    nodes = [NodeSpec("node-0", capacity=capacity, heartbeat_seconds=timings.heartbeat)]
    with LocalCluster.in_thread(nodes=nodes, clock=VirtualClock(), runtime="scripted", timings=timings) as running:
        yield running


@contextlib.asynccontextmanager
async def fresh(cluster: ClusterThread) -> AsyncIterator[Adapter]:
    """The adapter of a new process."""
    async with await KubeClient.connect(ClusterConfig(kubeconfig=str(cluster.kubeconfig))) as client:
        yield Adapter(client, NAMESPACE)


async def _advance(cluster: ClusterThread) -> None:
    await asyncio.to_thread(cluster.call, lambda running: running.advance(SETTLED))


async def prepared(cluster: ClusterThread, before: tuple[Step, ...], count: int) -> list[Life]:
    lives = [Life(cluster) for _ in range(count)]
    async with fresh(cluster) as adapter:
        for step in before:
            for life in lives:
                await step(life, adapter)
            await _advance(cluster)
    return lives


async def stop_each(cluster: ClusterThread, lives: list[Life], act: Step, first: int) -> list[Life]:
    """Stops the verb of each life at one await more than that of the last; those that were stopped."""
    for at, life in enumerate(lives, first):
        async with fresh(cluster) as adapter:
            crash = Crash(at)
            with contextlib.suppress(Unreachable):
                await crash.run(act(life, adapter))
        if not crash.stopped:
            return lives[: at - first]
    return lives


async def finish(cluster: ClusterThread, lives: list[Life], act: Step) -> None:
    """A new process repeats the verb until it has gone through, as long as it only has to wait."""
    async with fresh(cluster) as adapter:
        left = lives
        for _ in range(4):
            waiting = []
            for life in left:
                try:
                    await act(life, adapter)
                except Unreachable:
                    waiting.append(life)
            await _advance(cluster)
            if not waiting:
                return
            left = waiting
    pytest.fail("it still has to wait")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_verb_that_ends_at_any_await_is_finished_by_the_next_process(scenario: str, cluster: ClusterThread) -> None:
    before, act, requests = SCENARIOS[scenario]

    async def main() -> int:
        undisturbed = await prepared(cluster, before, 1)
        await finish(cluster, undisturbed, act)
        expected = undisturbed[0].picture()
        batch = requests + 6
        for first in itertools.count(1, batch):
            stopped = await stop_each(cluster, await prepared(cluster, before, batch), act, first)
            await finish(cluster, stopped, act)
            for at, life in enumerate(stopped, first):
                life.check_never_two()
                differs = "\n".join(difflib.unified_diff(expected, life.picture(), lineterm=""))
                assert not differs, f"stopped at await {at}: {differs}"
            if len(stopped) < batch:
                return first - 1 + len(stopped)
        raise AssertionError

    assert asyncio.run(main()) >= requests

"""A release beside pods that may still run: refused with the pod and its Node named, until their end is proven.

A rank is stuck on a lost node, the job is held, and somebody wants it to go on (contract, section 12).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import PodsRemain, Refused
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.kube import ledgers
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.localcluster.client import MERGE_PATCH, HttpApi
from airflow_dispatch.localcluster.resources import PODS
from tests.suite.workspace import WAIT_SECONDS, Workspace

pytestmark = pytest.mark.timeout(240)

UNKNOWN = "Ready=Unknown"


@dataclass(frozen=True)
class Stuck:
    """A held job whose rank 1 is stuck on a lost node."""

    workspace: Workspace
    adapter: Adapter
    job: TrainingJob
    name: str
    pod: str
    node: str

    def listed(self, state: str) -> str:
        """How the pod is named."""
        return f"{self.pod} on {self.node} ({state})"

    async def refused(self, state: str) -> None:
        """A release writes nothing and names the pod."""
        with pytest.raises(PodsRemain) as caught:
            await self.adapter.release(self.name, instance=1)
        assert self.listed(state) in caught.value.remaining
        assert "the previous execution may still run" in str(caught.value)
        observation = await self.adapter.inspect(self.name)
        assert observation is not None
        assert (observation.state, observation.hold_instance) == (State.HELD, 1)
        assert self.listed(state) in observation.cause.detail

    async def accepted(self) -> None:
        """The release admits a second execution, which runs."""
        await self.until_nothing_remains()
        await self.adapter.release(self.name, instance=1)
        again = await self.workspace.until(self.name, _second_execution)
        assert again.execution is not None
        assert again.execution.epoch == 1_000_002

    async def until_nothing_remains(self) -> None:
        """Returns when no pod is said to remain: what cleans up takes its time."""
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while (seen := await self.adapter.inspect(self.name)) and "remaining pods" in seen.cause.detail:
            if asyncio.get_running_loop().time() > deadline:
                pytest.fail(f"still there: {seen.cause.detail}")
            await asyncio.sleep(0.1)

    async def force_delete(self) -> None:
        """Its object goes, and who watches notes it."""
        await self.fault(self.workspace.faults.force_delete, self.pod, namespace=self.workspace.namespace)
        async with asyncio.timeout(WAIT_SECONDS), await KubeClient.connect(self.workspace.config) as client:
            while not (  # noqa: ASYNC110 (nobody announces what a hub has written)
                await ledgers.read(client, self.workspace.namespace, self.job.job_id)
            ).open:
                await asyncio.sleep(0.1)

    async def fail_by_hand(self) -> None:
        """Writes ``Failed`` as garbage collection does, which asks no kubelet."""
        async with await HttpApi.connect(str(self.workspace.config.kubeconfig)) as api:
            body = {"status": {"phase": "Failed"}}
            await api.patch(
                PODS,
                self.workspace.namespace,
                self.pod,
                body,
                content_type=MERGE_PATCH,
                subresource="status",
            )

    async def fault(self, act: Callable[..., object], *args: str, **options: str) -> None:
        await asyncio.to_thread(act, *args, **options)


def _second_execution(observation: Observation) -> bool:
    execution = observation.execution
    return observation.state is State.RUNNING and execution is not None and execution.admission == 2


@contextlib.asynccontextmanager
async def stuck(workspace: Workspace) -> AsyncIterator[Stuck]:
    job = workspace.job("sleep", "300")
    async with workspace.started(job) as (adapter, name):
        await workspace.until_started(name, 2)
        node = await workspace.node_of_rank(name, 1)
        pod = await workspace.pod_of_rank(name, 1)
        found = Stuck(workspace, adapter, job, name, pod, node)
        await found.fault(workspace.faults.lose_node, node)
        try:
            await workspace.until(name, lambda seen: seen.cause.kind is CauseKind.NODE_LOST)
            await adapter.hold(name, instance=1, who="tests", reason="to move it")
            await _until_terminating(found)
            yield found
        finally:
            await found.fault(workspace.faults.return_node, node)
            await found.fault(workspace.faults.in_service, node)


async def _until_terminating(found: Stuck) -> None:
    """Returns when the hold has reached the pod, and the controllers have let go of it."""
    async with (
        asyncio.timeout(WAIT_SECONDS),
        found.workspace.hub() as hub,
        contextlib.aclosing(hub.subscribe(found.name)) as snapshots,
    ):
        async for snapshot in snapshots:
            pods = snapshot.pods if snapshot is not None else ()
            if pods and all(pod.metadata.deletion_timestamp is not None for pod in pods):
                return


async def out_of_service(found: Stuck) -> None:
    await found.fault(found.workspace.faults.out_of_service, found.node)


async def rebooted(found: Stuck) -> None:
    await found.fault(found.workspace.faults.reboot_node, found.node)


async def deleted(found: Stuck) -> None:
    await found.fault(found.workspace.faults.delete_node, found.node)


async def confirmed(found: Stuck) -> None:
    """By an operator: a worker may not change the ledger."""
    async with found.workspace.administrator() as operator:
        done = await operator.confirm_ceased(found.job.job_id, who="tests", reason="the machine is off")
    assert done == (f"{found.pod} on {found.node}",)


ENDS = [out_of_service, rebooted, deleted]


@pytest.mark.parametrize("end", ENDS)
def test_a_pod_on_a_lost_node_blocks_until_its_machine_has_ended(
    workspace: Workspace, end: Callable[[Stuck], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with stuck(workspace) as found:
            await found.refused(UNKNOWN)
            with pytest.raises(Refused, match="nothing to confirm"):
                await confirmed(found)
            await end(found)
            await found.accepted()

    asyncio.run(main())


@pytest.mark.parametrize("end", [*ENDS, confirmed])
def test_a_pod_that_was_forced_away_blocks_until_its_machine_has_ended_or_somebody_says_so(
    workspace: Workspace, end: Callable[[Stuck], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with stuck(workspace) as found:
            await found.force_delete()
            await found.refused(f"vanished, {UNKNOWN}")
            await end(found)
            await found.accepted()

    asyncio.run(main())


def test_a_pod_that_a_controller_has_failed_blocks_until_its_node_is_gone(workspace: Workspace) -> None:
    async def main() -> None:
        async with stuck(workspace) as found:
            await found.fail_by_hand()
            await found.refused(UNKNOWN)
            await deleted(found)
            await found.accepted()

    asyncio.run(main())


def test_the_next_submission_waits_for_a_pod_of_the_last_that_vanished(workspace: Workspace) -> None:
    async def main() -> None:
        async with stuck(workspace) as found:
            await found.force_delete()
            await found.adapter.cancel(found.name)
            await workspace.until_gone(found.adapter, found.job)
            second = await found.adapter.start(found.job, submission=2, attempt=2)
            name = names.object_name(found.job.job_id, 2)
            try:
                with pytest.raises(PodsRemain) as caught:
                    await found.adapter.open(name, uid=second.uid)
                assert caught.value.remaining == (found.listed(f"vanished, {UNKNOWN}"),)
                await confirmed(found)
                await found.adapter.open(name, uid=second.uid)
                await workspace.until_started(name, 2)
            finally:
                await found.adapter.cancel(name)

    asyncio.run(main())

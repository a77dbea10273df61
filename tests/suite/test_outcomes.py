"""How jobs end, on either cluster."""

from __future__ import annotations

import asyncio

import pytest

from airflow_dispatch.core.observation import CauseKind, Observation, State
from tests.suite.workspace import Workspace
from tests.support.accounts import TRIGGERER


def ended(observation: Observation) -> bool:
    return observation.state is State.ENDED


def both_run(observation: Observation) -> bool:
    return observation.state is State.RUNNING and observation.execution is not None


def test_a_job_that_completes_is_gated_then_runs_then_ends_completed(workspace: Workspace) -> None:
    async def main() -> None:
        job = workspace.job("sh", "-c", "echo from rank $PET_NODE_RANK")
        async with workspace.adapter() as adapter:
            gated = await adapter.start(job, submission=1, attempt=1)
            assert (gated.state, gated.foreign, gated.execution) == (State.GATED, False, None)
        async with workspace.started(job) as (adapter, name):
            done = await workspace.until(name, ended)
            assert done.cause.kind is CauseKind.COMPLETED
            assert done.cause.detail == "AllJobsCompleted: jobset completed successfully"
            assert done.execution is not None
            assert (done.execution.admission, done.execution.restart) == (1, 0)
            assert done.execution.epoch == 1_000_001
            assert not done.foreign

    asyncio.run(main())


def test_the_job_sees_its_epoch_and_token_and_none_of_the_inputs(workspace: Workspace) -> None:
    async def main() -> None:
        script = 'env | grep ^DISPATCH_ | sort; test "$(pwd)" = /; exec sleep 60'
        job = workspace.job("sh", "-c", script, num_nodes=1, work_dir="/")
        async with workspace.started(job) as (_, name), workspace.adapter(TRIGGERER) as triggerer:
            await workspace.until_started(name, 1)
            lines = []
            async for line in triggerer.output(name, follow=True):
                lines.append(line)
                if line.startswith("DISPATCH_SUBMISSION"):
                    break
            assert lines == [
                f"DISPATCH_ATTEMPT={job.job_id}.1.1.1.0",
                "DISPATCH_EPOCH=1000001",
                f"DISPATCH_JOB_ID={job.job_id}",
                "DISPATCH_SUBMISSION=1",
            ]

    asyncio.run(main())


def test_a_rank_that_fails_is_the_cause_and_the_rank_that_was_stopped_is_named_after_it(workspace: Workspace) -> None:
    async def main() -> None:
        script = 'if [ "$PET_NODE_RANK" = 1 ]; then sleep 1; exit 3; fi; exec sleep 60'
        async with workspace.started(workspace.job("sh", "-c", script)) as (_, name):
            done = await workspace.until(name, ended)
            assert done.cause.kind is CauseKind.NON_ZERO_EXIT
            first, others = done.cause.detail.split("; other ranks: ")
            assert first.startswith(f"pod {name}-node-0-1-")
            assert first.endswith(": exit code 3")
            assert f"{name}-node-0-0-" in others
            assert "non-zero-exit (exit code 143 (signal 15))" in others

    asyncio.run(main())


def test_a_rank_that_uses_too_much_memory_ends_the_job_out_of_memory(workspace: Workspace) -> None:
    async def main() -> None:
        program = "import time; hog = bytearray(400 * 1024 * 1024); time.sleep(60)"
        async with workspace.started(workspace.job("python3", "-c", program, num_nodes=1)) as (_, name):
            done = await workspace.until(name, ended)
            assert done.cause.kind is CauseKind.OUT_OF_MEMORY
            assert ": OOMKilled, exit code 137" in done.cause.detail

    asyncio.run(main())


def test_a_job_that_runs_past_its_time_limit_ends_by_timeout(workspace: Workspace) -> None:
    async def main() -> None:
        async with workspace.started(workspace.job("sleep", "60", time_limit=2)) as (_, name):
            done = await workspace.until(name, ended)
            assert done.cause.kind is CauseKind.TIMEOUT
            assert done.cause.detail.startswith("DeadlineExceeded: TrainJob exceeded its active deadline")

    asyncio.run(main())


def test_a_job_that_fits_no_node_says_what_it_waits_for(workspace: Workspace) -> None:
    async def main() -> None:
        job = workspace.job("sleep", "60", resources_per_node={"cpu": "1000"})
        async with workspace.started(job) as (_, name):
            waiting = await workspace.until(name, lambda each: each.cause.kind is CauseKind.NO_CAPACITY)
            assert waiting.state is State.RUNNING
            assert "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu" in waiting.cause.detail

    asyncio.run(main())


def test_an_image_that_can_not_be_pulled_is_named(workspace: Workspace) -> None:
    async def main() -> None:
        async with workspace.started(workspace.job("true", image="registry.invalid/none:1")) as (_, name):
            waiting = await workspace.until(name, lambda each: "ErrImagePull" in each.cause.detail)
            assert waiting.state is State.RUNNING
            assert "registry.invalid/none:1" in waiting.cause.detail

    asyncio.run(main())


@pytest.mark.timeout(180)
def test_a_lost_node_is_named_and_the_job_ends_node_lost_once_it_is_out_of_service(workspace: Workspace) -> None:
    async def main() -> None:
        async with workspace.started(workspace.job("sleep", "300")) as (_, name):
            await workspace.until_started(name, 2)
            node = await workspace.node_of_rank(name, 1)
            await asyncio.to_thread(workspace.faults.lose_node, node)
            try:
                stalled = await workspace.until(name, lambda each: each.cause.kind is CauseKind.NODE_LOST)
                assert stalled.state is State.RUNNING
                assert f"node {node} Ready=Unknown (NodeStatusUnknown)" in stalled.cause.detail
                await asyncio.to_thread(workspace.faults.out_of_service, node)
                done = await workspace.until(name, ended)
                assert done.cause.kind is CauseKind.NODE_LOST, done.cause
                assert "DeletionByTaintManager" in done.cause.detail
            finally:
                await asyncio.to_thread(workspace.faults.in_service, node)
                await asyncio.to_thread(workspace.faults.return_node, node)

    asyncio.run(main())


def test_cancelling_deletes_the_trainjob_and_everything_below_it(workspace: Workspace) -> None:
    async def main() -> None:
        job = workspace.job("sleep", "300")
        async with workspace.started(job) as (adapter, name):
            running = await workspace.until(name, both_run)
            await adapter.cancel(name, uid="00000000-0000-0000-0000-000000000000")
            assert await adapter.find(job.job_id)
            await adapter.cancel(name, uid=running.uid)
            await workspace.until_gone(adapter, job)

    asyncio.run(main())


@pytest.mark.timeout(180)
def test_a_hold_stops_the_job_and_its_release_starts_a_second_execution(workspace: Workspace) -> None:
    async def main() -> None:
        async with workspace.started(workspace.job("sleep", "300")) as (adapter, name):
            await workspace.until_started(name, 2)
            await adapter.hold(name, instance=1, who="tests", reason="to see it")
            held = await workspace.until(name, lambda each: each.state is State.HELD and not each.cause.detail)
            assert (held.hold_instance, held.admin_held) == (1, False)
            await adapter.release(name, instance=1)
            again = await workspace.until(
                name,
                lambda each: both_run(each) and each.execution is not None and each.execution.admission == 2,
            )
            assert again.execution is not None
            assert again.execution.epoch == 1_000_002

    asyncio.run(main())

"""``airflow-dispatch watch``: each observation of a job that differs from the last one, until the job ends."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command, newest
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.printing import Story, failed, note
from airflow_dispatch.core.observation import Observation, State
from airflow_dispatch.kube.observing import observations

if TYPE_CHECKING:
    from airflow_dispatch.kube.hub import Hub

__all__ = ["add_parser"]

_TROUBLE_SECONDS: Final = 5.0
"""How often is looked whether the cluster answers."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``watch``."""
    parser = add_cluster_command(commands, "watch", "prints what changes of a job until it ends or is deleted", _watch)
    parser.add_argument("job", metavar="JOB", help="a JobID or an object's name")


async def _watch(cluster: Cluster, options: argparse.Namespace) -> int:
    """Follows the job through a hub; nothing is written, not even what a waiting task would note on the TrainJob."""
    from airflow_dispatch.kube.sharing import shared_hub  # noqa: PLC0415 - takes a while, and --help does without it

    job_id = (await cluster.one()).job_id
    async with shared_hub(cluster.client.config, cluster.namespace) as hub:
        complaining = asyncio.create_task(_complain(hub))
        try:
            return await _follow(hub, cluster, job_id, Story(options))
        finally:
            complaining.cancel()


async def _follow(hub: Hub, cluster: Cluster, job_id: str, story: Story) -> int:
    last: Observation | None = None
    async with aclosing(hub.changes(job_id)) as changes:
        async for _ in changes:
            found = observations(hub.store, datetime.now(UTC), job_id)
            if cluster.name is not None:
                found = [each for each in found if each.ref == f"{cluster.namespace}/{cluster.name}"]
            for seen in found:
                story.tell(seen)
            last = newest(found)
            if last is None:
                note("the TrainJob was deleted")
                return Exit.NO
            if last.state is State.ENDED:
                break
    return Exit.NO if last is None or failed(last) else Exit.DONE


async def _complain(hub: Hub) -> None:
    """Says when the cluster stops answering, and when it answers again."""
    said: str | None = None
    while True:
        await asyncio.sleep(_TROUBLE_SECONDS)
        if hub.trouble and not said:
            note(f"the cluster can't be reached, trying again: {hub.trouble}")
        elif said and not hub.trouble:
            note("the cluster answers again")
        said = hub.trouble

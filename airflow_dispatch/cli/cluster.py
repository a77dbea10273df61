"""How commands find their cluster, their namespace and the job that is meant."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_dispatch.cli.exits import Exit, Failure
from airflow_dispatch.cli.printing import add_output_option
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.identity import parse_job_id, parse_name
from airflow_dispatch.core.observation import Observation

if TYPE_CHECKING:
    from airflow_dispatch.adapter import Adapter
    from airflow_dispatch.kube.client import KubeClient
    from airflow_dispatch.kube.config import ClusterConfig

__all__ = ["Cluster", "Command", "add_cluster_command", "add_mode_option", "is_trainjob", "newest", "run"]

_DEFAULT_NAMESPACE: Final = "default"
_MODES: Final = ("plain", "kueue")


@dataclass(frozen=True)
class Cluster:
    """What a command works with: one namespace of one cluster, and the job that it is about, if any.

    ``name`` is a TrainJob's name, or an orphan's ``<kind>/<name>``; ``job_id`` is the JobID, which a name has too.
    """

    client: KubeClient
    adapter: Adapter
    namespace: str
    name: str | None
    job_id: str | None

    async def find(self) -> list[Observation]:
        """The objects that are meant: of a JobID all, else the one of that name, and of nothing those of all jobs."""
        if self.name is not None:
            found = await self.adapter.inspect(f"{self.namespace}/{self.name}")
            return [found] if found is not None else []
        return await (self.adapter.find(self.job_id) if self.job_id is not None else self.adapter.find_all())

    async def one(self) -> Observation:
        """The TrainJob that is meant: of a JobID its newest submission.

        Raises :class:`Failure` when there is none.
        """
        found = await self.find()
        meant = newest(found)
        if meant is None:
            left = "".join(f"; left of it: {each.ref}" for each in found)
            raise Failure(f"there is no TrainJob of {self.name or self.job_id} in {self.namespace}{left}", Exit.NO)
        return meant


Command = Callable[[Cluster, argparse.Namespace], Awaitable[int]]


def is_trainjob(seen: Observation) -> bool:
    """It is a TrainJob, and nothing that is left of one."""
    return seen.ref.count("/") == 1


def newest(found: list[Observation]) -> Observation | None:
    """The TrainJob of the highest submission, or None."""
    return max((each for each in found if is_trainjob(each)), key=lambda each: each.submission, default=None)


def add_cluster_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    description: str,
    command: Command,
    *,
    output: bool = True,
) -> argparse.ArgumentParser:
    """Adds a command that speaks to a cluster, with the options that all of them have."""
    parser = commands.add_parser(name, help=description, description=description)
    where = parser.add_argument_group("cluster")
    where.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else ~/.kube/config, else the pod's")
    where.add_argument("--context", metavar="NAME", help="one of the kubeconfig's contexts (default: the current one)")
    where.add_argument("--namespace", "-n", metavar="NAME", help="default: the context's, else default")
    if output:
        add_output_option(parser)
    parser.set_defaults(run=lambda options: run(options, command), job=None)
    return parser


def add_mode_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--mode``."""
    parser.add_argument("--mode", choices=_MODES, help="with Kueue's queues or without (default: as the job says)")


def run(options: argparse.Namespace, command: Command) -> int:
    """Connects, and runs a command to its end."""

    async def main() -> int:
        async with _connect(options) as cluster:
            return await command(cluster, options)

    return asyncio.run(main())


@asynccontextmanager
async def _connect(options: argparse.Namespace) -> AsyncIterator[Cluster]:
    from airflow_dispatch.adapter import Adapter  # noqa: PLC0415 - takes a while, and --help does without it
    from airflow_dispatch.kube.client import KubeClient  # noqa: PLC0415
    from airflow_dispatch.kube.config import context_namespace  # noqa: PLC0415

    given, name, job_id = _meant(options.job) if options.job is not None else (None, None, None)
    if given and options.namespace and given != options.namespace:
        raise Failure(f"{options.job} is in another namespace than --namespace {options.namespace}", Exit.USAGE)
    config = _config(options)
    async with await KubeClient.connect(config) as client:
        named = options.namespace or given
        namespace = named or await asyncio.to_thread(context_namespace, config) or _DEFAULT_NAMESPACE
        yield Cluster(client, Adapter(client, namespace), namespace, name, job_id)


def _config(options: argparse.Namespace) -> ClusterConfig:
    """As kubectl has it: what is named, else a default kubeconfig that is there, else the pod's service account."""
    from airflow_dispatch.kube.config import ClusterConfig, default_kubeconfig, runs_in_pod  # noqa: PLC0415

    there = any(Path(each).expanduser().exists() for each in default_kubeconfig().split(os.pathsep))
    in_pod = options.kubeconfig is None and not there and runs_in_pod()
    return ClusterConfig(kubeconfig=options.kubeconfig, context=options.context, in_cluster=in_pod)


def _meant(job: str) -> tuple[str | None, str | None, str | None]:
    """Namespace, name and JobID of what a user calls JOB: a JobID, an object's name, or a reference to it."""
    before, slash, after = job.partition("/")
    namespace, rest = (before, after) if slash else (None, job)
    if "/" in rest:
        return namespace, rest, None
    submission = parse_name(rest)
    if submission is not None:
        return namespace, rest, submission.job_id
    try:
        return namespace, None, parse_job_id(rest)
    except InvalidJob:
        message = f"{job!r} is neither a JobID (26 characters) nor the name of a TrainJob (dj-<JobID>-s<N>)"
        raise Failure(message, Exit.USAGE) from None

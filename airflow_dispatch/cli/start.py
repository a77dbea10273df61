"""``airflow-dispatch start``: a job from a file, created gated."""

from __future__ import annotations

import argparse
from typing import Final

from ulid import ULID

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command, add_mode_option, newest
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.files import read_file
from airflow_dispatch.cli.jobfile import parse_job
from airflow_dispatch.cli.printing import note, say, show
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import State

__all__ = ["add_parser"]

_ATTEMPT: Final = 1
"""Only a task has tries; from the command line there is one (contract, section 13)."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``start``."""
    parser = add_cluster_command(
        commands, "start", "creates a job, gated: it runs once it is opened; prints its JobID", _start
    )
    parser.add_argument("file", metavar="FILE", help="the job in YAML or JSON; - is standard input")
    add_mode_option(parser)


async def _start(cluster: Cluster, options: argparse.Namespace) -> int:
    job = _job(options)
    submission = await _submission(cluster, job.job_id)
    seen = await cluster.adapter.start(job, submission=submission, attempt=_ATTEMPT)
    if options.output == "json":
        show(options, [seen])
        return Exit.DONE
    say(seen.job_id)
    gated = f"; airflow-dispatch open {seen.job_id} lets it run" if seen.state is State.GATED else ""
    note(f"{seen.ref} is {seen.state}{gated}")
    return Exit.DONE


def _job(options: argparse.Namespace) -> TrainingJob:
    try:
        job = parse_job(read_file(options.file), str(ULID()))
        _check_mode(options.mode, job.queue)
    except InvalidJob as error:
        raise InvalidJob(f"{options.file}: {error}") from error
    return job


def _check_mode(mode: str | None, queue: str | None) -> None:
    if mode == "kueue" and queue is None:
        raise InvalidJob("queue must be given with --mode kueue: it names a LocalQueue")
    if mode == "plain" and queue is not None:
        raise InvalidJob(f"queue {queue!r} is given, but --mode plain is without queues")


async def _submission(cluster: Cluster, job_id: str) -> int:
    """The submission that has not ended yet, which is found again; else the next one."""
    found = await cluster.adapter.find(job_id)
    last = newest(found)
    if last is not None and last.state is not State.ENDED:
        return last.submission
    return 1 + max((each.submission for each in found), default=0)

"""``airflow-dispatch record``: what the watches bring, redacted, in a file that ``replay`` reads."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from io import FileIO
from typing import TYPE_CHECKING, Final

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command, newest
from airflow_dispatch.cli.exits import Exit, Failure
from airflow_dispatch.cli.printing import note
from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.core.observation import State
from airflow_dispatch.kube.observing import observations
from airflow_dispatch.recording.format import Head, Line, encode
from airflow_dispatch.recording.recorder import RecordingStore, Tape

if TYPE_CHECKING:
    from airflow_dispatch.kube.hub import Hub

__all__ = ["add_parser"]

_LINGER_SECONDS: Final = 2.0
"""Kinds come in streams of their own: what belongs to an end may be on its way when the end is seen."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``record``."""
    parser = add_cluster_command(
        commands,
        "record",
        "writes down what the cluster shows of a job until it ends, or of a namespace until Ctrl-C",
        _record,
        output=False,
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="a JobID or an object's name (default: all jobs)")
    parser.add_argument("-o", dest="file", metavar="FILE", required=True, help="the file to write, which must be new")


async def _record(cluster: Cluster, options: argparse.Namespace) -> int:
    from airflow_dispatch.kube.client import KubeClient  # noqa: PLC0415 - takes a while, and --help does without it
    from airflow_dispatch.kube.hub import Hub  # noqa: PLC0415

    job_id = (await cluster.one()).job_id if options.job is not None else None
    version = (await cluster.client.document("/version")).body.get("gitVersion")
    began = time.monotonic()
    head = Head(
        namespace=cluster.namespace,
        job_id=job_id or "",
        about=f"recorded with airflow-dispatch record {options.job or ''}".rstrip(),
        versions={"kubernetes": version} if isinstance(version, str) else {},
        started=datetime.now(UTC),
    )
    with _new_file(options.file) as file:
        write = _writer(options.file, file)
        write(head)
        tape = Tape(write, lambda: round(time.monotonic() - began, 3))
        async with await KubeClient.connect(cluster.client.config, decode=tape.decode) as client:
            hub = Hub(client, cluster.namespace)
            hub.store = RecordingStore(cluster.namespace, tape, job_id)
            note(f"recording to {options.file}; Ctrl-C ends it")
            await _until_end(hub, job_id, tape)
    note(f"recorded {options.file}: look through it before you give it away")
    return Exit.DONE


@contextmanager
def _new_file(path: str) -> Iterator[FileIO]:
    """A file that only its owner can read.

    Raises :class:`Failure` when it is there already, or can't be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Failure(f"{path} exists already: name a new file", Exit.USAGE) from error
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", Exit.USAGE) from error
    with FileIO(descriptor, "w") as file:
        yield file


def _writer(path: str, file: FileIO) -> Callable[[Head | Line], None]:
    """Writes lines one by one, so that a recording that is killed ends with a whole one."""

    def write(line: Head | Line) -> None:
        try:
            rest = encode(line)
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            raise InvalidFile(f"{path}: {error.strerror or error}") from error

    return write


async def _until_end(hub: Hub, job_id: str | None, tape: Tape) -> None:
    """Runs the hub until the job's end, or until somebody ends it; raises what keeps it from watching."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    running = asyncio.create_task(hub.run())
    waiting = {running, asyncio.create_task(stop.wait())}
    if job_id is not None:
        waiting.add(asyncio.create_task(_end_of(hub, job_id, tape)))
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await hub.synced()
        for each in done:
            each.result()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _end_of(hub: Hub, job_id: str, tape: Tape) -> None:
    """Returns when the job has ended, or when nothing of it is left."""
    async with aclosing(hub.changes(job_id)) as changes:
        async for _ in changes:
            found = observations(hub.store, datetime.now(UTC), job_id)
            last = newest(found)
            if not found or (last is not None and last.state is State.ENDED):
                await asyncio.sleep(_LINGER_SECONDS)
                tape.mark("the job has ended" if found else "the job was deleted")
                return

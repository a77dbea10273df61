"""``status``, ``explain`` and ``output``: what is there."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command, newest
from airflow_dispatch.cli.exits import Exit, Failure
from airflow_dispatch.cli.printing import failed, note, say, show
from airflow_dispatch.core.classify.conditions import stamp
from airflow_dispatch.core.explain import hints
from airflow_dispatch.core.observation import CauseKind, Observation

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the three commands."""
    status = add_cluster_command(
        commands, "status", "prints the state of a job, or of all jobs, and its cause", _status
    )
    status.add_argument("job", metavar="JOB", nargs="?", help="a JobID or an object's name (default: all jobs)")
    explain = add_cluster_command(
        commands, "explain", "prints all that is known of a job's newest submission", _explain
    )
    explain.add_argument("job", metavar="JOB", help="a JobID or an object's name")
    output = add_cluster_command(
        commands, "output", "prints what rank 0 of the current execution has written", _output, output=False
    )
    output.add_argument("job", metavar="JOB", help="a JobID or an object's name")
    output.add_argument("--follow", "-f", action="store_true", help="goes on until the rank ends")
    output.add_argument("--tail", type=int, metavar="N", help="its last lines alone")


async def _status(cluster: Cluster, options: argparse.Namespace) -> int:
    found = await cluster.find()
    show(options, found)
    if options.job is None:
        if not found:
            note(f"there is no job in namespace {cluster.namespace}")
        return Exit.DONE
    if not found:
        raise Failure(f"there is nothing of {options.job} in namespace {cluster.namespace}", Exit.NO)
    last = newest(found)
    return Exit.NO if last is None or failed(last) else Exit.DONE


async def _explain(cluster: Cluster, options: argparse.Namespace) -> int:
    found = await cluster.find()
    seen = newest(found) or (found[0] if found else await cluster.one())
    if options.output == "json":
        show(options, [seen])
    else:
        for line in _explained(seen):
            say(line)
    return Exit.NO if failed(seen) else Exit.DONE


def _explained(seen: Observation) -> Iterator[str]:
    """An observation in full, a fact a line; the detail's parts, and what to do about them, one below the other."""
    yield seen.ref
    facts = {
        "job": [f"{seen.job_id}, submission {seen.submission}, attempt {seen.attempt}"],
        "state": [_state(seen)],
        "execution": [_execution(seen)] if seen.execution is not None else [],
        "cause": [_cause(seen)],
        "detail": [part for part in seen.cause.detail.split("; ") if part],
        "to do": hints(seen),
    }
    for name, parts in facts.items():
        for title, part in zip([name, *[""] * len(parts)], parts, strict=False):
            yield f"  {title:<10} {part}"


def _state(seen: Observation) -> str:
    held = f"hold {seen.hold_instance} is in force" if seen.hold_instance else ""
    admin = "by somebody else" if seen.admin_held else ""
    return ", ".join(part for part in (seen.state.value, held, admin) if part)


def _execution(seen: Observation) -> str:
    found = seen.execution
    if found is None:
        return ""
    return f"admission {found.admission}, restart {found.restart}, epoch {found.epoch}, token {found.token}"


def _cause(seen: Observation) -> str:
    if seen.cause.kind is CauseKind.NONE:
        return "none: nothing is known to be wrong"
    since = f" at {stamp(seen.cause.at)}" if seen.cause.at is not None else ""
    return f"{seen.cause.kind}{f' ({seen.cause.provenance})' if seen.cause.provenance else ''}{since}"


async def _output(cluster: Cluster, options: argparse.Namespace) -> int:
    seen = await cluster.one()
    name = seen.ref.partition("/")[2]
    async for line in cluster.adapter.output(name, follow=options.follow, tail_lines=options.tail):
        say(line)
    return Exit.DONE

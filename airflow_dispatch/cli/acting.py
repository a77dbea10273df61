"""``open``, ``hold``, ``release`` and ``cancel``: the verbs on a job that is there."""

from __future__ import annotations

import argparse

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command, is_trainjob, newest
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.printing import note, show, time_of
from airflow_dispatch.core.observation import Observation, State

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the four commands."""
    opened = add_cluster_command(commands, "open", "lets a gated job run", _open)
    hold = add_cluster_command(commands, "hold", "stops a job until its hold is released", _hold)
    release = add_cluster_command(commands, "release", "lets a held job run again, in a new execution", _release)
    cancel = add_cluster_command(commands, "cancel", "deletes a job", _cancel)
    for parser in (opened, hold, release, cancel):
        parser.add_argument("job", metavar="JOB", help="a JobID or an object's name")
    hold.add_argument("--who", metavar="NAME", required=True, help="who holds it")
    hold.add_argument("--reason", metavar="TEXT", required=True, help="why")
    hold.add_argument("--until", type=time_of, metavar="TIME", help="until when, in RFC 3339: it is only written down")


async def _open(cluster: Cluster, options: argparse.Namespace) -> int:
    seen = await cluster.one()
    show(options, [await cluster.adapter.open(_name(seen), uid=seen.uid)])
    return Exit.DONE


async def _hold(cluster: Cluster, options: argparse.Namespace) -> int:
    """A new hold each time: its instance is the one in force + 1."""
    seen = await cluster.one()
    held = await cluster.adapter.hold(
        _name(seen),
        instance=seen.hold_instance + 1,
        who=options.who,
        reason=options.reason,
        until=options.until,
        uid=seen.uid,
    )
    show(options, [held])
    return Exit.DONE


async def _release(cluster: Cluster, options: argparse.Namespace) -> int:
    seen = await cluster.one()
    if not seen.hold_instance:
        note(f"no hold of {seen.ref} is in force")
        show(options, [seen])
        return Exit.DONE
    show(options, [await cluster.adapter.release(_name(seen), instance=seen.hold_instance, uid=seen.uid)])
    return Exit.DONE


async def _cancel(cluster: Cluster, options: argparse.Namespace) -> int:
    """Deletes what has not ended of a job, else its newest submission; nothing to delete is success."""
    found = [each for each in await cluster.find() if is_trainjob(each)]
    last = newest(found)
    meant = [each for each in found if each.state is not State.ENDED] or ([last] if last is not None else [])
    for seen in meant:
        await cluster.adapter.cancel(_name(seen), uid=seen.uid)
        note(f"deleted {seen.ref}")
    show(options, meant if options.output == "json" else [])
    if not meant:
        note(f"there is no TrainJob of {options.job} in {cluster.namespace}")
    return Exit.DONE


def _name(seen: Observation) -> str:
    return seen.ref.partition("/")[2]

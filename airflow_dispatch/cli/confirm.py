"""``airflow-dispatch confirm-ceased``: an operator's word that vanished pods have ended (contract, section 12)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command
from airflow_dispatch.cli.exits import Exit

__all__ = ["add_parser"]

_DESCRIPTION: Final = (
    "confirms that the processes of a job's pods which vanished while they ran have ended, so that it may run again; "
    "look at their nodes first"
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``confirm-ceased``."""
    parser = add_cluster_command(commands, "confirm-ceased", _DESCRIPTION, _confirm)
    parser.add_argument("job", metavar="JOB", help="a JobID or an object's name")
    parser.add_argument("--who", metavar="NAME", required=True, help="who says so")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="how they know")


async def _confirm(cluster: Cluster, options: argparse.Namespace) -> int:
    job = cluster.job_id or options.job
    done = await cluster.adapter.confirm_ceased(job, who=options.who, reason=options.reason)
    if options.output == "json":
        sys.stdout.write(json.dumps({"confirmed": done}) + "\n")
    else:
        sys.stdout.writelines(f"confirmed: {each}\n" for each in done)
    return Exit.DONE

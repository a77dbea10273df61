"""``airflow-dispatch doctor``: what keeps jobs from running, a line each, with what to do about it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command, add_mode_option
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.printing import note, say

if TYPE_CHECKING:
    from airflow_dispatch.adapter import Finding

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``doctor``."""
    parser = add_cluster_command(commands, "doctor", "says what keeps jobs from running, and how to mend it", _doctor)
    parser.add_argument("--runtime", metavar="NAME", help="the runtime to look at (default: any that can be used)")
    parser.add_argument("--role", choices=("worker", "triggerer"), help="ask for its permissions alone (default: both)")
    add_mode_option(parser)


async def _doctor(cluster: Cluster, options: argparse.Namespace) -> int:
    findings = await cluster.adapter.preflight(options.runtime, role=options.role, kueue=options.mode == "kueue")
    findings += _deployment()
    for each in findings:
        if options.output == "json":
            say(json.dumps(each._asdict()))
        else:
            say(f"{each.problem}. Why: {each.why}. Fix: {each.fix}")
    if not findings:
        note(f"nothing is missing for jobs in namespace {cluster.namespace} of {cluster.client.server}")
    return Exit.NO if findings else Exit.DONE


def _deployment() -> list[Finding]:
    """Whether this Airflow has a name; importing Airflow where it is not configured would make folders for it."""
    if not _airflow_is_configured():
        note("Airflow is not configured for this user: its deployment's name was not looked at")
        return []
    from airflow_dispatch.adapter import Finding  # noqa: PLC0415 - as Airflow below, --help does without it
    from airflow_dispatch.hooks.deployment import configured_deployment  # noqa: PLC0415

    if configured_deployment() is not None:
        return []
    return [
        Finding(
            "this Airflow deployment has no name",
            "two deployments that share a namespace would adopt each other's jobs, so tasks refuse to submit",
            "set [dispatch] deployment in airflow.cfg, or dispatch_deployment in the connection's extra",
        )
    ]


def _airflow_is_configured() -> bool:
    named = any(name in ("AIRFLOW_HOME", "AIRFLOW_CONFIG") or name.startswith("AIRFLOW__") for name in os.environ)
    return named or Path("~/airflow/airflow.cfg").expanduser().exists()

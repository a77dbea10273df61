"""``airflow-dispatch harden-runtime``: the safe twin of a runtime, ready for ``kubectl apply -f -``."""

from __future__ import annotations

import argparse
import json

import yaml

from airflow_dispatch.cli.cluster import Cluster, add_cluster_command
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.printing import note, say

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``harden-runtime``."""
    parser = add_cluster_command(
        commands, "harden-runtime", "prints the safe twin of a training runtime, to be applied", _harden
    )
    parser.add_argument("name", metavar="NAME", help="a ClusterTrainingRuntime or TrainingRuntime")


async def _harden(cluster: Cluster, options: argparse.Namespace) -> int:
    twin = await cluster.adapter.hardened_runtime(options.name)
    say(json.dumps(twin) if options.output == "json" else yaml.safe_dump(twin, sort_keys=False).rstrip())
    note(f"{twin['kind']} {twin['metadata']['name']}: apply it, and name it as runtime")
    return Exit.DONE

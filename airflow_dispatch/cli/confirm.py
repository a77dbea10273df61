"""``airflow-dispatch confirm-ceased``: an operator's word that vanished pods have ended (contract, section 12)."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final

from airflow_dispatch.cli.exits import Exit, Failure
from airflow_dispatch.core.errors import DispatchError, InvalidJob, Refused

__all__ = ["add_parser"]

_DESCRIPTION: Final = (
    "confirms that the processes of a job's pods which vanished while they ran have ended, so that it may run again; "
    "look at their nodes first"
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``confirm-ceased``."""
    parser = commands.add_parser("confirm-ceased", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.set_defaults(run=_run)
    parser.add_argument("job", metavar="JOB", help="the JobID, or the name of a TrainJob of the job")
    parser.add_argument("--who", required=True, metavar="WHO", help="who says so")
    parser.add_argument("--reason", required=True, metavar="WHY", help="how they know")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default $KUBECONFIG, else ~/.kube/config")
    parser.add_argument("--context", metavar="NAME", help="which of its contexts (default its current one)")
    parser.add_argument("--namespace", "-n", default="default", help="the job's namespace (default default)")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default text")


def _run(options: argparse.Namespace) -> int:
    try:
        done = asyncio.run(_confirm(options))
    except DispatchError as error:
        raise Failure(str(error), _exit_of(error)) from error
    if options.output == "json":
        sys.stdout.write(json.dumps({"confirmed": done}) + "\n")
    else:
        sys.stdout.writelines(f"confirmed: {each}\n" for each in done)
    return Exit.DONE


async def _confirm(options: argparse.Namespace) -> tuple[str, ...]:
    from airflow_dispatch.adapter import Adapter  # noqa: PLC0415 - other commands do without a client
    from airflow_dispatch.kube.client import KubeClient  # noqa: PLC0415
    from airflow_dispatch.kube.config import ClusterConfig  # noqa: PLC0415

    config = ClusterConfig(kubeconfig=options.kubeconfig, context=options.context)
    async with await KubeClient.connect(config) as client:
        adapter = Adapter(client, options.namespace)
        return await adapter.confirm_ceased(options.job, who=options.who, reason=options.reason)


def _exit_of(error: DispatchError) -> Exit:
    match error:
        case InvalidJob():
            return Exit.USAGE
        case Refused():
            return Exit.REFUSED
        case _:
            return Exit.UNREACHABLE

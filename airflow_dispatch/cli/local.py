"""``airflow-dispatch local``: the local cluster, and the faults of its nodes and pods."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import logging
import os
import select
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_dispatch.cli.exits import Exit, Failure
from airflow_dispatch.cli.state import LocalState, default_state_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from airflow_dispatch.localcluster.faults import Faults

__all__ = ["add_parser", "serve"]

_REQUEST_TIMEOUT: Final = 30.0
_END_TIMEOUT: Final = 60.0
_NODE_VERBS: Final = {
    "lose": ("lose-node", "its heartbeats stop and its kubelet is cut off; its processes go on"),
    "return": ("return-node", "a lost or deleted node is back and acts on what it has missed"),
    "delete": ("delete-node", "deletes the Node object of a machine that is cut off; its processes go on"),
    "reboot": ("reboot-node", "its processes die, and it comes back with another boot ID"),
    "out-of-service": ("out-of-service", "taints it node.kubernetes.io/out-of-service"),
    "in-service": ("in-service", "takes that taint off again"),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``local`` and what is below it."""
    local = commands.add_parser("local", help="a cluster in one process on this machine, and its faults")
    verbs = local.add_subparsers(metavar="VERB", required=True)
    _add_up(verbs)
    down = _verb(verbs, "down", "ends the running cluster and all its pods", _down)
    _state_option(down)
    nodes = verbs.add_parser("node", help="what happens to a node").add_subparsers(metavar="FAULT", required=True)
    for verb, (act, description) in _NODE_VERBS.items():
        fault = _verb(nodes, verb, description, _node)
        fault.set_defaults(act=act)
        fault.add_argument("node", metavar="NODE")
        _state_option(fault)
    _add_pod(verbs)


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    description: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=description, description=description)
    parser.set_defaults(run=run)
    return parser


def _state_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", type=Path, default=None, metavar="FILE", help=f"the state file (default {default_state_file()})"
    )


def _add_up(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    up = _verb(verbs, "up", "runs a cluster in the foreground until it is interrupted", _up)
    up.add_argument("--nodes", type=int, default=3, metavar="N", help="how many nodes (default 3)")
    up.add_argument("--port", type=int, default=0, metavar="PORT", help="the API server's port (default: a free one)")
    up.add_argument(
        "--directory", type=Path, metavar="DIR", help="where kubeconfig and pods' files go (default: temporary)"
    )
    _state_option(up)


def _add_pod(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    pods = verbs.add_parser("pod", help="what happens to a pod").add_subparsers(metavar="FAULT", required=True)
    leave = _verb(pods, "exit", "ends a container with an exit code", _pod)
    leave.add_argument("--code", type=_exit_code, required=True, metavar="N", help="0 to 255")
    leave.set_defaults(act="pod-exit")
    _verb(pods, "oom", "ends a container as out of memory", _pod).set_defaults(act="pod-oom")
    _verb(pods, "force-delete", "deletes a pod with no grace", _pod).set_defaults(act="force-delete")
    for name, parser in pods.choices.items():
        parser.add_argument("pod", metavar="POD")
        parser.add_argument("--namespace", "-n", default="default")
        if name != "force-delete":
            parser.add_argument("--container", "-c", help="which container (default: the first that runs)")
        _state_option(parser)


def _exit_code(text: str) -> int:
    code = int(text)
    if not 0 <= code <= 255:  # noqa: PLR2004 - what a process can exit with
        raise argparse.ArgumentTypeError("an exit code is 0 to 255")
    return code


def _state_file(options: argparse.Namespace) -> Path:
    return options.state or default_state_file()


def _up(options: argparse.Namespace) -> int:
    path = _state_file(options)
    if options.nodes < 1:
        raise Failure("--nodes must be at least 1", Exit.USAGE)
    running = LocalState.find(path)
    if running is not None:
        raise Failure(f"a local cluster is running already (process {running.pid}, {running.url})", Exit.REFUSED)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    from airflow_dispatch.localcluster import LocalCluster  # noqa: PLC0415 - other commands do without it

    cluster = LocalCluster(nodes=options.nodes, port=options.port, directory=options.directory)
    asyncio.run(serve(cluster, options.nodes, path))
    return Exit.DONE


class Cluster(Protocol):
    """What is needed of a running cluster to serve it."""

    @property
    def url(self) -> str: ...

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def faults(self) -> Faults: ...


async def serve(starting: AbstractAsyncContextManager[Cluster], nodes: int, path: Path) -> None:
    """Runs a cluster of so many nodes until Ctrl-C or ``airflow-dispatch local down``.

    The state file, at ``path``, is there as long as the cluster is ready.
    """
    from airflow_dispatch.localcluster.control import ControlServer  # noqa: PLC0415 - other commands do without it

    async with starting as cluster, ControlServer(cluster.faults) as control:
        state = LocalState(os.getpid(), cluster.url, str(cluster.kubeconfig), control.url, control.token)
        state.write(path)
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, control.down.set)
            _say(f"{nodes} nodes are ready at {cluster.url}")
            _say(f"export KUBECONFIG={cluster.kubeconfig}")
            _say("Ctrl-C, or airflow-dispatch local down, ends it with all its pods")
            await control.down.wait()
        finally:
            state.remove(path)
    _say("the cluster has ended")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _down(options: argparse.Namespace) -> int:
    state = LocalState.read(_state_file(options))
    process = os.pidfd_open(state.pid)
    try:
        _ask(state, {"act": "down"})
        ended, _, _ = select.select([process], [], [], _END_TIMEOUT)
    finally:
        os.close(process)
    if not ended:
        raise Failure(f"process {state.pid} has not ended within {_END_TIMEOUT:.0f} s", Exit.NO)
    return Exit.DONE


def _node(options: argparse.Namespace) -> int:
    _ask(LocalState.read(_state_file(options)), {"act": options.act, "node": options.node})
    return Exit.DONE


def _pod(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name, None) for name in ("act", "pod", "namespace", "container", "code")}
    _ask(LocalState.read(_state_file(options)), {name: value for name, value in wanted.items() if value is not None})
    return Exit.DONE


def _ask(state: LocalState, request: dict[str, Any]) -> None:
    """Has the running cluster do something.

    Raises:
        Failure: It can't be reached, or there is no such node or pod.
    """
    headers = {"Authorization": f"Bearer {state.token}", "Content-Type": "application/json"}
    message = urllib.request.Request(state.control, json.dumps(request).encode(), headers)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(message, timeout=_REQUEST_TIMEOUT):  # noqa: S310 - loopback
            return
    except urllib.error.HTTPError as error:
        with error:
            words = json.loads(error.read()).get("error", str(error))
        raise Failure(words, Exit.REFUSED) from error
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"the local cluster does not answer at {state.control}: {error}", Exit.UNREACHABLE) from error

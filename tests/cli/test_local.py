"""``airflow-dispatch local``: the running cluster and its state file."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.state import LocalState
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.control import ControlServer


@contextmanager
def control_of(directory: Path) -> Iterator[LocalState]:
    """A running cluster with a control endpoint in a thread; its state."""
    ready = threading.Event()
    found: list[LocalState] = []

    async def serve() -> None:
        cluster = LocalCluster(nodes=2, directory=directory, runtime="scripted")
        async with cluster, ControlServer(cluster.faults) as control:
            found.append(LocalState(os.getpid(), cluster.url, str(cluster.kubeconfig), control.url, control.token))
            ready.set()
            await control.down.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    path = directory / "state.json"
    found[0].write(path)
    try:
        yield found[0]
    finally:
        request = {"act": "down"}
        from airflow_dispatch.cli.local import _ask  # noqa: PLC0415

        _ask(found[0], request)
        thread.join()


def test_without_a_cluster_the_command_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["local", "node", "lose", "node-1", "--state", str(tmp_path / "none.json")])
    assert code == Exit.UNREACHABLE
    assert "airflow-dispatch local up" in capsys.readouterr().err


def test_a_state_file_that_outlived_its_cluster_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = tmp_path / "state.json"
    LocalState(ended.pid, "https://x", "k", "http://127.0.0.1:1", "t").write(path)
    assert main(["local", "down", "--state", str(path)]) == Exit.UNREACHABLE
    assert "has ended" in capsys.readouterr().err


def test_a_state_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "below" / "state.json"
    LocalState(1, "https://x", "k", "http://127.0.0.1:1", "t").write(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "arguments",
    [
        ["local"],
        ["local", "node", "lose"],
        ["local", "pod", "exit", "a"],
        ["local", "pod", "exit", "a", "--code", "256"],
    ],
)
def test_bad_usage_exits_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == Exit.USAGE
    assert "usage: airflow-dispatch local" in capsys.readouterr().err


def test_faults_reach_the_running_cluster_and_mistakes_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with control_of(tmp_path):
        state = ["--state", str(tmp_path / "state.json")]
        assert main(["local", "node", "lose", "node-1", *state]) == Exit.DONE
        assert main(["local", "node", "return", "node-1", *state]) == Exit.DONE
        assert main(["local", "node", "out-of-service", "node-1", *state]) == Exit.DONE
        assert main(["local", "node", "reboot", "node-9", *state]) == Exit.REFUSED
        assert "there is no node 'node-9'; there are node-0, node-1" in capsys.readouterr().err
        assert main(["local", "pod", "exit", "nothing", "--code", "3", *state]) == Exit.REFUSED
        assert "no node runs a pod default/nothing" in capsys.readouterr().err


def test_a_wrong_token_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with control_of(tmp_path) as state:
        path = tmp_path / "other.json"
        LocalState(state.pid, state.url, state.kubeconfig, state.control, "wrong").write(path)
        assert main(["local", "node", "lose", "node-1", "--state", str(path)]) == Exit.REFUSED
        assert "the token is missing or wrong" in capsys.readouterr().err


def test_up_serves_until_down_and_leaves_nothing_behind(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    command = [sys.executable, "-c", "import sys; from airflow_dispatch.cli import main; sys.exit(main())", "local"]
    up = [*command, "up", "--nodes", "1", "--state", str(state), "--directory", str(tmp_path / "cluster")]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("1 nodes are ready at https://127.0.0.1:")
        assert cluster.stdout.readline().startswith("export KUBECONFIG=")
        written = json.loads(state.read_text())
        assert written["pid"] == cluster.pid
        assert state.stat().st_mode & 0o777 == 0o600
        assert main(["local", "up", "--state", str(state)]) == Exit.REFUSED
        assert main(["local", "down", "--state", str(state)]) == Exit.DONE
        assert cluster.wait() == Exit.DONE
    assert not state.exists()

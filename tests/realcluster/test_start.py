"""A start that fails, and an end of any kind: the process is named, and none is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from demo.services import ServiceError, wait_for
from tests.realcluster import controlplane
from tests.support.e2e import program, still_running
from tests.support.pages import ROOT

HEALTHY_ETCD = f"""#!{sys.executable}
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

url = sys.argv[[arg.startswith("--listen-client-urls") for arg in sys.argv].index(True)]
HTTPServer(("127.0.0.1", int(url.rpartition(":")[2])), Healthy).serve_forever()
"""
ENDS = "#!/bin/sh\necho 'it does not like this flag'\nexit 3\n"


@pytest.mark.parametrize(
    ("programs", "culprit"),
    [({"etcd": ENDS}, "etcd"), ({"etcd": HEALTHY_ETCD, "kube-apiserver": ENDS}, "kube-apiserver")],
)
def test_a_start_that_fails_names_the_process_shows_its_last_lines_and_leaves_none(
    programs: dict[str, str], culprit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in programs.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(controlplane, "programs", lambda: tmp_path)

    async def main() -> None:
        async with controlplane.control_plane(tmp_path / "run"):
            pytest.fail("it can't have started")

    with pytest.raises(ServiceError) as caught:
        asyncio.run(main())
    assert str(caught.value).startswith(f"{culprit} has ended with exit code 3; its last lines:\nit does not like")
    assert still_running(tmp_path) == []


@pytest.mark.usefixtures("real_only")
@pytest.mark.parametrize(
    ("when", "number"),
    [
        ("starting", signal.SIGINT),
        ("starting", signal.SIGTERM),
        ("ready", signal.SIGINT),
        ("ready", signal.SIGKILL),
    ],
)
def test_no_process_outlives_it(when: str, number: signal.Signals, tmp_path: Path) -> None:
    state, folder = tmp_path / "state.json", tmp_path / "run"
    command = [sys.executable, "-m", "tests.realcluster", "--state", str(state), "--directory", str(folder)]
    with program(command, cwd=ROOT, process_group=0) as running:
        reached = state if when == "ready" else folder / "logs" / "kube-apiserver.log"
        wait_for(str(reached), reached.exists, [], 90)
        assert any("kube-apiserver" in line for line in still_running(folder))
        os.killpg(running.pid, number)
        running.communicate()
    wait_for("the end of all", lambda: still_running(folder) == [], [], 20)
    assert not state.exists() or number == signal.SIGKILL

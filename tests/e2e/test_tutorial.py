"""The tutorial, command by command, as somebody follows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.e2e import program
from tests.support.pages import blocks

pytestmark = pytest.mark.timeout(180)

PAGE = "docs/tutorial.md"


def _blocks(language: str) -> list[str]:
    return [block.text for block in blocks(language) if block.page == PAGE]


def _terminal(script: str, folder: Path, environment: dict[str, str]) -> AbstractContextManager[subprocess.Popen[str]]:
    """A shell that runs commands, with everything that they print."""
    return program(["bash", "-euc", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL)


def _until(process: subprocess.Popen[str], words: str) -> list[str]:
    """What it prints, up to the line with ``words``."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} is not in:\n{''.join(lines)}")


def test_every_step_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    _install, up, tell, run, exit_with_3, down = _blocks("sh")
    dag, find_pods = _blocks("python")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "KUBE", "XDG_"))}
    environment = {**kept, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}

    def finished(script: str) -> str:
        with _terminal(script, tmp_path, environment) as terminal:
            printed, _ = terminal.communicate()
        assert terminal.returncode == 0, printed
        return printed

    with _terminal(up, tmp_path, environment) as cluster:
        _until(cluster, "3 nodes are ready at https://127.0.0.1:")
        (tmp_path / "dags").mkdir()
        (tmp_path / "dags" / "first_job.py").write_text(dag)
        (tmp_path / "find_pods.py").write_text(find_pods)
        with _terminal(tell + run, tmp_path, environment) as airflow:
            before = _until(airflow, "rank 0 | rank 0 of 2")
            pods = finished("python3 find_pods.py")
            (pod,) = re.findall(r"^(dj-\S+-node-0-1-\S+) Running$", pods, re.MULTILINE)
            finished(re.sub(r"dj-\S+", pod, exit_with_3))
            after, _ = airflow.communicate()
        finished(down)
        cluster.communicate()

    shown = "".join(before)
    assert [words for words in ("submitted default/dj-", "opened", "running: admission 1") if words not in shown] == []
    assert f"ended: non-zero-exit: pod {pod}: exit code 3; other ranks: " in after
    assert "TrainJobNonZeroExitError" in after
    assert cluster.returncode == 0

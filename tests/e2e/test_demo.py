"""The demo as a person starts it: what it shows, its exit code, and that it leaves nothing running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.e2e import program, still_running
from tests.support.pages import ROOT

pytestmark = pytest.mark.timeout(240)


def _demo(folder: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """The demo in a folder of its own and in a process group of its own, as a shell starts it."""
    return program([sys.executable, "-m", "demo", "--folder", folder, *arguments], cwd=ROOT, process_group=0)


def test_the_demo_shows_a_training_run_and_ends_with_0(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "demo"
    with _demo(folder, *(["--real"] if request.config.getoption("--real") else [])) as demo:
        shown, _ = demo.communicate()

    assert demo.returncode == 0, shown
    losses = [float(loss) for loss in re.findall(r"rank 0 \| epoch \d+/10  loss ([0-9.]+)", shown)]
    assert len(losses) == 10, shown
    assert losses[-1] < losses[0] / 5
    (accuracy,) = re.findall(r"rank 0 \| accuracy ([0-9.]+) on ", shown)
    assert float(accuracy) > 0.9
    assert re.search(r"^train_digits: http://127\.0\.0\.1:\d+/dags/", shown, re.MULTILINE)
    assert re.search(r"^outcome: default/dj-\w+-s1 ended: completed: ", shown, re.MULTILINE)
    assert still_running(folder) == []


def test_a_job_that_fails_is_explained_and_ends_the_demo_with_1(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with _demo(folder, "--dag", "rank_exits_with_3") as demo:
        shown, _ = demo.communicate()

    assert demo.returncode == 1, shown
    # What the other rank did is known only to a triggerer that watched by then: see test_outcomes.
    assert re.search(r"ended: non-zero-exit: pod \S+-node-0-1-\S+: exit code 3; ", shown), shown
    assert still_running(folder) == []


def test_an_interrupt_ends_everything_that_was_started(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with _demo(folder) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline().startswith("local cluster: ")
        assert still_running(folder) != []
        with _demo(folder) as second:
            refused, _ = second.communicate()
        assert (second.returncode, f"a demo is running in {folder}" in refused) == (1, True), refused
        os.killpg(demo.pid, signal.SIGINT)
        shown, _ = demo.communicate()

    assert (demo.returncode, shown.strip()) == (1, "stopped")
    assert still_running(folder) == []

"""Executions as real processes: many at once, killed or frozen in the middle of a save."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from airflow_dispatch import fence
from demo.services import wait_for
from tests.support.fences import (
    FENCED_OUT,
    HELD,
    SHELL_FENCE,
    Execution,
    Language,
    language,
    other,
    state_of,
)

OLD, NEW = Execution(1000001, "J.1.1.1.0"), Execution(1000002, "J.1.1.2.0")
DEADLINE = 30.0
EXECUTIONS = 12
SAVES = 5

PYTHON_SAVE = """
import os, shutil, sys
from airflow_dispatch import fence
try:
    with fence.Fence(__import__("pathlib").Path(sys.argv[1]), sys.argv[2]).saving("latest") as partial:
        with partial.open("w") as stream:
            shutil.copyfileobj(sys.stdin, stream)
except fence.FencedOut:
    os._exit(76)
"""
PYTHON_TRAINING = """
import sys
from airflow_dispatch import fence
try:
    held = fence.claim(sys.argv[1])
    for _ in range(int(sys.argv[2])):
        with held.saving("latest") as partial:
            partial.write_text(str(int(held.own.partition(".")[0])))
except fence.FencedOut:
    sys.exit(76)
"""
SHELL_TRAINING = """
sh "$0" claim "$1" && for _ in $(seq "$2"); do
  echo "$DISPATCH_EPOCH" | sh "$0" save "$1" latest || exit
done
"""


def saving(language: Language, folder: Path, execution: Execution) -> list[str | Path]:
    """The command that saves what it is given as standard input."""
    if language.name == "sh":
        return ["sh", SHELL_FENCE, "save", folder, "latest"]
    return [sys.executable, "-c", PYTHON_SAVE, folder, f"{execution.epoch:012}.{execution.token}"]


@contextmanager
def a_save_in_the_middle(language: Language, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A save of the old execution that has begun to write and waits for more; all of its processes are one group."""
    process = subprocess.Popen(
        saving(language, folder, OLD), stdin=subprocess.PIPE, env=OLD.environment, start_new_session=True
    )
    try:
        pipe_of(process).write(b"half")
        pipe_of(process).flush()
        written = (folder / fence.FOLDER).glob
        wait_for("a save", lambda: any(each.exists() for each in written("work-*/latest")), [], DEADLINE)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        pipe_of(process).close()
        process.wait(DEADLINE)


def pipe_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


@language
@other
def test_a_killed_save_leaves_what_was_there(language: Language, other: Language, tmp_path: Path) -> None:
    assert other.claim(tmp_path, OLD) == HELD
    assert other.save(tmp_path, OLD, "latest", "whole") == HELD
    with a_save_in_the_middle(language, tmp_path) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE)
    assert (tmp_path / "latest").read_text() == "whole"
    # The same execution may go on; what its dead process left is removed by the next execution.
    assert other.save(tmp_path, OLD, "latest", "again") == HELD
    assert len(state_of(tmp_path)) == 2
    assert other.claim(tmp_path, NEW) == HELD
    assert all(name.startswith("epoch-") for name in state_of(tmp_path))
    assert (tmp_path / "latest").read_text() == "again"


@language
@other
def test_a_save_that_was_frozen_does_not_arrive(language: Language, other: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, OLD) == HELD
    with a_save_in_the_middle(language, tmp_path) as process:
        os.killpg(process.pid, signal.SIGSTOP)
        assert other.claim(tmp_path, NEW) == HELD
        assert other.save(tmp_path, NEW, "latest", "new") == HELD
        os.killpg(process.pid, signal.SIGCONT)
        pipe_of(process).close()
        assert process.wait(DEADLINE) == FENCED_OUT
    assert (tmp_path / "latest").read_text() == "new"
    assert all(name.startswith("epoch-") for name in state_of(tmp_path))


@language
def test_a_save_that_is_told_to_stop_leaves_nothing(language: Language, tmp_path: Path) -> None:
    """SIGTERM is how Kubernetes ends a container; Python has to be told to turn it into an exception."""
    assert language.claim(tmp_path, OLD) == HELD
    with a_save_in_the_middle(language, tmp_path) as process:
        os.killpg(process.pid, signal.SIGTERM if language.name == "sh" else signal.SIGINT)
        assert process.wait(DEADLINE) != HELD
    assert not (tmp_path / "latest").exists()
    assert all(name.startswith("epoch-") for name in state_of(tmp_path))


def test_the_highest_of_many_executions_at_once_has_the_last_word(tmp_path: Path) -> None:
    epochs = list(range(1, EXECUTIONS + 1))
    random.Random(0).shuffle(epochs)
    running = {}
    for position, epoch in enumerate(epochs):
        command: list[str | Path] = [sys.executable, "-c", PYTHON_TRAINING, tmp_path, str(SAVES)]
        if position % 2:
            command = ["sh", "-c", SHELL_TRAINING, SHELL_FENCE, tmp_path, str(SAVES)]
        running[epoch] = subprocess.Popen(command, env=Execution(epoch, "J").environment, stderr=subprocess.DEVNULL)
    codes = {epoch: process.wait(DEADLINE) for epoch, process in running.items()}
    assert codes[EXECUTIONS] == HELD
    assert set(codes.values()) <= {HELD, FENCED_OUT}
    assert (tmp_path / "latest").read_text().strip() == str(EXECUTIONS)
    assert all(name.startswith("epoch-") for name in state_of(tmp_path))

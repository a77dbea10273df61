"""The fence in both of its languages, behind one shape."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from airflow_dispatch import fence

__all__ = [
    "FENCED_OUT",
    "HELD",
    "LANGUAGES",
    "SHELL_FENCE",
    "UNUSABLE",
    "Execution",
    "Language",
    "language",
    "other",
    "state_of",
]

SHELL_FENCE = Path(fence.__file__).with_suffix(".sh")

HELD, UNUSABLE, FENCED_OUT = 0, 73, 76
"""The exit codes of ``fence.sh``."""


class Execution(NamedTuple):
    """What the prologue tells an execution of itself."""

    epoch: int
    token: str = ""

    @property
    def environment(self) -> dict[str, str]:
        told = {"DISPATCH_EPOCH": str(self.epoch), "DISPATCH_ATTEMPT": self.token}
        return {key: value for key, value in os.environ.items() if key not in told} | told


class Language(NamedTuple):
    """``claim``, ``check`` and ``save`` give an exit code of ``fence.sh``; ``save`` takes a name and its content."""

    name: str
    claim: Callable[[Path, Execution], int]
    check: Callable[[Path, Execution], int]
    save: Callable[[Path, Execution, str, str], int]


def state_of(folder: Path) -> list[str]:
    """The names of the fence's state."""
    return sorted(path.name for path in (folder / fence.FOLDER).iterdir())


def _code(act: Callable[[], object]) -> int:
    try:
        act()
    except fence.FencedOut:
        return FENCED_OUT
    except fence.FenceError:
        return UNUSABLE
    return HELD


def _claimed(folder: Path, execution: Execution) -> fence.Fence:
    return fence.claim(folder, execution.epoch, execution.token)


def _holding(folder: Path, execution: Execution) -> fence.Fence:
    """The fence of an execution that has claimed some time ago."""
    return fence.Fence(folder, f"{execution.epoch:012}" + (f".{execution.token}" if execution.token else ""))


def _save(folder: Path, execution: Execution, name: str, content: str) -> None:
    with _holding(folder, execution).saving(name) as partial:
        partial.write_text(content)


def _shell(execution: Execution, *arguments: str | Path, stdin: str = "") -> int:
    command = ["sh", SHELL_FENCE, *arguments]
    done = subprocess.run(command, env=execution.environment, input=stdin, text=True, capture_output=True, check=False)
    assert bool(done.stderr) == (done.returncode != HELD), done.stderr
    return done.returncode


LANGUAGES = (
    Language(
        "python",
        lambda folder, execution: _code(lambda: _claimed(folder, execution)),
        lambda folder, execution: _code(lambda: _holding(folder, execution).check()),
        lambda folder, execution, name, content: _code(lambda: _save(folder, execution, name, content)),
    ),
    Language(
        "sh",
        lambda folder, execution: _shell(execution, "claim", folder),
        lambda folder, execution: _shell(execution, "check", folder),
        lambda folder, execution, name, content: _shell(execution, "save", folder, name, stdin=content),
    ),
)


language = pytest.mark.parametrize("language", LANGUAGES, ids=lambda each: each.name)
other = pytest.mark.parametrize("other", LANGUAGES, ids=lambda each: f"then {each.name}")
"""A test in each language, and of each together with each."""

"""Executions that overtake each other between any two system calls of theirs."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_dispatch import fence

SYSTEM_CALLS = {
    "open",
    "os.chmod",
    "os.listdir",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.scandir",
    "os.utime",
}
"""Where one execution may be stopped and another go on; Python tells of each right before it is made."""

DEADLINE = 30.0


class _Killed(BaseException):
    """Ends a thread whose execution the test has left behind."""


class Actor:
    """A program in a thread of its own, which makes one system call a step."""

    _here = threading.local()

    def __init__(self, program: Callable[[Actor], None]) -> None:
        self.claimed: int | None = None
        self.error: BaseException | None = None
        self._program = program
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._killed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._wait()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def step(self) -> None:
        self._go.release()
        self._wait()

    def kill(self) -> None:
        self._killed = True
        while not self.done:
            self.step()

    def _wait(self) -> None:
        assert self._stopped.acquire(timeout=DEADLINE)
        if self._finished:
            self._thread.join(DEADLINE)

    _finished = False

    def _run(self) -> None:
        Actor._here.actor = self
        try:
            self._pause()
            self._program(self)
        except _Killed:
            pass
        except BaseException as error:  # noqa: BLE001 (the test looks at it)
            self.error = error
        finally:
            Actor._here.actor = None
            self._finished = True
            self._stopped.release()

    def _pause(self) -> None:
        self._stopped.release()
        assert self._go.acquire(timeout=DEADLINE)
        if self._killed:
            raise _Killed

    @staticmethod
    def on_audit_event(event: str, _arguments: tuple[object, ...]) -> None:
        actor: Actor | None = getattr(Actor._here, "actor", None)
        if actor is not None and event in SYSTEM_CALLS:
            actor._pause()


@pytest.fixture(scope="module", autouse=True)
def _stop_at_system_calls() -> None:
    sys.addaudithook(Actor.on_audit_event)


def training(folder: Path, epoch: int, saves: int = 1) -> Callable[[Actor], None]:
    """A program that claims and saves its epoch."""

    def program(actor: Actor) -> None:
        held = fence.claim(folder, epoch)
        actor.claimed = epoch
        for _ in range(saves):
            with held.saving("latest") as partial:
                partial.write_text(str(epoch))

    return program


class Run:
    """Executions on one folder; after each step nothing older than a claim that has returned may have arrived."""

    def __init__(self, folder: Path, epochs: Sequence[int]) -> None:
        self._file = folder / "latest"
        self.actors = [Actor(training(folder, epoch)) for epoch in epochs]
        self._content = ""

    def step(self, actor: Actor) -> None:
        held_by = max((each.claimed or 0 for each in self.actors), default=0)
        actor.step()
        content = self._file.read_text() if self._file.exists() else ""
        if content != self._content:
            assert int(content) >= held_by, f"epoch {content} has written after epoch {held_by} had claimed"
        self._content = content

    def steps(self, actor: Actor) -> int:
        """Goes on with one actor to its end; how many steps that took."""
        taken = 0
        while not actor.done:
            self.step(actor)
            taken += 1
        return taken


def steps_alone() -> int:
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name), [1])
        return run.steps(run.actors[0])


def test_a_newer_execution_comes_in_at_any_system_call() -> None:
    for at in range(steps_alone() + 1):
        with tempfile.TemporaryDirectory() as name:
            run = Run(Path(name), [1, 2])
            old, new = run.actors
            for _ in range(at):
                run.step(old)
            had_put_its_claim = (Path(name) / fence.FOLDER / "epoch-000000000001").exists()
            run.steps(new)
            assert new.error is None
            run.steps(old)
            assert had_put_its_claim or old.claimed is None
            assert old.error is None or isinstance(old.error, fence.FencedOut)
            assert (Path(name) / "latest").read_text() == "2"


EXECUTIONS = st.lists(st.integers(1, 3), min_size=2, max_size=4)
TURNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=20)


@given(epochs=EXECUTIONS, turns=TURNS, killed=st.sets(st.integers(0, 3), max_size=2))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_executions_take_turns_in_any_order(epochs: list[int], turns: list[tuple[int, int]], killed: set[int]) -> None:
    """``turns``: which actor goes on, for how many system calls; those of ``killed`` never get further than that."""
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name), epochs)
        for index, count in turns:
            actor = run.actors[index % len(epochs)]
            for _ in range(count):
                if not actor.done:
                    run.step(actor)
        living = [actor for index, actor in enumerate(run.actors) if index not in killed]
        for actor in living:
            run.steps(actor)
            assert actor.error is None or isinstance(actor.error, fence.FencedOut)
        best = max(actor.claimed or 0 for actor in run.actors)
        assert all(actor.error is None for actor in living if actor.claimed == best)
        for actor in run.actors:
            actor.kill()

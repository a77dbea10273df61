"""Breadth-first search through every state of the model that can be reached."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tests.core.cessation.model import controllers, machines
from tests.core.cessation.model.adapter import Adapter, settle
from tests.core.cessation.model.rules import Rule
from tests.core.cessation.model.world import FRESH, NOT_SUBMITTED, Budget, Machine, Owner, Submission, TrainJob, World

NO_BUDGET = Budget(0, 0, 0, 0, 0)


class Scope(NamedTuple):
    """How large the model is.

    ``first`` is the first submission's highest A; ``second``: another submission may follow it. ``rival``: another
    process may release in the middle of a release. ``prompt``: Trainer and the JobSet controller are never late.
    ``late_after_deletion``: controllers may still act on what they have read of a submission that was deleted.
    """

    name: str
    first: int
    second: bool = False
    rival: bool = False
    prompt: bool = False
    late_after_deletion: bool = False
    budget: Budget = NO_BUDGET

    @property
    def start(self) -> World:
        """Everything is made, suspended and gated; A is 0."""
        suspended = Owner(0, suspend=True, suspended=FRESH)
        made = Submission(TrainJob(0, suspend=True), suspended, suspended)
        submissions = (made, NOT_SUBMITTED) if self.second else (made,)
        return World(submissions, (), (), (), Machine.UP, None, self.budget)


class Found(NamedTuple):
    """``trace``: how two executions come to run at once; empty when they can't. ``admissions``: those that happened."""

    states: int
    trace: tuple[str, ...]
    admissions: frozenset[tuple[int, int]]


def search(scope: Scope, rule: Rule, adapter_class: type[Adapter] = Adapter) -> Found:
    """Every state, or those up to the first in which two executions have a process."""
    adapter = adapter_class(
        rule, admissions=scope.first, rival=scope.rival, late_after_deletion=scope.late_after_deletion
    )
    start = scope.start
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    waiting = deque([start])
    admissions: set[tuple[int, int]] = set()
    while waiting:
        world = waiting.popleft()
        of_controllers = controllers.moves(world, late_after_deletion=scope.late_after_deletion)
        for moves in (of_controllers, machines.moves(world), adapter.moves(world)):
            for label, raw in moves:
                after = settle(controllers.caught_up(raw) if scope.prompt else raw)
                if after in came_from:
                    continue
                came_from[after] = world, label
                running = after.executions()
                admissions |= running
                if len(running) > 1:
                    return Found(len(came_from), _trace(came_from, after), frozenset(admissions))
                waiting.append(after)
    return Found(len(came_from), (), frozenset(admissions))


def _trace(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels: list[str] = []
    step = came_from[world]
    while step is not None:
        labels.append(step[1])
        step = came_from[step[0]]
    return tuple(reversed(labels))

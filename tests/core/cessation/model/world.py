"""The state of the model: one job's objects, the machines and processes below them, and the adapter's calls in between.

Small by design: two ranks, rank ``i`` on node ``i`` while that is up; node 0 stays up, node 1 may be lost. Controllers
act on what they have read, at any time after they have read it: that is their lag. Nothing here is the product's.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

RANKS = 2

NEVER, OLD, FRESH = 0, 1, 2
"""``Suspended=True`` of JobSet or Job: not there; older than the last raise of A; younger."""


class Stage(enum.IntEnum):
    """What a pod's object says."""

    BOUND = 0
    """Bound to a node, no container has started."""
    BOUND_DELETED = 1
    """The same, Terminating."""
    RUNNING = 2
    STOPPING = 3
    """Terminating, its status says running."""
    WRITTEN_OFF = 4
    """Phase Failed without a kubelet having said so: its status still says running."""
    ENDED = 5
    """Phase Failed, and its container terminated: its kubelet has said so."""


ACTIVE = (Stage.BOUND, Stage.RUNNING)
TERMINATING = (Stage.BOUND_DELETED, Stage.STOPPING)
SEEN_RUNNING = (Stage.RUNNING, Stage.STOPPING, Stage.WRITTEN_OFF)


class Machine(enum.IntEnum):
    """A node and its Node object."""

    UP = 0
    LOST = 1
    """Its kubelet is silent; what it runs goes on."""
    OFF = 2
    """It has lost power; the Node object looks as before."""
    OUT_OF_SERVICE = 3
    """Off, and an operator has said so."""
    GONE = 4
    """Off, and its Node object was deleted."""


class Pod(NamedTuple):
    """``alive``: its process exists, which only its node knows."""

    submission: int
    admission: int
    rank: int
    node: int
    stage: Stage
    alive: bool


class Ghost(NamedTuple):
    """A process whose pod object is gone."""

    submission: int
    admission: int
    node: int


class Entry(NamedTuple):
    """A line of the ledger of vanished pods; ``same_boot``: its node has not been rebooted since."""

    submission: int
    admission: int
    rank: int
    node: int
    same_boot: bool


class TrainJob(NamedTuple):
    """A TrainJob of ours that was not deleted; ``admission`` 0 is gated."""

    admission: int
    suspend: bool


class Owner(NamedTuple):
    """A JobSet or a Job, with A of its pod template; ``failed``: it has ended."""

    admission: int
    suspend: bool
    suspended: int = NEVER
    failed: bool = False


class Wish(NamedTuple):
    """What a controller has read, and will carry out at some time."""

    admission: int
    suspend: bool


class Submission(NamedTuple):
    """A TrainJob with what belongs to it, and what its three controllers have in hand."""

    trainjob: TrainJob | None
    jobset: Owner | None
    job: Owner | None
    trainer: Wish | None = None
    jobset_controller: Wish | None = None
    job_controller: Wish | None = None


NOT_SUBMITTED = Submission(None, None, None)


class Step(enum.IntEnum):
    """How far a call of the adapter has come."""

    OWNERS_READ = 0
    PODS_LISTED = 1
    WAITING = 2
    """For the second look."""


class Call(NamedTuple):
    """A release, or an open, under way: what it has read so far.

    ``fresh``: its TrainJob was not written since it was read. ``first_look``: A when it began to wait for the second
    look; None before. ``unsettled``: of Trainer, JobSet and Job controller, those that may not have caught up since.
    """

    submission: int
    step: Step
    fresh: bool
    owners: tuple[Submission, ...]
    pods: tuple[Pod, ...]
    ledger: tuple[Entry, ...] | None
    first_look: int | None
    unsettled: int


class Budget(NamedTuple):
    """How often each misfortune may still happen."""

    losses: int
    forced_deletions: int
    write_offs: int
    exits: int
    cancels: int


class World(NamedTuple):
    """One state."""

    submissions: tuple[Submission, ...]
    pods: tuple[Pod, ...]
    ghosts: tuple[Ghost, ...]
    ledger: tuple[Entry, ...]
    node: Machine
    """Node 1."""
    call: Call | None
    budget: Budget

    def machine(self, node: int) -> Machine:
        return self.node if node else Machine.UP

    def executions(self) -> set[tuple[int, int]]:
        """Submission and A of each execution that has a process."""
        return {(each.submission, each.admission) for each in self.pods if each.alive} | {
            (each.submission, each.admission) for each in self.ghosts
        }

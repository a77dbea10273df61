"""What the adapter does, a request a step: it reads, asks the rule, and writes what it has read under a guard.

A crash is a call that goes no further: nothing of it is on the cluster before its one write. Another process's hold may
come between any two steps, and so may its release.
"""

from __future__ import annotations

from tests.core.cessation.model.controllers import Moves, is_behind, with_submission
from tests.core.cessation.model.records import Seen
from tests.core.cessation.model.rules import Rule
from tests.core.cessation.model.world import (
    NEVER,
    NOT_SUBMITTED,
    OLD,
    Call,
    Owner,
    Pod,
    Step,
    Submission,
    TrainJob,
    World,
)

TRAINER, JOBSET, JOB = 1, 2, 4
ALL_CONTROLLERS = TRAINER | JOBSET | JOB


class Adapter:
    """All calls that may be made in a world.

    ``admissions``: the highest A of the first submission. ``rival``: another process may release in between.
    ``late_after_deletion``: a submission may be cancelled that its controllers are not done with.
    """

    def __init__(self, rule: Rule, *, admissions: int, rival: bool, late_after_deletion: bool) -> None:
        self._rule = rule
        self._late_after_deletion = late_after_deletion
        self._admissions = admissions
        self._rival = rival

    def moves(self, world: World) -> Moves:
        for number, submission in enumerate(world.submissions):
            if submission == NOT_SUBMITTED and number and _is_over(world.submissions[number - 1]):
                made = Submission(TrainJob(0, suspend=True), None, None)
                yield f"submit s{number + 1}", with_submission(world, number, made)
            yield from self._begin(world, number, submission)
        if world.call is not None:
            yield "the adapter crashes", world._replace(call=None)
            yield from self._go_on(world, world.call)

    # ------------------------------------------------------------ calls that take one step

    def _begin(self, world: World, number: int, at: Submission) -> Moves:
        name, trainjob, call = f"s{number + 1}", at.trainjob, world.call
        if trainjob is None:
            return
        if not trainjob.suspend and trainjob.admission < self._limit(number):
            yield f"hold {name}", _written(world, number, trainjob._replace(suspend=True))
        if self._may_be_cancelled(world, number, at):
            spent = world._replace(budget=world.budget._replace(cancels=world.budget.cancels - 1))
            yield f"cancel {name}", _written(spent, number, None)
        if not trainjob.suspend or trainjob.admission >= self._limit(number) or _has_ended(at):
            return
        if call is None:
            yield f"{'release' if trainjob.admission else 'open'} {name}", self.read_owners(world, number, None, 0)
        elif self._rival and number == call.submission:
            # Its first look was at the same moment.
            held = call.first_look == trainjob.admission and not call.unsettled
            seen = Seen(number, world.submissions, _listed(world), world.ledger, world.node, held)
            if self._rule.ask(seen).admit:
                yield f"another process releases {name}", _admitted(world, number)

    def _may_be_cancelled(self, world: World, number: int, at: Submission) -> bool:
        if not world.budget.cancels or number + 1 == len(world.submissions):
            return False
        return self._late_after_deletion or not any(is_behind(world, number, at))

    def _limit(self, number: int) -> int:
        return 1 if number else self._admissions

    # ------------------------------------------------------------ the steps of a release or an open

    def _go_on(self, world: World, call: Call) -> Moves:
        if call.step is Step.OWNERS_READ:
            yield "the adapter lists the pods", world._replace(call=self.list_pods(world, call))
        elif call.step is Step.PODS_LISTED:
            yield from self._decide(world, call)
        elif not call.unsettled:
            again = self.read_owners(world, call.submission, call.first_look, call.unsettled)
            yield "30 s later the adapter reads again", again

    def read_owners(self, world: World, number: int, first_look: int | None, unsettled: int) -> World:
        """Reads the TrainJob, which the write will be guarded by, then JobSet and Job; a raise of A ends the wait."""
        trainjob = world.submissions[number].trainjob
        if trainjob is None or not trainjob.suspend:
            return world._replace(call=None)
        if first_look != trainjob.admission:
            first_look, unsettled = None, 0
        return world._replace(
            call=Call(number, Step.OWNERS_READ, True, _owners(world), (), None, first_look, unsettled)
        )

    def list_pods(self, world: World, call: Call) -> Call:
        return call._replace(step=Step.PODS_LISTED, pods=_listed(world))

    def may_write(self, call: Call) -> bool:
        """The API server compares the resourceVersion."""
        return call.fresh

    def _decide(self, world: World, call: Call) -> Moves:
        """The ledger and the Nodes are read last."""
        number, held = call.submission, call.first_look is not None
        ledger = world.ledger if call.ledger is None else call.ledger
        verdict = self._rule.ask(Seen(number, call.owners, call.pods, ledger, world.node, held))
        if verdict.admit and self.may_write(call):
            yield "the adapter admits", _admitted(world, number)._replace(call=None)
        elif verdict.admit:
            again = self.read_owners(world, number, call.first_look, call.unsettled)
            yield "the adapter's write conflicts; it reads again", again
        elif verdict.look_again:
            trainjob = call.owners[number].trainjob
            assert trainjob is not None
            waiting = Call(number, Step.WAITING, True, (), (), None, trainjob.admission, ALL_CONTROLLERS)
            yield "the adapter waits for a second look", world._replace(call=waiting)
        else:
            yield "the adapter gives up", world._replace(call=None)


class ListsPodsFirst(Adapter):
    """Wrong: JobSet and Job are read after the pods were listed."""

    def read_owners(self, world: World, number: int, first_look: int | None, unsettled: int) -> World:
        world = super().read_owners(world, number, first_look, unsettled)
        return world._replace(call=world.call._replace(pods=_listed(world))) if world.call is not None else world

    def list_pods(self, world: World, call: Call) -> Call:
        return call._replace(step=Step.PODS_LISTED, owners=_owners(world))


class ReadsLedgerFirst(Adapter):
    """Wrong: a pod may vanish between the reading of the ledger and the list."""

    def read_owners(self, world: World, number: int, first_look: int | None, unsettled: int) -> World:
        world = super().read_owners(world, number, first_look, unsettled)
        return world._replace(call=world.call._replace(ledger=world.ledger)) if world.call is not None else world


class WritesUnguarded(Adapter):
    """Wrong: without a resourceVersion, the write goes over whatever has come in between."""

    def may_write(self, call: Call) -> bool:  # noqa: ARG002 (never looked at: that is what is wrong)
        return True


class CountsOnThroughARelease(Adapter):
    """Wrong: the 30 s go on although A was raised meanwhile."""

    def read_owners(self, world: World, number: int, first_look: int | None, unsettled: int) -> World:
        trainjob = world.submissions[number].trainjob
        since = trainjob.admission if trainjob is not None and first_look is not None else None
        return super().read_owners(world, number, since, unsettled)


def settle(world: World) -> World:
    """Takes note of each controller that has caught up since the first look, in the order in which they follow on.

    The assumption of section 12: within 30 s every controller has acted on what was there before.
    """
    call = world.call
    if call is None or not call.unsettled:
        return world
    left = call.unsettled
    behind = is_behind(world, call.submission, world.submissions[call.submission])
    for bit, late in zip((TRAINER, JOBSET, JOB), behind, strict=True):
        if left & bit:
            if late:
                break
            left &= ~bit
    return world if left == call.unsettled else world._replace(call=call._replace(unsettled=left))


def _written(world: World, number: int, trainjob: TrainJob | None) -> World:
    world = with_submission(world, number, world.submissions[number]._replace(trainjob=trainjob))
    call = world.call
    if call is None or call.submission != number:
        return world
    return world._replace(call=call._replace(fresh=False))


def _admitted(world: World, number: int) -> World:
    at = world.submissions[number]
    assert at.trainjob is not None
    world = _written(world, number, TrainJob(at.trainjob.admission + 1, suspend=False))
    at = world.submissions[number]
    return with_submission(world, number, at._replace(jobset=_aged(at.jobset), job=_aged(at.job)))


def _aged(owner: Owner | None) -> Owner | None:
    return owner._replace(suspended=OLD) if owner is not None and owner.suspended != NEVER else owner


def _is_over(at: Submission) -> bool:
    return at.trainjob is None or _has_ended(at)


def _has_ended(at: Submission) -> bool:
    return at.jobset is not None and at.jobset.failed


def _owners(world: World) -> tuple[Submission, ...]:
    """What is on the cluster of them, without what their controllers have in hand."""
    return tuple(at._replace(trainer=None, jobset_controller=None, job_controller=None) for at in world.submissions)


def _listed(world: World) -> tuple[Pod, ...]:
    return tuple(pod._replace(alive=False) for pod in world.pods)

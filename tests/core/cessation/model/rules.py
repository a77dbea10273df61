"""The product's rule as the model's adapter asks it, and wrong rules that the model must refute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from airflow_dispatch.core import cessation
from airflow_dispatch.core.cessation import SECOND_LOOK_SECONDS, Answer
from tests.core.cessation.model import records
from tests.core.cessation.model.records import Seen
from tests.core.cessation.model.world import (
    FRESH,
    NEVER,
    NOT_SUBMITTED,
    TERMINATING,
    Machine,
    Owner,
    Stage,
    Submission,
)
from tests.support.builders import at

_NOW = at(3600)


class Verdict(NamedTuple):
    """``admit`` now, or ``look_again`` after a while; neither: something has to change first."""

    admit: bool
    look_again: bool


class Rule:
    """The rule, each question of which is answered once.

    ``blind`` takes from what was seen what a wrong rule ignores; ``hasty`` changes its answer.
    """

    def __init__(
        self, *, blind: Callable[[Seen], Seen] | None = None, hasty: Callable[[Answer], Answer] | None = None
    ) -> None:
        self._blind = blind
        self._hasty = hasty
        self._answers: dict[Seen, Verdict] = {}

    def ask(self, seen: Seen) -> Verdict:
        found = self._answers.get(seen)
        if found is None:
            found = self._answers[seen] = self._ask(self._blind(seen) if self._blind else seen)
        return found

    @property
    def questions(self) -> int:
        """How many different ones were asked."""
        return len(self._answers)

    def _ask(self, seen: Seen) -> Verdict:
        if any(_is_live(at) for number, at in enumerate(seen.submissions) if number != seen.own):
            return Verdict(admit=False, look_again=False)
        if cessation.of_other_submissions(records.leftovers(seen), records.identity(seen.own)):
            return Verdict(admit=False, look_again=False)
        answer = cessation.ask(records.snapshot(seen), _NOW, held_for=SECOND_LOOK_SECONDS if seen.held else 0.0)
        if self._hasty is not None:
            answer = self._hasty(answer)
        return Verdict(answer.nothing_runs, answer.second_look is not None)


def _is_live(at: Submission) -> bool:
    return at.trainjob is not None and not (at.jobset is not None and at.jobset.failed)


# ---------------------------------------------------------------- wrong rules


def _without(*stages: Stage) -> Callable[[Seen], Seen]:
    return lambda seen: seen._replace(pods=tuple(pod for pod in seen.pods if pod.stage not in stages))


def _owners(change: Callable[[Submission], Submission]) -> Callable[[Seen], Seen]:
    def blind(seen: Seen) -> Seen:
        changed = tuple(change(at) if number == seen.own else at for number, at in enumerate(seen.submissions))
        return seen._replace(submissions=changed)

    return blind


def _with_template_of_the_trainjob(at: Submission) -> Submission:
    if at.jobset is None or at.trainjob is None:
        return at
    return at._replace(jobset=at.jobset._replace(admission=at.trainjob.admission))


def _with_young_suspensions(at: Submission) -> Submission:
    def younger(owner: Owner | None) -> Owner | None:
        return owner._replace(suspended=FRESH) if owner is not None and owner.suspended != NEVER else owner

    return at._replace(jobset=younger(at.jobset), job=younger(at.job))


def _with_a_confirmed_job(at: Submission) -> Submission:
    return at._replace(job=at.job._replace(suspend=True, suspended=FRESH)) if at.job is not None else at


def _without_others(seen: Seen) -> Seen:
    alone = tuple(at if number == seen.own else NOT_SUBMITTED for number, at in enumerate(seen.submissions))
    return seen._replace(submissions=alone, pods=tuple(pod for pod in seen.pods if pod.submission == seen.own))


def _without_the_ledger_of_others(seen: Seen) -> Seen:
    return seen._replace(ledger=tuple(each for each in seen.ledger if each.submission == seen.own))


def _with_rebooted_nodes(seen: Seen) -> Seen:
    if seen.node is not Machine.UP:
        return seen
    return seen._replace(ledger=tuple(each._replace(same_boot=False) for each in seen.ledger))


def _with_lost_nodes_gone(seen: Seen) -> Seen:
    return seen._replace(node=Machine.GONE if seen.node in (Machine.LOST, Machine.OFF) else seen.node)


def _trusting_an_empty_list(answer: Answer) -> Answer:
    return Answer(answer.remaining)


def _without_a_second_look(answer: Answer) -> Answer:
    return answer if answer.second_look is None else Answer()


_BLIND: Mapping[str, Callable[[Seen], Seen]] = {
    "ignores Terminating pods": _without(*TERMINATING),
    "ignores pods that have not started": _without(Stage.BOUND),
    "ignores containers that run in a pod of a terminal phase": _without(Stage.WRITTEN_OFF),
    "ignores A of the JobSet's template": _owners(_with_template_of_the_trainjob),
    "ignores when the suspension began": _owners(_with_young_suspensions),
    "asks the JobSet, not its Job": _owners(_with_a_confirmed_job),
    "ignores the ledger": lambda seen: seen._replace(ledger=()),
    "ignores the ledger of other submissions": _without_the_ledger_of_others,
    "takes a node that is back for one that was rebooted": _with_rebooted_nodes,
    "takes a lost node for one that is gone": _with_lost_nodes_gone,
    "ignores other submissions": _without_others,
}
_HASTY: Mapping[str, Callable[[Answer], Answer]] = {
    "trusts an empty list at once": _trusting_an_empty_list,
    "looks only once": _without_a_second_look,
}
WRONG_RULES: Mapping[str, Callable[[], Rule]] = {
    **{name: partial(Rule, blind=blind) for name, blind in _BLIND.items()},
    **{name: partial(Rule, hasty=hasty) for name, hasty in _HASTY.items()},
}

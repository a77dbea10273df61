"""Never two executions at once, in every state that a small model of section 12 can come to.

The model (``tests/core/cessation/model``) has the controllers, machines and misfortunes; what it asks is the product's
rule. ``python -m tests.core.cessation.model`` prints the same with times.
"""

from __future__ import annotations

import pytest

from tests.core.cessation.model.adapter import (
    Adapter,
    CountsOnThroughARelease,
    ListsPodsFirst,
    ReadsLedgerFirst,
    WritesUnguarded,
)
from tests.core.cessation.model.rules import WRONG_RULES, Rule
from tests.core.cessation.model.scopes import LATE, LOST, NEXT, NEXT_AND_FORCED, SCOPES
from tests.core.cessation.model.search import Scope, search

pytestmark = pytest.mark.timeout(600)

_FORCED = LOST._replace(budget=LOST.budget._replace(write_offs=0))

CAUGHT_IN = {
    "ignores Terminating pods": LATE,
    "ignores pods that have not started": NEXT,
    "ignores containers that run in a pod of a terminal phase": LOST,
    "ignores when the suspension began": NEXT,
    "asks the JobSet, not its Job": NEXT,
    "ignores the ledger": _FORCED,
    "ignores the ledger of other submissions": NEXT_AND_FORCED,
    "takes a node that is back for one that was rebooted": _FORCED,
    "takes a lost node for one that is gone": LOST,
    "ignores other submissions": NEXT,
    "trusts an empty list at once": NEXT,
    "looks only once": NEXT,
}
WRONG_ADAPTERS = [
    (ListsPodsFirst, LATE._replace(rival=False)),
    (ReadsLedgerFirst, _FORCED),
    (WritesUnguarded, LATE),
    (CountsOnThroughARelease, LATE),
]


@pytest.mark.parametrize("scope", SCOPES, ids=lambda each: each.name)
def test_two_executions_never_run_at_once(scope: Scope) -> None:
    rule = Rule()
    found = search(scope, rule)
    print(f"{found.states} states, {rule.questions} different questions to the rule: {scope.name}")
    assert found.trace == ()
    second = {(1, 1)} if scope.second else set()
    assert found.admissions == {(0, admission + 1) for admission in range(scope.first)} | second


@pytest.mark.parametrize(("wrong", "scope"), CAUGHT_IN.items(), ids=lambda each: each if isinstance(each, str) else "")
def test_a_wrong_rule_is_refuted(wrong: str, scope: Scope) -> None:
    show(search(scope, WRONG_RULES[wrong]()).trace)


@pytest.mark.parametrize(("wrong", "scope"), WRONG_ADAPTERS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_wrong_order_of_requests_is_refuted(wrong: type[Adapter], scope: Scope) -> None:
    show(search(scope, Rule(), wrong).trace)


def test_controllers_that_act_on_a_deleted_submission_are_left_to_the_fence() -> None:
    """The rule between submissions looks at what is there: what a controller has in hand of a deleted one is not."""
    show(search(NEXT._replace(late_after_deletion=True), Rule()).trace)


def show(trace: tuple[str, ...]) -> None:
    """Two executions run at its end."""
    assert trace
    print("\n".join(trace))

"""The scopes that are searched: each lets other things go wrong together, so that all can be seen to the end."""

from __future__ import annotations

from tests.core.cessation.model.search import Scope
from tests.core.cessation.model.world import Budget

_ONE_LOSS = Budget(losses=1, forced_deletions=0, write_offs=0, exits=0, cancels=0)

LATE = Scope("late controllers, and another process that releases", first=3, rival=True)
LOST = Scope(
    "a lost node, forced deletion, write-off",
    first=2,
    prompt=True,
    budget=_ONE_LOSS._replace(forced_deletions=1, write_offs=1),
)
LOST_AND_LATE = Scope("a lost node and late controllers", first=2, budget=_ONE_LOSS)
NEXT = Scope(
    "the next submission after a failure or a cancellation",
    first=2,
    second=True,
    prompt=True,
    budget=Budget(losses=0, forced_deletions=0, write_offs=0, exits=1, cancels=1),
)
NEXT_AND_LATE = NEXT._replace(name="the next submission and late controllers", first=1, prompt=False)
NEXT_AND_LOST = Scope(
    "the next submission and a lost node", first=1, second=True, prompt=True, budget=_ONE_LOSS._replace(cancels=1)
)
NEXT_AND_FORCED = NEXT._replace(
    name="the next submission and forced deletion", first=1, budget=NEXT.budget._replace(forced_deletions=1, exits=0)
)

SCOPES = (LATE, LOST, LOST_AND_LATE, NEXT, NEXT_AND_LATE, NEXT_AND_LOST, NEXT_AND_FORCED)

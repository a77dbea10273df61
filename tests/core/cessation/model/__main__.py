"""``python -m tests.core.cessation.model``: searches every scope, and prints how large it is and what was found."""

from __future__ import annotations

import sys
import time

from tests.core.cessation.model.rules import Rule
from tests.core.cessation.model.scopes import SCOPES
from tests.core.cessation.model.search import search


def main() -> int:
    """1 when two executions can run at once."""
    total, broken = 0, False
    for scope in SCOPES:
        rule, begun = Rule(), time.process_time()
        found = search(scope, rule)
        total += found.states
        seconds = time.process_time() - begun
        print(f"{found.states:>8} states, {rule.questions:>5} questions, {seconds:5.1f} s: {scope.name}", flush=True)
        for label in found.trace:
            print(f"           {label}")
        broken |= bool(found.trace)
    print(f"{total:>8} states; {'two executions can run at once' if broken else 'never two executions at once'}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())

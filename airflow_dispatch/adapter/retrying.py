"""Bounded repetition of operations that read first, and so find out what an earlier try of theirs did."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from airflow_dispatch.core.errors import Conflict, OutcomeUnknown, PodsRemain, Unreachable

__all__ = ["retrying"]

_TRIES: Final = 5
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0

Result = TypeVar("Result")


async def retrying(operation: Callable[[], Awaitable[Result]], *, tries: int = _TRIES) -> Result:
    """Calls ``operation`` until it succeeds, at most ``tries`` times, with growing jittered pauses.

    The operation must begin by reading: after :class:`OutcomeUnknown` that read is what tells whether the lost write
    happened. :class:`PodsRemain` is not repeated, since pods go in their own time; nor is anything that no repetition
    mends.
    """
    for failures in range(1, tries):
        try:
            return await operation()
        except PodsRemain:
            raise
        except Conflict:
            await asyncio.sleep(_pause(1))
        except (Unreachable, OutcomeUnknown) as error:
            asked = error.retry_after if isinstance(error, Unreachable) else None
            if asked is not None and asked > _LONGEST_PAUSE:
                raise
            await asyncio.sleep(asked or _pause(failures))
    return await operation()


def _pause(failures: int) -> float:
    ceiling = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures)
    return random.uniform(ceiling / 4, ceiling)  # noqa: S311 (spreads load, guards nothing)

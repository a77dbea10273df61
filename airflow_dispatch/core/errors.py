"""The error tree, by what a caller can do.

::

    DispatchError
    ├── Unreachable              try again: 429, 5xx, time-out, not there yet
    │   ├── Conflict             the object changed since it was read: read it again first
    │   ├── Gone                 a resource version or a list's next page has expired: list again
    │   └── PodsRemain           the previous execution may still run; names the pods
    ├── Refused                  do not try again: invalid, forbidden, another identity
    │   ├── NotFound             there is no such object
    │   ├── AlreadyExists        there is one of that name already
    │   └── Forbidden            RBAC says no; names verb, resource, namespace, and what to bind
    ├── OutcomeUnknown           a write whose answer was lost: read what became of it, do not repeat blindly
    ├── ConfigurationError       no cluster could be reached since its address or credentials could not be read
    ├── InvalidJob               what the user asked for is wrong; nothing was sent
    └── InvalidFile              a dump or a recording that can't be read; names the line or the item
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DispatchError(Exception):
    """Everything this package raises on purpose.

    Subclasses take their message first and keep all they were given in ``args``, so they survive pickling between
    Airflow's processes.
    """


class Unreachable(DispatchError):
    """The call failed in a way that may pass; the same call may be made again."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """``retry_after``: seconds the server asked to wait, when it did."""
        super().__init__(message, retry_after)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return str(self.args[0])


class Conflict(Unreachable):
    """The object's resourceVersion is not the one that was read."""


class Gone(Unreachable):
    """410: what a watch or a paged list went on from has been compacted away."""


class PodsRemain(Unreachable):
    """Pods of an earlier execution may still run, so nothing was admitted (contract, section 12).

    ``remaining`` holds one ``<pod> on <node> (<node state>)`` for each of them.
    """

    def __init__(self, ref: str, remaining: Sequence[str]) -> None:
        super().__init__(
            f"{ref}: the previous execution may still run, so it is not admitted: {', '.join(remaining)}",
        )
        self.ref = ref
        self.remaining = tuple(remaining)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.ref, self.remaining)


class Refused(DispatchError):
    """The cluster or this adapter will not do it, however often it is asked."""


class NotFound(Refused):
    """404: no such object, or no such resource on this server."""


class AlreadyExists(Refused):
    """409 on create: an object of that name exists."""


class Forbidden(Refused):
    """RBAC denies it: the message names the verb, the resource, the namespace, and who needs which kind of role."""


class OutcomeUnknown(DispatchError):
    """A write was sent and its answer was lost; it may or may not have happened."""


class ConfigurationError(DispatchError):
    """The cluster's address or credentials could not be read; the message says which host looked where."""


class InvalidJob(DispatchError, ValueError):
    """A job specification that can't be run; the message names the field, the value and what is allowed."""


class InvalidFile(DispatchError, ValueError):
    """A dump or a recording that is not what it should be; the message names the line or the item."""

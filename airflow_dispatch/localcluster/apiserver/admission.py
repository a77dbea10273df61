"""What others put into the way of a write: mutating webhooks, the rules of a schema, validating webhooks.

They run in this order, as in the real API server: a validating webhook sees what is valid already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from airflow_dispatch.localcluster.apiserver.errors import Cause
from airflow_dispatch.localcluster.apiserver.objects import Object, clone
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Admission", "MutateHook", "RuleHook", "ValidateHook"]


class MutateHook(Protocol):
    """A mutating webhook: changes ``obj`` in place or answers another one. ``operation`` is CREATE or UPDATE."""

    def __call__(self, obj: Object, old: Object | None, operation: str, /) -> Object | None: ...


class RuleHook(Protocol):
    """Rules of a CustomResourceDefinition: what they find is refused together with all else that is invalid."""

    def __call__(self, obj: Object, old: Object | None, /) -> Iterable[Cause]: ...


class ValidateHook(Protocol):
    """A validating webhook: raises :class:`~.errors.ApiError` to refuse. ``operation`` is CREATE or UPDATE."""

    def __call__(self, obj: Object, old: Object | None, operation: str, /) -> None: ...


class Admission:
    """The hooks of all kinds, in the order in which they were registered."""

    def __init__(self) -> None:
        self._mutate: dict[Resource, list[MutateHook]] = defaultdict(list)
        self._rules: dict[Resource, list[RuleHook]] = defaultdict(list)
        self._validate: dict[Resource, list[ValidateHook]] = defaultdict(list)

    def add(
        self,
        resource: Resource,
        mutate: MutateHook | None = None,
        rules: RuleHook | None = None,
        validate: ValidateHook | None = None,
    ) -> None:
        """Registers hooks of a kind."""
        if mutate:
            self._mutate[resource].append(mutate)
        if rules:
            self._rules[resource].append(rules)
        if validate:
            self._validate[resource].append(validate)

    def mutate(self, resource: Resource, new: Object, old: Object | None) -> Object:
        """The object as the mutating webhooks leave it."""
        for hook in self._mutate[resource]:
            changed = hook(new, clone(old), _operation(old))
            new = new if changed is None else changed
        return new

    def causes(self, resource: Resource, new: Object, old: Object | None) -> list[Cause]:
        """What the kind's rules find."""
        return [cause for hook in self._rules[resource] for cause in hook(new, old)]

    def validate(self, resource: Resource, new: Object, old: Object | None) -> None:
        """Asks the validating webhooks.

        Raises:
            ApiError: One of them refuses.
        """
        for hook in self._validate[resource]:
            hook(clone(new), clone(old), _operation(old))


def _operation(old: Object | None) -> str:
    return "CREATE" if old is None else "UPDATE"

"""Who calls, and what they may do: bearer tokens and RBAC-like rules."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_dispatch.localcluster.apiserver.errors import forbidden, unauthorized
from airflow_dispatch.localcluster.resources import Resource

__all__ = ["Access", "Attributes", "Rule", "User"]


class Attributes(NamedTuple):
    """What a request wants to do, as an authorizer sees it."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def path(self) -> str:
        """``pods/log``, or ``pods``: how rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Rule(NamedTuple):
    """What is allowed, in the words of an RBAC rule; ``*`` allows all, no ``namespaces`` means every namespace."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    @classmethod
    def parse(cls, rule: Mapping[str, Any]) -> Rule:
        """From ``apiGroups``, ``resources``, ``verbs`` and optionally ``resourceNames`` and ``namespaces``."""
        return cls(
            tuple(rule["apiGroups"]),
            tuple(rule["resources"]),
            tuple(rule["verbs"]),
            tuple(rule.get("resourceNames", ())),
            tuple(rule.get("namespaces", ())),
        )

    def allows(self, asked: Attributes) -> bool:
        """Whether the rule covers the request."""
        return (
            _covers(self.groups, asked.group)
            and (_covers(self.resources, asked.path) or f"*/{asked.subresource}" in self.resources)
            and _covers(self.verbs, asked.verb)
            and (not self.names or asked.name in self.names)
            and (not self.namespaces or asked.namespace in self.namespaces)
        )


def _covers(allowed: tuple[str, ...], wanted: str) -> bool:
    return "*" in allowed or wanted in allowed


class User(NamedTuple):
    """A caller, known by a token."""

    name: str
    token: str
    rules: tuple[Rule, ...]
    groups: tuple[str, ...] = ("system:authenticated",)

    def may(self, asked: Attributes) -> bool:
        """Whether any rule allows it."""
        return any(rule.allows(asked) for rule in self.rules)


_EVERYTHING = Rule(("*",), ("*",), ("*",))


class Access:
    """The users of one cluster. The first is the administrator, whom nothing is denied."""

    def __init__(self) -> None:
        self.admin = User(
            "kubernetes-admin",
            secrets.token_urlsafe(32),
            (_EVERYTHING,),
            ("system:masters", "system:authenticated"),
        )
        self._by_token = {self.admin.token: self.admin}

    def add_user(self, name: str, rules: Sequence[Mapping[str, Any]]) -> User:
        """A user with a token of its own, who may do what the rules say and nothing else."""
        user = User(name, secrets.token_urlsafe(32), tuple(Rule.parse(rule) for rule in rules))
        self._by_token[user.token] = user
        return user

    def set_rules(self, user: User, rules: Sequence[Mapping[str, Any]]) -> User:
        """The user with other rules, which count from the next request on; streams that are open go on."""
        changed = user._replace(rules=tuple(Rule.parse(rule) for rule in rules))
        self._by_token[user.token] = changed
        return changed

    def revoke(self, user: User) -> None:
        """Makes the user's token unknown: its next request is answered with 401."""
        del self._by_token[user.token]

    def authenticate(self, authorization: str) -> User:
        """The user of an ``Authorization`` header.

        Raises:
            ApiError: 401.
        """
        scheme, _, token = authorization.partition(" ")
        user = self._by_token.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def authorize(self, user: User, resource: Resource, asked: Attributes) -> None:
        """Lets an allowed request pass.

        Raises:
            ApiError: 403 that says who may not do what, where.
        """
        if not user.may(asked):
            raise forbidden(
                user.name,
                asked.verb,
                resource,
                asked.namespace,
                name=asked.name,
                subresource=asked.subresource,
            )

"""What an answer of the API server that is no success means: one mapping from ``Status`` bodies to the error tree."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from airflow_dispatch.core.errors import (
    AlreadyExists,
    Conflict,
    DispatchError,
    Forbidden,
    Gone,
    NotFound,
    Refused,
    Unreachable,
)

_RBAC: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r' ?(?P<scope>(?:in the namespace "[^"]*"|at the cluster scope)?)'
)
"""What Kubernetes' RBAC authorizer says of every request that it denies."""

_RETRYABLE_DENIALS: Final = ("must be created before the TrainJob is created", "is still active")
"""Trainer's webhook answers 403 for everything; these two pass by themselves (contract, section 10)."""

_UID_MISMATCH: Final = re.compile(r"Precondition failed: UID|the UID in the precondition", re.IGNORECASE)


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class Status(msgspec.Struct):
    """The part of a ``Status`` body that decides."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


def error_of(code: int, body: bytes, *, what: str, retry_after: str | None = None) -> DispatchError:
    """The error that an HTTP answer stands for.

    ``what`` is the call in words (``create trainjobs ml/dj-…``), ``retry_after`` the header of that name.
    """
    status = _status(body)
    message = status.message or body[:500].decode(errors="replace").strip() or f"HTTP {code}"
    text = f"{what}: {message}"
    match code:
        case 401:
            error: DispatchError = Refused(f"{what}: the cluster does not accept the credentials (HTTP 401): {message}")
        case 403:
            error = _denied(text, message, what)
        case 404:
            error = NotFound(text)
        case 409:
            error = _conflict(text, message, status.reason)
        case 410:
            error = Gone(text)
        case 408 | 429:
            error = Unreachable(f"{text} (HTTP {code})", _wait(status, retry_after))
        case _ if code >= 500:  # noqa: PLR2004
            error = Unreachable(f"{text} (HTTP {code})", _wait(status, retry_after))
        case _:
            error = Refused(text)
    return error


def error_of_event(body: bytes, *, what: str) -> DispatchError:
    """The error that a watch's ``ERROR`` event stands for; its object is the ``Status``."""
    return error_of(_status(body).code or 500, body, what=what)


def _conflict(text: str, message: str, reason: str | None) -> DispatchError:
    if reason == "AlreadyExists":
        return AlreadyExists(text)
    return Refused(text) if _UID_MISMATCH.search(message) else Conflict(text)


def _wait(status: Status, retry_after: str | None) -> float | None:
    """Seconds to wait, from the body or else the header."""
    if status.details and status.details.retry_after_seconds is not None:
        return status.details.retry_after_seconds
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None


def _denied(text: str, message: str, what: str) -> DispatchError:
    if any(denial in message for denial in _RETRYABLE_DENIALS):
        return Unreachable(text)
    denied = _RBAC.search(message)
    return Refused(text) if denied is None else Forbidden(f"{what}: {_advice(denied)} ({message})")


def _advice(denied: re.Match[str]) -> str:
    """What is missing, where, and who has to be given what."""
    verb, resource, scope = denied["verb"], denied["resource"], denied["scope"]
    qualified = f"{resource}.{denied['group']}" if denied["group"] else resource
    kind = "ClusterRole" if "cluster scope" in scope else "Role"
    return (
        f"no permission to {verb} {qualified} {scope}".rstrip()
        + f": bind {denied['user']} to a {kind} that allows it, see docs/guides/permissions.md"
    )


def _status(body: bytes) -> Status:
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        return Status()

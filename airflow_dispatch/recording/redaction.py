"""What is taken out of an object before it is written down: whatever may be a secret and no rule reads.

=====================================  =========================================================================
taken out                              why
=====================================  =========================================================================
values of environment variables        passwords are passed so; those under ``DISPATCH_`` are our own and stay
commands and their arguments           tokens are passed so; their number stays
contents of Secrets and ConfigMaps
attributes of CSI volumes, headers     they may hold credentials
  of probes
values of annotations                  other tools keep anything there, kubectl whole objects; those of Kubernetes,
                                       Trainer, JobSet, Kueue and our own are read by rules and stay
``managedFields``                      nobody reads them
images of a Node                       they are other people's
=====================================  =========================================================================

Names stay, as do labels, the messages that containers leave when they end, and the person and the reason of a hold.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_dispatch.core import names

__all__ = ["REDACTED", "redacted"]

REDACTED: Final = "REDACTED"

_OPAQUE: Final = frozenset({"command", "args", "volumeAttributes", "httpHeaders"})
_CONTENTS: Final = frozenset({"data", "stringData", "binaryData"})
_READ_DOMAINS: Final = (*(prefix.rstrip("/") for prefix in names.RESERVED_PREFIXES), "kubernetes.io", "k8s.io")
_WHOLE_OBJECT: Final = "kubectl.kubernetes.io/last-applied-configuration"


def redacted(item: dict[str, Any]) -> dict[str, Any]:
    """A copy of an object that can be shown to others."""
    whole: dict[str, Any] = _walk(item)
    metadata = whole.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    if item.get("kind") in ("Secret", "ConfigMap"):
        whole |= {key: _emptied(value) for key, value in whole.items() if key in _CONTENTS}
    status = whole.get("status")
    if item.get("kind") == "Node" and isinstance(status, dict):
        status.pop("images", None)
    return whole


def _walk(value: Any) -> Any:
    if isinstance(value, list):
        return [_walk(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _member(key, each) for key, each in value.items()}


def _member(key: str, value: Any) -> Any:
    if key in _OPAQUE:
        return _emptied(value)
    if key == "env" and isinstance(value, list):
        return [_variable(each) for each in value]
    if key == "annotations" and isinstance(value, dict):
        return {name: each if _is_read(name) else REDACTED for name, each in value.items()}
    return _walk(value)


def _variable(given: Any) -> Any:
    """One environment variable; where its value comes from elsewhere, only a name is there."""
    if not isinstance(given, dict) or "value" not in given or str(given.get("name")).startswith(names.ENV_PREFIX):
        return given
    return {**given, "value": REDACTED}


def _emptied(value: Any) -> Any:
    """The same shape with nothing in it."""
    if isinstance(value, list):
        return [_emptied(each) for each in value]
    if isinstance(value, dict):
        return {key: _emptied(each) for key, each in value.items()}
    return REDACTED


def _is_read(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    ours = any(domain == each or domain.endswith(f".{each}") for each in _READ_DOMAINS)
    return bool(slash) and ours and name != _WHOLE_OBJECT

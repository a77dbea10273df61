"""``harden-runtime``: the safe twin of a runtime, as an administrator would create it (contract, section 9)."""

from __future__ import annotations

from typing import Any, Final

from airflow_dispatch.adapter.starting import source_runtime
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import manifest

__all__ = ["hardened_runtime"]

_SUFFIX: Final = "-safe"
_MAX_NAME: Final = 63
"""Trainer puts a runtime's name into labels."""


async def hardened_runtime(target: Target, name: str) -> dict[str, Any]:
    """The same kind and spec with the safe values, under a name of its own, without what the server adds.

    Raises :class:`InvalidJob` when there is no such runtime, and :class:`Refused` when nothing in it trains.
    """
    source = await source_runtime(target, name)
    metadata = source["metadata"]
    kept = {key: metadata[key] for key in ("namespace", "labels") if metadata.get(key)}
    return {
        "apiVersion": source["apiVersion"],
        "kind": source["kind"],
        "metadata": {"name": f"{name[: _MAX_NAME - len(_SUFFIX)].rstrip('-.')}{_SUFFIX}", **kept},
        "spec": manifest.hardened(source)["spec"],
    }

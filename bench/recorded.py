"""Gangs of any size, multiplied from two ranks that run in a recording of the real controllers."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.decoding import decode_record
from airflow_dispatch.kube.paths import Resource
from airflow_dispatch.kube.store import Store
from tests.support.recordings import recording

__all__ = ["RESOURCES", "pods_of", "store_of"]

RESOURCES = {each.kind: each for each in vars(paths).values() if isinstance(each, Resource)}
_SCENARIO = recording("plain", "p01-complete")


def pods_of(size: int) -> list[bytes]:
    """The pods of a gang that runs, each on a Node of its own, as the API server writes them."""
    return [msgspec.json.encode(pod) for pod in _copies("Pod", size)]


def store_of(size: int) -> Store:
    """A store that holds one job with a gang of this size, all of it running."""
    store = Store(_SCENARIO.head["namespace"])
    running = [item for (kind, _), item in _running().items() if kind not in ("Pod", "Node")]
    for item in [*running, *_copies("Node", size), *_copies("Pod", size)]:
        store.apply("ADDED", item["kind"], decode_record(RESOURCES[item["kind"]], msgspec.json.encode(item)))
    return store


def _running() -> dict[tuple[str, str], dict[str, Any]]:
    """Everything as it stood when the last of the ranks had begun to run."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for _, item in _SCENARIO.events(float("inf")):
        if item["kind"] in RESOURCES:
            seen[item["kind"], item["metadata"]["name"]] = item
        phases = [each["status"].get("phase") for (kind, _), each in seen.items() if kind == "Pod"]
        if phases.count("Running") == 2:  # noqa: PLR2004 (the recording's gang)
            return seen
    raise AssertionError("the recording's gang never runs")


def _copies(kind: str, size: int) -> list[dict[str, Any]]:
    originals = [item for (each, _), item in _running().items() if each == kind]
    copies = []
    for index in range(size):
        item = copy.deepcopy(originals[index % len(originals)])
        name = item["metadata"]["name"] if kind == "Pod" else "node"
        item["metadata"] |= {"name": f"{name}-{index}", "uid": f"{kind.lower()}-{index}"}
        if kind == "Pod":
            item["metadata"]["labels"][names.LABEL_COMPLETION_INDEX] = str(index)
            item["spec"]["nodeName"] = f"node-{index}"
        copies.append(item)
    return copies

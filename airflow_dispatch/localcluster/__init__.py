"""A cluster in one process, for development, demos and tests of DAGs: ``async with LocalCluster() as cluster:``.

Names are loaded when they are first used, so that a part of the cluster can be imported without the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_dispatch.localcluster.clock import VirtualClock, WallClock
    from airflow_dispatch.localcluster.cluster import LocalCluster, Timings
    from airflow_dispatch.localcluster.faults import Faults
    from airflow_dispatch.localcluster.kubelet import PYTHON_IMAGE, Image, NodeSpec, Script
    from airflow_dispatch.localcluster.runtimes import SAFE_RUNTIME, UNSAFE_RUNTIME
    from airflow_dispatch.localcluster.thread import ClusterThread

__all__ = [
    "PYTHON_IMAGE",
    "SAFE_RUNTIME",
    "UNSAFE_RUNTIME",
    "ClusterThread",
    "Faults",
    "Image",
    "LocalCluster",
    "NodeSpec",
    "Script",
    "Timings",
    "VirtualClock",
    "WallClock",
]

_HOMES = {
    "ClusterThread": "thread",
    "Faults": "faults",
    "Image": "kubelet",
    "LocalCluster": "cluster",
    "NodeSpec": "kubelet",
    "PYTHON_IMAGE": "kubelet",
    "SAFE_RUNTIME": "runtimes",
    "Script": "kubelet",
    "Timings": "cluster",
    "UNSAFE_RUNTIME": "runtimes",
    "VirtualClock": "clock",
    "WallClock": "clock",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

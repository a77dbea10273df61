"""A cluster in one process, for development, demos and tests of DAGs: ``async with LocalCluster() as cluster:``."""

from __future__ import annotations

from airflow_dispatch.localcluster.cluster import LocalCluster, Timings
from airflow_dispatch.localcluster.clock import VirtualClock, WallClock
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

"""The API server of the local cluster: objects in memory, served over HTTPS as Kubernetes serves them.

:class:`Registry` is the whole of it without HTTP: controllers and in-process clients call it directly.
:class:`ApiServer` puts HTTPS, tokens and discovery in front.
"""

from __future__ import annotations

from airflow_dispatch.localcluster.apiserver.access import Access, Rule, User
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.garbage import GarbageCollector, NamespaceController
from airflow_dispatch.localcluster.apiserver.logs import LogLine, LogSource
from airflow_dispatch.localcluster.apiserver.registry import Listing, Reference, Registry, Subscription, WatchEvent
from airflow_dispatch.localcluster.apiserver.server import ApiServer

__all__ = [
    "Access",
    "ApiError",
    "ApiServer",
    "GarbageCollector",
    "Listing",
    "LogLine",
    "LogSource",
    "NamespaceController",
    "Reference",
    "Registry",
    "Rule",
    "Subscription",
    "User",
    "WatchEvent",
]

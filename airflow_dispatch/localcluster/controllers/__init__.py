"""The controllers of a local cluster: level-triggered reconcilers on the registry, each as the real one behaves."""

from __future__ import annotations

from airflow_dispatch.localcluster.apiserver.garbage import GarbageCollector, NamespaceController
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.job import JobController
from airflow_dispatch.localcluster.controllers.jobset import JobSetController
from airflow_dispatch.localcluster.controllers.jobsetwebhook import register_jobset_webhook
from airflow_dispatch.localcluster.controllers.manager import Controller, ControllerManager
from airflow_dispatch.localcluster.controllers.nodelifecycle import NodeLifecycleController
from airflow_dispatch.localcluster.controllers.podgc import PodGarbageCollector
from airflow_dispatch.localcluster.controllers.scheduler import Scheduler
from airflow_dispatch.localcluster.controllers.tainteviction import TaintEvictionController
from airflow_dispatch.localcluster.controllers.trainer import TrainJobController
from airflow_dispatch.localcluster.controllers.trainerwebhook import register_trainer_webhook

__all__ = ["Controller", "ControllerManager", "default_controllers"]


def default_controllers(registry: Registry, clock: Clock, *, grace: float = 5.0) -> list[Controller]:
    """All controllers, with their webhooks registered; ``grace``: seconds until a silent Node counts as lost."""
    register_trainer_webhook(registry, clock)
    register_jobset_webhook(registry)
    return [
        GarbageCollector(registry),
        NamespaceController(registry),
        TrainJobController(registry, clock),
        JobSetController(registry, clock),
        JobController(registry, clock),
        Scheduler(registry, clock),
        NodeLifecycleController(registry, clock, grace=grace),
        TaintEvictionController(registry, clock),
        PodGarbageCollector(registry, clock),
    ]

"""Where the verbs act, and what the site says of all its jobs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.job import UNSAFE_RUNTIME, check_metadata
from airflow_dispatch.core.snapshot import Site
from airflow_dispatch.kube.client import KubeClient

__all__ = ["Settings", "Target"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A site's settings; raises :class:`InvalidJob` for labels or annotations under a reserved prefix.

    ``labels`` and ``annotations`` go onto every TrainJob; the taints add to the well-known ones; ``unsafe_runtime`` is
    ``refuse``, ``harden`` or ``allow`` (contract, section 9), and a job's own setting outranks it.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_loss_taints: tuple[str, ...] = ()
    disruption_taints: tuple[str, ...] = ()
    unsafe_runtime: str = "refuse"

    def __post_init__(self) -> None:
        check_metadata("labels", self.labels)
        check_metadata("annotations", self.annotations)
        if self.unsafe_runtime not in UNSAFE_RUNTIME:
            raise InvalidJob(f"unsafe_runtime {self.unsafe_runtime!r} is not one of {', '.join(UNSAFE_RUNTIME)}")

    @property
    def site(self) -> Site:
        """What classification takes of it."""
        return Site(node_loss_taints=self.node_loss_taints, disruption_taints=self.disruption_taints)


class Target(NamedTuple):
    """One namespace of one cluster, with the site's settings."""

    client: KubeClient
    namespace: str
    settings: Settings

    def ref(self, name: str) -> str:
        """``<namespace>/<name>``."""
        return f"{self.namespace}/{name}"

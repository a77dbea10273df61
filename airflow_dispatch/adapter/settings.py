"""What a site says of all its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_dispatch.core.snapshot import Site


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The site's settings.

    ``labels`` and ``annotations`` go onto every TrainJob; ``node_loss_taints`` and ``disruption_taints`` add keys to
    the well-known ones; ``unsafe_runtime`` (``refuse``, ``harden`` or ``allow``) is what becomes of a runtime that
    could start a second execution beside a running one, unless a job says otherwise.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_loss_taints: tuple[str, ...] = ()
    disruption_taints: tuple[str, ...] = ()
    unsafe_runtime: str = "refuse"

    @property
    def site(self) -> Site:
        """The taints, for classification."""
        return Site(node_loss_taints=self.node_loss_taints, disruption_taints=self.disruption_taints)

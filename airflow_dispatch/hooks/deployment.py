"""The name of this Airflow deployment, as its configuration has it (contract, section 13)."""

from __future__ import annotations

from airflow.sdk.configuration import conf

__all__ = ["configured_deployment"]


def configured_deployment() -> str | None:
    """``[dispatch] deployment``, else ``[api] base_url``; None when neither is set."""
    name = conf.get("dispatch", "deployment", fallback=None) or conf.get("api", "base_url", fallback=None)
    return str(name) if name else None

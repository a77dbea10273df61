"""The verbs: what can be done with a job on a cluster (contract, sections 10 and 13)."""

from airflow_dispatch.adapter.adapter import Adapter
from airflow_dispatch.adapter.report import Finding
from airflow_dispatch.adapter.submitting import Submitted
from airflow_dispatch.adapter.target import Settings

__all__ = ["Adapter", "Finding", "Settings", "Submitted"]

"""What one table of section 6.3 says of one piece of evidence."""

from __future__ import annotations

from typing import NamedTuple

from airflow_dispatch.core.observation import CauseKind


class Verdict(NamedTuple):
    """A cause kind and the detail that goes with it."""

    kind: CauseKind
    detail: str

"""What ``airflow providers`` shows of this package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "airflow"


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("list", "airflow-provider-dispatch"),
        # The connection type is the cncf provider's: a second owner of it is what Airflow would warn of.
        ("hooks", "kubernetes_conn_id"),
        ("triggers", "airflow_dispatch.triggers.trainjob"),
    ],
)
def test_airflow_lists_the_provider_without_a_warning(listing: str, expected: str) -> None:
    shown = subprocess.run([PROGRAM, "providers", listing, "-o", "json"], capture_output=True, text=True, check=True)
    assert expected in shown.stdout
    assert "warn" not in (shown.stdout + shown.stderr).lower()

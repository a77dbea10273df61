"""Airflow's own settings for tests: they have to stand before anything imports it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

_HOME = Path(tempfile.mkdtemp(prefix="airflow-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

os.environ.update(
    {
        "AIRFLOW_HOME": str(_HOME),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME / 'airflow.db'}",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(_HOME / "plugins"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(_HOME / "logs"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__DISPATCH__DEPLOYMENT": "tests",
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--real``: what is for both clusters runs on the real control plane."""
    parser.addoption("--real", action="store_true", help="run on the real control plane what can run on either")


@pytest.fixture
def real_only(request: pytest.FixtureRequest) -> None:
    """The test is about the real control plane alone."""
    if not request.config.getoption("--real"):
        pytest.skip("it needs --real")

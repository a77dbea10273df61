from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("kubernetes", "kubernetes_asyncio", "aiohttp", "airflow_dispatch.adapter", "airflow_dispatch.kube")

_PROBE = """
import sys
import airflow.sdk
before = set(sys.modules)
import {module}
print("\\n".join(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize(
    "module",
    ["airflow_dispatch.operators.trainjob", "airflow_dispatch.sensors.trainjob", "airflow_dispatch.exceptions"],
)
def test_a_dag_file_that_imports_it_loads_no_client(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE.format(module=module)], capture_output=True, text=True, check=True
    )

    loaded = done.stdout.split()
    assert module in loaded
    assert [name for name in loaded if name.startswith(_HEAVY)] == []


_COMMAND = """
import sys
from airflow_dispatch.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["status", "--help"], ["replay", "none"], ["classify", "none"]])
def test_a_command_that_needs_no_cluster_loads_neither_airflow_nor_a_client(arguments: list[str]) -> None:
    code = _COMMAND.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = done.stderr.split()
    assert "airflow_dispatch.cli.reading" in loaded
    assert [name for name in loaded if name.startswith(("airflow.", "kubernetes", "aiohttp"))] == []

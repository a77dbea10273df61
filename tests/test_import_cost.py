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

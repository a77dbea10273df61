"""The Kubeflow SDK, which wants another version of ``kubernetes``, from an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.kubelet import Image

SCRIPT = Path(__file__).parent / "kubeflow_sdk.py"
INTERPRETER = os.environ.get("KUBEFLOW_PYTHON", "")
IMAGE = "localhost/torch:1"


def _image(folder: Path) -> Image:
    """An image whose ``torchrun`` starts one process: the SDK's functions are run through it."""
    torchrun = folder / "torchrun"
    torchrun.write_text('#!/bin/sh\nexec python3 "$@"\n')
    torchrun.chmod(0o755)
    return Image(env={"PATH": f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin"})


@pytest.mark.skipif(not INTERPRETER, reason="KUBEFLOW_PYTHON names no interpreter that has the Kubeflow SDK")
def test_the_sdk_trains_lists_waits_reads_logs_and_deletes(tmp_path: Path) -> None:
    with LocalCluster.in_thread(nodes=2, images={IMAGE: _image(tmp_path)}) as cluster:
        done = subprocess.run(
            [Path(INTERPRETER).absolute(), SCRIPT, cluster.kubeconfig, IMAGE],
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown == {
        "runtimes": ["torch-distributed", "torch-distributed-unsafe"],
        "listed": True,
        "status": "Complete",
        "steps": [["node-0", "Succeeded"], ["node-1", "Succeeded"]],
        "log": ["hello from rank 0 of 2"],
        "left": [],
    }

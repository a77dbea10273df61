"""A pod through the cncf provider; apart, since that provider takes seconds to import."""

from __future__ import annotations

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG, Param

SCRIPT = """
import pathlib, sys, time
print("hello from", 6 * 7, flush=True)
while not pathlib.Path(sys.argv[1], "finish").exists():
    time.sleep(0.2)
"""

with DAG("pod", schedule=None, params={"folder": Param("", type="string")}):
    KubernetesPodOperator(
        task_id="pod",
        image="localhost/python:3",
        cmds=["python3", "-c", SCRIPT],
        arguments=["{{ params.folder }}"],
        deferrable=True,
        poll_interval=1,
        startup_check_interval_seconds=1,
        get_logs=True,
    )

"""A two-rank training run, watched to its end."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_dispatch.operators.trainjob import TrainJobOperator

SCRIPT = Path(__file__).parent / "training" / "train_digits.py"

with DAG(
    "train_digits",
    description="Trains a network on handwritten digits with two ranks",
    schedule=None,
    params={
        "epochs": Param(10, type="integer", minimum=1),
        "checkpoints": Param(f"{tempfile.gettempdir()}/digits-checkpoints", type="string"),
    },
    doc_md=__doc__,
):
    # [START train]
    TrainJobOperator(
        task_id="train",
        argv=["python3", str(SCRIPT), "--epochs", "{{ params.epochs }}"],
        num_nodes=2,
        resources_per_node={"cpu": "1", "memory": "1Gi"},
        env={"CHECKPOINTS": "{{ params.checkpoints }}/{{ run_id }}"},
        execution_timeout=timedelta(minutes=30),
    )
    # [END train]

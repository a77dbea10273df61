"""What goes wrong, 1: the last rank exits with code 3.

Kubernetes stops the other rank, whose exit code is a consequence: the task's exception names rank 1's code as the
cause, and rank 0's among the other ranks.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from airflow_dispatch.operators.trainjob import TrainJobOperator

SCRIPT = Path(__file__).parent / "training" / "train_digits.py"

with DAG("rank_exits_with_3", description="A rank that fails, and why the others ended", schedule=None, doc_md=__doc__):
    TrainJobOperator(
        task_id="train",
        argv=["python3", str(SCRIPT), "--epochs", "10", "--fail-at", "3"],
        num_nodes=2,
        resources_per_node={"cpu": "1", "memory": "1Gi"},
    )

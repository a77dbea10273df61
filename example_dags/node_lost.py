"""What goes wrong, 2: a node is lost in mid-run.

Start it, and take a node away: ``airflow-dispatch local node lose node-1``. A second after the Node turns
``Ready=Unknown`` the task's log says what is stuck, and what would help. Bring the machine back
(``airflow-dispatch local node reboot node-1``), or say that it is off (``airflow-dispatch local node out-of-service
node-1``): the try ends with the cause node-lost, and the next one goes on from the checkpoint.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_dispatch.operators.trainjob import TrainJobOperator

SCRIPT = Path(__file__).parent / "training" / "train_digits.py"

with DAG(
    "node_lost",
    description="A node that is lost in mid-run, and a retry that goes on from the checkpoint",
    schedule=None,
    params={
        "epochs": Param(40, type="integer", minimum=1),
        "checkpoints": Param(f"{tempfile.gettempdir()}/digits-checkpoints", type="string"),
    },
    doc_md=__doc__,
):
    TrainJobOperator(
        task_id="train",
        argv=["python3", str(SCRIPT), "--epochs", "{{ params.epochs }}"],
        num_nodes=2,
        resources_per_node={"cpu": "1", "memory": "1Gi"},
        env={"CHECKPOINTS": "{{ params.checkpoints }}/{{ run_id }}"},
        retries=2,
        retry_delay=timedelta(seconds=5),
    )

"""Jobs whose ranks the tests steer through a folder."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from airflow_dispatch.operators.trainjob import OpenTrainJobOperator, SubmitTrainJobOperator, TrainJobOperator
from airflow_dispatch.sensors.trainjob import TrainJobSensor

RANKS = Path(__file__).parent.parent / "ranks.py"
PARAMS = {"folder": Param("", type="string")}
JOB: dict[str, Any] = {
    "argv": ["python3", str(RANKS), "{{ params.folder }}"],
    "num_nodes": 2,
    "resources_per_node": {"cpu": "1", "memory": "256Mi"},
}

with DAG("train", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", **JOB)

with DAG("train_with_retry", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="train", retries=1, retry_delay=timedelta(seconds=1), **JOB)

with DAG("in_parts", schedule=None, params=PARAMS):
    submit = SubmitTrainJobOperator(task_id="submit", **JOB)
    watch = TrainJobSensor(task_id="watch", job=submit.output, timeout=120)
    OpenTrainJobOperator(task_id="open", job=submit.output)

with DAG("refused", schedule=None, params=PARAMS):
    TrainJobOperator(task_id="no_nodes", **{**JOB, "num_nodes": 0})
    TrainJobOperator(task_id="reserved_env", env={"DISPATCH_X": "1"}, **JOB)
    TrainJobOperator(task_id="argv_is_text", **{**JOB, "argv": "python3 train.py"})
    TrainJobOperator(task_id="quantity", **{**JOB, "resources_per_node": {"memory": "lots"}})
    TrainJobOperator(task_id="reserved_label", labels={"kueue.x-k8s.io/queue-name": "q"}, **JOB)
    TrainJobOperator(task_id="unknown_runtime", runtime="no-such-runtime", **JOB)
    TrainJobOperator(task_id="unsafe_runtime", runtime="torch-distributed-unsafe", **JOB)
    TrainJobOperator(task_id="unknown_connection", kubernetes_conn_id="no_such_connection", **JOB)
    TrainJobOperator(task_id="missing_kubeconfig", kubernetes_conn_id="missing_kubeconfig", **JOB)

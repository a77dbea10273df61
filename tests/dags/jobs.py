"""DAGs that the tests run: a job in one task, deferred and not, one that fails, and one in parts."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_dispatch.operators.trainjob import OpenTrainJobOperator, SubmitTrainJobOperator, TrainJobOperator
from airflow_dispatch.sensors.trainjob import TrainJobSensor

SUCCEEDS = ["python3", "-c", "import os; print('epoch', os.environ['DISPATCH_EPOCH'])"]
FAILS = ["sh", "-c", 'test "$JOB_COMPLETION_INDEX" = 0 && sleep 60; exit 3']

with DAG("deferred", schedule=None):
    TrainJobOperator(task_id="train", argv=SUCCEEDS, num_nodes=2)

with DAG("in_the_worker", schedule=None):
    TrainJobOperator(task_id="train", argv=SUCCEEDS, num_nodes=2, deferrable=False)

with DAG("fails", schedule=None):
    TrainJobOperator(task_id="train", argv=FAILS, num_nodes=2)

with DAG("in_parts", schedule=None):
    submit = SubmitTrainJobOperator(task_id="submit", argv=SUCCEEDS, num_nodes=1)
    opened = OpenTrainJobOperator(task_id="open", job=submit.output)
    opened >> TrainJobSensor(task_id="watch", job=submit.output, timeout=60)

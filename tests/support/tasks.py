"""A task instance and its context, as far as the operators look at them."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from airflow.sdk import Context

__all__ = ["TaskInstance", "context_of"]


class TaskInstance:
    """One try of a task, with the XComs it has pushed."""

    def __init__(self, *, try_number: int = 1, task_id: str = "train", map_index: int = -1) -> None:
        self.id = f"try-{try_number}"
        self.dag_id = "dag"
        self.run_id = "run-1"
        self.task_id = task_id
        self.map_index = map_index
        self.try_number = try_number
        self.start_date = datetime.now(UTC)
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, *, key: str) -> Any:
        return self.pushed.get(key)


def context_of(task_instance: TaskInstance) -> Context:
    """The context of a run whose ``run_after`` never changes."""
    run = SimpleNamespace(run_after=datetime(2026, 11, 30, 12, tzinfo=UTC))
    return cast("Context", {"ti": task_instance, "dag_run": run})

"""What a waiting task tells Airflow, and asks it: XComs of the task instance, and the task's state.

All of it goes through the supervisor, which answers from a thread: its client blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

__all__ = ["KILLED_STATES", "OUTPUT_KEY", "OWNER_KEY", "STATUS_KEY", "TaskReference", "killed_by_a_person"]

OWNER_KEY: Final = "dispatch_owner"
"""XCom of the task instance: the id of the try that waits. A try's XComs are cleared when it starts, not on resume."""

STATUS_KEY: Final = "dispatch_status"
"""XCom of the task instance: where the log stands, see :meth:`Journal.published`."""

OUTPUT_KEY: Final = "dispatch_output"
"""XCom of the task instance: the time of the last line of rank 0's output that was shown."""

KILLED_STATES: Final = frozenset({"failed", "success", "skipped", "removed", "upstream_failed"})
"""States that a task which still waits can only have because somebody, or ``dagrun_timeout``, ended it."""


def killed_by_a_person(state: str | None) -> bool:
    """Whether a task in this state, whose trigger or worker was told to stop, has been ended for good.

    ``deferred`` and ``running``: another triggerer has taken over, or a newer try runs. None, ``scheduled``,
    ``queued``, ``restarting``, ``up_for_retry``: a newer try will decide. Neither is a reason to touch the job.
    """
    return state in KILLED_STATES


class _Identified(Protocol):
    """What a trigger's and a worker's task instance have in common."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int | None


@dataclass(frozen=True)
class TaskReference:
    """One task instance, and the try (``owner``, its ``ti.id``) that waits."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    owner: str

    @classmethod
    def of(cls, task_instance: _Identified, owner: str) -> TaskReference:
        """The reference of a trigger's or a worker's task instance."""
        index = task_instance.map_index
        return cls(
            dag_id=task_instance.dag_id,
            run_id=task_instance.run_id,
            task_id=task_instance.task_id,
            map_index=-1 if index is None else index,
            owner=owner,
        )

    async def read(self, key: str) -> Any:
        """An XCom of this task instance, or None."""
        return await asyncio.to_thread(XCom.get_one, key=key, **self._address())

    async def publish(self, values: Mapping[str, Any]) -> bool:
        """Writes XComs, unless a newer try has taken over: then false, and nothing is written."""
        if await self.read(OWNER_KEY) != self.owner:
            return False
        for key, value in values.items():
            await asyncio.to_thread(XCom.set, key=key, value=value, **self._address())
        return True

    async def state(self) -> str | None:
        """The task's state as the scheduler has it now; None when it has none."""
        return await asyncio.to_thread(self.state_now)

    def state_now(self) -> str | None:
        """The same, blocking."""
        states = RuntimeTaskInstance.get_task_states(
            dag_id=self.dag_id, task_ids=[self.task_id], run_ids=[self.run_id], map_index=self.map_index
        )
        of_run: Mapping[str, Any] = states.get(self.run_id) or {}
        name = self.task_id if self.map_index < 0 else f"{self.task_id}_{self.map_index}"
        state = of_run.get(name)
        return None if state is None else str(getattr(state, "value", state))

    def _address(self) -> dict[str, Any]:
        return {"dag_id": self.dag_id, "task_id": self.task_id, "run_id": self.run_id, "map_index": self.map_index}

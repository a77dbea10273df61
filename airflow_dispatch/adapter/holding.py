"""``hold``, in plain mode: one update of the TrainJob (contract, section 10)."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_dispatch.adapter.editing import annotations_of, hold_of, is_ended, is_queued, note_jobset
from airflow_dispatch.adapter.reading import get_trainjob, read_snapshot, with_trainjob
from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import names
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.classify.conditions import stamp
from airflow_dispatch.core.errors import Refused
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.kube import paths

__all__ = ["Hold", "hold"]


class Hold:
    """Who holds, why, until when, as which instance (1 or more; each new hold is higher than the last)."""

    def __init__(self, instance: int, who: str, reason: str, until: datetime | None) -> None:
        if instance < 1:
            raise Refused(f"hold instance {instance} is not 1 or more")
        self.instance = instance
        self.who = who
        self.reason = reason
        self.until = until

    def annotations(self, now: datetime) -> dict[str, str]:
        """The hold keys."""
        keys = {
            names.ANNOTATION_HOLD_INSTANCE: str(self.instance),
            names.ANNOTATION_HOLD_SINCE: stamp(now),
            names.ANNOTATION_HOLD_WHO: self.who,
            names.ANNOTATION_HOLD_REASON: self.reason,
        }
        return keys | ({names.ANNOTATION_HOLD_UNTIL: stamp(self.until)} if self.until else {})


async def hold(target: Target, name: str, wanted: Hold, uid: str | None) -> Observation:
    """Suspends a TrainJob until the hold is released; the same instance again changes nothing."""

    async def once() -> Observation:
        return await _hold(target, name, wanted, uid)

    return await retrying(once)


async def _hold(target: Target, name: str, wanted: Hold, uid: str | None) -> Observation:
    trainjob = await get_trainjob(target, name, uid)
    ref = target.ref(name)
    if is_queued(trainjob):
        raise Refused(f"{ref} is queued by Kueue: its Workload is what is held there")
    snapshot = await read_snapshot(target, trainjob)
    in_force = hold_of(trainjob)
    if in_force > wanted.instance:
        raise Refused(f"{ref}: hold {in_force} is in force, which is newer than {wanted.instance}")
    if in_force == wanted.instance or is_ended(trainjob):
        return classify(snapshot, datetime.now(UTC))
    now = datetime.now(UTC)
    annotations = annotations_of(trainjob)
    annotations.pop(names.ANNOTATION_HOLD_UNTIL, None)
    annotations.update(wanted.annotations(now))
    trainjob["spec"]["suspend"] = True
    note_jobset(trainjob, snapshot.jobset)
    answer = await target.client.replace(paths.TRAINJOBS, trainjob)
    return classify(with_trainjob(snapshot, answer), now)

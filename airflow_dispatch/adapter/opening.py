"""``open`` and ``release``: the two writes that admit an execution, each behind the never-two check (section 12)."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import NamedTuple

from airflow_dispatch.adapter.cancelling import remove
from airflow_dispatch.adapter.editing import (
    HOLD_KEYS,
    annotations_of,
    drop_gate,
    hold_of,
    is_ended,
    is_open,
    is_queued,
    note_jobset,
)
from airflow_dispatch.adapter.reading import read_snapshot, read_to_admit, with_trainjob
from airflow_dispatch.adapter.retrying import retrying
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import cessation, manifest, names, task
from airflow_dispatch.core.classify import classify
from airflow_dispatch.core.errors import PodsRemain, Refused, Unreachable
from airflow_dispatch.core.identity import Submission
from airflow_dispatch.core.observation import Observation
from airflow_dispatch.core.snapshot import Leftovers, Snapshot
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.store import Store

__all__ = ["open_trainjob", "release"]

_LOOK_SECONDS = 1.0


class _LookAt(NamedTuple):
    """The submission to look at next: the same one, after others have gone, or the one that stays."""

    name: str
    uid: str


async def open_trainjob(target: Target, name: str, uid: str | None) -> Observation:
    """Opens a gated TrainJob; one that is open already is only read.

    When another submission of the job is the one to go on with (:func:`~airflow_dispatch.core.task.before_open`), this
    one is deleted and that one opened; the observation is of that one then.
    """

    async def once() -> Observation | _LookAt:
        return await _open(target, name, uid)

    while isinstance(step := await retrying(once), _LookAt):
        name, uid = step
    return step


async def _open(target: Target, name: str, uid: str | None) -> Observation | _LookAt:
    own, trainjob, store, snapshot = await read_to_admit(target, name, uid)
    if is_open(trainjob) or is_ended(trainjob) or names.ANNOTATION_VERDICT in annotations_of(trainjob):
        return classify(await read_snapshot(target, trainjob), datetime.now(UTC))
    if trainjob["metadata"].get("deletionTimestamp"):
        raise Refused(f"{target.ref(name)} is being deleted")
    stays = await _settle(target, store, own)
    if stays is not None:
        return stays
    _check_leftovers(target, store.leftovers(), own)
    queued = is_queued(trainjob)
    if not queued:
        _check(target.ref(name), cessation.ask(snapshot, datetime.now(UTC)))
    drop_gate(trainjob)
    annotations_of(trainjob)[names.ANNOTATION_OPENED] = "true"
    note_jobset(trainjob, snapshot.jobset)
    if not queued and not hold_of(trainjob):
        manifest.raise_admission(trainjob)
        trainjob["spec"]["suspend"] = False
    answer = await target.client.replace(paths.TRAINJOBS, trainjob)
    return classify(with_trainjob(snapshot, answer), datetime.now(UTC))


async def _settle(target: Target, store: Store, own: Submission) -> _LookAt | None:
    """Makes sure that one submission of the job is left to go on with; None when ``own`` stands alone already."""
    submissions = task.submissions_of(store.leftovers().trainjobs, own.job_id)
    mine = next(each for each in submissions if each.number == own.number)
    decision = task.before_open(mine, [each for each in submissions if each is not mine])
    for each in decision.remove:
        await remove(target, own.job_id, each)
    if not decision.remove:
        return None
    stays = next(each for each in submissions if each.number == decision.submission)
    return _LookAt(names.object_name(own.job_id, stays.number), stays.uid)


async def release(target: Target, name: str, instance: int, uid: str | None) -> Observation:
    """Ends the hold of this instance; waits for the controllers to confirm the suspension, not for pods."""
    first_look = _FirstLook()

    async def once() -> Observation:
        return await _release(target, name, instance, uid, first_look)

    while True:
        try:
            return await retrying(once)
        except _LookAgain as again:
            await asyncio.sleep(max(again.seconds, _LOOK_SECONDS))


async def _release(target: Target, name: str, instance: int, uid: str | None, first_look: _FirstLook) -> Observation:
    own, trainjob, store, snapshot = await read_to_admit(target, name, uid)
    ref = target.ref(name)
    if is_queued(trainjob):
        raise Refused(f"{ref} is queued by Kueue: a hold of its Workload is released there")
    in_force = hold_of(trainjob)
    if not in_force:
        return classify(await read_snapshot(target, trainjob), datetime.now(UTC))
    if in_force != instance:
        raise Refused(f"{ref}: the hold in force is {in_force}, not {instance}")
    if is_open(trainjob) and not is_ended(trainjob):
        _check_beside(target, store.leftovers(), own)
        _check_twice(ref, snapshot, trainjob["metadata"].get("generation"), first_look)
        manifest.raise_admission(trainjob)
        trainjob["spec"]["suspend"] = False
    for key in HOLD_KEYS:
        annotations_of(trainjob).pop(key, None)
    note_jobset(trainjob, snapshot.jobset)
    answer = await target.client.replace(paths.TRAINJOBS, trainjob)
    return classify(with_trainjob(snapshot, answer), datetime.now(UTC))


class _LookAgain(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def _check(ref: str, answer: cessation.Answer) -> None:
    if answer.remaining:
        raise PodsRemain(ref, answer.remaining)
    if answer.unsettled:
        raise Unreachable(f"{ref}: not admitted yet: {answer.unsettled}", retry_after=answer.second_look)


class _FirstLook:
    """When an answer that only time can tell was given first.

    It is of one generation of the TrainJob: what another process has released and held meanwhile begins anew.
    """

    def __init__(self) -> None:
        self._seen: tuple[int | None, str] | None = None
        self._at = 0.0

    def held_for(self, generation: int | None, why: str) -> float:
        """Seconds since this was seen first, with nothing else in between."""
        if self._seen != (generation, why):
            self._seen, self._at = (generation, why), time.monotonic()
        return time.monotonic() - self._at


def _check_twice(ref: str, snapshot: Snapshot, generation: int | None, first_look: _FirstLook) -> None:
    """As :func:`_check`; where only time can tell, waits for it while the answer stays the same."""
    answer = cessation.ask(snapshot, datetime.now(UTC))
    held_for = first_look.held_for(generation, answer.unsettled)
    if answer.second_look is not None:
        answer = cessation.ask(snapshot, datetime.now(UTC), held_for=held_for)
    if answer.second_look is not None:
        raise _LookAgain(answer.second_look)
    _check(ref, answer)


def _check_leftovers(target: Target, leftovers: Leftovers, own: Submission) -> None:
    """Nothing is admitted while anything of another submission may still run."""
    remaining = cessation.of_other_submissions(leftovers, own)
    if remaining:
        raise PodsRemain(target.ref(own.name), remaining)


def _check_beside(target: Target, leftovers: Leftovers, own: Submission) -> None:
    """Nothing is admitted again while another submission is open: it must have been opened by hand."""
    submissions = task.submissions_of(leftovers.trainjobs, own.job_id)
    others = [names.object_name(own.job_id, each.number) for each in task.open_beside(own.number, submissions)]
    if others:
        raise Unreachable(f"{target.ref(own.name)}: not released while another submission is open: {', '.join(others)}")
    _check_leftovers(target, leftovers, own)

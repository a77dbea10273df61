"""Hypothesis strategies for odd objects: every field of a record may be absent or hold what no controller writes."""

from __future__ import annotations

import types
import typing
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st

from airflow_dispatch.core import names, objects
from airflow_dispatch.core.observation import Cause
from airflow_dispatch.core.snapshot import CapturedPod, Machine, NodeAbsence, Site, Snapshot
from tests.support.builders import JOB_ID, JOB_NAME, JOB_UID, JOBSET_UID, NAME, UID

WORDS = st.sampled_from(
    [
        *("", "0", "1", "2", "01", "-1", "node", "node-0", "node-1", "True", "False", "Unknown", "Ready", "true"),
        *("Suspended", "Complete", "Failed", "FailedJobs", "DeadlineExceeded", "Evicted", "Preempted", "Admitted"),
        *("QuotaReserved", "PodsReadyTimeout", "PodsReady", "WaitForRecovery", "DeactivatedDueToX", "Deactivated"),
        *("DisruptionTarget", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet", "OOMKilled"),
        *("Running", "Succeeded", "Pending", "PodScheduled", "Unschedulable", "FailedCreate", "JobCreationFailed"),
        *("TrainJob", "JobSet", "Job", "FailureTarget", "SuccessCriteriaMet", "RestartingJobSet", "exceeded quota"),
        *(names.TAINT_UNREACHABLE, names.TAINT_OUT_OF_SERVICE, names.PATCH_MANAGER, names.GATE, "trainer"),
        *(NAME, UID, JOB_ID, JOBSET_UID, JOB_UID, JOB_NAME, "dispatch:s=1;a=1", '{"kind":"timeout"}', "0,2-4"),
    ]
)
TEXT = st.one_of(WORDS, st.text(max_size=8))
KEYS = st.sampled_from([value for name, value in vars(names).items() if name.startswith(("LABEL_", "ANNOTATION_"))])
TIMES = st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (the zone is the other argument)
NUMBERS = st.one_of(st.integers(-2, 3), st.integers(-(2**40), 2**40))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXT, inner, max_size=2)),
    max_leaves=4,
)


def records(record: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a record."""
    hints = typing.get_type_hints(record)
    fields = {field.name: field for field in msgspec.structs.fields(record)}
    given = {name: _values(hints[name]) for name, field in fields.items() if field.required}
    maybe = {name: _values(hints[name]) for name, field in fields.items() if not field.required}
    return st.fixed_dictionaries(given, optional=maybe).map(lambda values: record(**values))


def _values(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return st.one_of([_values(each) for each in arguments])
    if origin is list:
        return st.lists(_values(arguments[0]), max_size=3)
    if origin is dict:
        wild = st.dictionaries(TEXT, JSON, max_size=2)
        return st.dictionaries(KEYS, TEXT, max_size=5) if arguments[1] is str else wild
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return st.deferred(lambda: records(hint))
    return {str: TEXT, int: NUMBERS, bool: st.booleans(), type(None): st.none(), datetime: TIMES}[hint]


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Any snapshot."""
    nodes = st.one_of(records(objects.Node), st.sampled_from(NodeAbsence))
    pods = records(objects.Pod)
    machines = st.none() | st.builds(Machine, TEXT, TEXT)
    captured = st.builds(CapturedPod, pod=pods, node=nodes, machine=machines)

    def tuples(each: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
        return st.lists(each, max_size=most).map(tuple)

    return st.builds(
        Snapshot,
        namespace=TEXT,
        trainjob=records(objects.TrainJob),
        jobset=st.none() | records(objects.JobSet),
        jobs=tuples(records(objects.Job), 2),
        runtime=st.none() | records(objects.TrainingRuntime),
        workload=st.none() | records(objects.Workload),
        pods=tuples(pods, 4),
        captured=tuples(captured),
        nodes=st.dictionaries(st.sampled_from(["node-0", "node-1"]), records(objects.Node)),
        nodes_readable=st.booleans(),
        events=tuples(records(objects.Event)),
        seen_end=st.none() | st.just(Cause()),
        vanished=tuples(captured, 1),
        confirmed=st.frozensets(TEXT, max_size=1),
        unreadable=tuples(TEXT, 1),
        site=st.just(Site(node_loss_taints=("True",), disruption_taints=("1",))),
    )

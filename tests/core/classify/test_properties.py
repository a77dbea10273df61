"""What holds of every classification: it is total, and the order in which things were listed means nothing."""

from __future__ import annotations

import copy
import random
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_dispatch.core import cessation, objects
from airflow_dispatch.core.classify import classify, end_of, orphans
from airflow_dispatch.core.identity import parse_name
from airflow_dispatch.core.observation import CauseKind, Observation, State, from_json
from airflow_dispatch.core.snapshot import Leftovers, Snapshot
from tests.support.builders import Scenario, at, node, pod, scenario
from tests.support.mutations import OddRecording, odd_recordings
from tests.support.odd import records, snapshots
from tests.support.recordings import Recording
from tests.support.rows import traced

NOW = at(30)
RELAXED = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
_Item = TypeVar("_Item")


def observed(snapshot: Snapshot) -> Observation:
    """What is said of it; each rule has said only what one of its rows declares."""
    with traced() as trace:
        found = classify(snapshot, NOW)
    assert not trace.undeclared
    assert found.state in State
    assert from_json(found.to_json()) == found
    assert classify(snapshot, NOW) == found
    end_of(snapshot, NOW)
    cessation.ask(snapshot, NOW)
    cessation.ceased(snapshot)
    return found


def looked_through(leftovers: Leftovers) -> None:
    assert all(each.foreign for each in orphans(leftovers, NOW))
    for trainjob in leftovers.trainjobs:
        submission = parse_name(trainjob.metadata.name)
        if submission is not None:
            cessation.of_other_submissions(leftovers, submission)


@RELAXED
@given(snapshots())
def test_any_snapshot_is_classified(snapshot: Snapshot) -> None:
    observed(snapshot)


@RELAXED
@given(odd_recordings())
def test_any_json_is_classified_and_what_could_not_be_read_is_told(odd: OddRecording) -> None:
    store = odd.replay()
    for name in store.trainjob_names():
        snapshot = store.snapshot(name)
        assert snapshot is not None
        found = observed(snapshot)
        if snapshot.trainjob.problem:
            assert found.cause.kind is not CauseKind.NONE
            assert f"TrainJob {name} can't be read in full: {snapshot.trainjob.problem}" in found.cause.detail
    looked_through(store.leftovers())


@RELAXED
@given(
    st.lists(records(objects.TrainJob), max_size=2),
    st.lists(records(objects.JobSet), max_size=2),
    st.lists(records(objects.Job), max_size=2),
    st.lists(records(objects.Pod), max_size=3),
    st.lists(records(objects.TrainingRuntime), max_size=2),
)
def test_any_leftovers_are_looked_through(
    trainjobs: list[objects.TrainJob],
    jobsets: list[objects.JobSet],
    jobs: list[objects.Job],
    pods: list[objects.Pod],
    runtimes: list[objects.TrainingRuntime],
) -> None:
    looked_through(
        Leftovers(
            namespace="ml",
            trainjobs=tuple(trainjobs),
            jobsets=tuple(jobsets),
            jobs=tuple(jobs),
            pods=tuple(pods),
            runtimes=tuple(runtimes),
        )
    )


@st.composite
def gangs(draw: st.DrawFn) -> Scenario:
    """Up to six pods in all sorts of states, of few ranks and executions, so that ties are common."""
    found = scenario()
    seconds = st.integers(0, 2)
    for number in range(draw(st.integers(1, 6))):
        built = pod(
            f"p{number}",
            index=draw(st.sampled_from([None, 0, 1])),
            admission=draw(st.sampled_from([1, 2])),
            restart=draw(st.sampled_from([0, 1])),
        )
        built.created(draw(seconds)).on(draw(st.sampled_from(["node-0", "node-1", "gone"])))
        if draw(st.booleans()):
            built.terminated(draw(st.sampled_from([0, 1, 137, 143])), finished=draw(seconds))
        else:
            built.running()
        if draw(st.booleans()):
            built.deleted(draw(seconds), grace=0)
        if draw(st.booleans()):
            built.disrupted(
                draw(st.sampled_from(["DeletionByTaintManager", "EvictionByEvictionAPI"])), since=draw(seconds)
            )
        if draw(st.booleans()):
            found.pods.append(built)
        else:
            found.captured.append(built.captured(node("node-0").lost()))
    failed = draw(st.booleans())
    if failed:
        found.trainjob.with_condition("Failed", "FailedJobs")
    elif draw(st.booleans()):
        found.suspended(since=1)
    return found


@RELAXED
@given(gangs(), st.randoms(use_true_random=False))
def test_order_means_nothing_to_a_gang(gang: Scenario, order: random.Random) -> None:
    snapshot = gang.snapshot()
    assert classify(shuffled(snapshot, order), NOW) == classify(snapshot, NOW)


@RELAXED
@given(odd_recordings(), st.randoms(use_true_random=False))
def test_order_means_nothing_in_what_real_controllers_wrote(odd: OddRecording, order: random.Random) -> None:
    played: Recording = odd.played
    store = odd._replace(mutations=()).replay()
    for name in store.trainjob_names():
        snapshot = store.snapshot(name)
        assert snapshot is not None
        now = played.clock(played.lines[-1]["t"])
        assert classify(shuffled(snapshot, order), now) == classify(snapshot, now)


def shuffled(snapshot: Snapshot, order: random.Random) -> Snapshot:
    """The same with pods, Jobs, Events, and every object's conditions in another order."""
    snapshot = copy.deepcopy(snapshot)
    captured = [each.pod for each in snapshot.captured]
    read: list[Any] = [snapshot.trainjob, snapshot.jobset, snapshot.workload]
    for each in [*read, *snapshot.jobs, *snapshot.pods, *captured, *snapshot.nodes.values()]:
        if each is not None and each.status is not None and each.status.conditions:
            order.shuffle(each.status.conditions)
    return msgspec.structs.replace(
        snapshot,
        pods=_shuffled(snapshot.pods, order),
        captured=_shuffled(snapshot.captured, order),
        jobs=_shuffled(snapshot.jobs, order),
        events=_shuffled(snapshot.events, order),
    )


def _shuffled(items: tuple[_Item, ...], order: random.Random) -> tuple[_Item, ...]:
    found = list(items)
    order.shuffle(found)
    return tuple(found)

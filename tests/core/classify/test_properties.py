"""What holds of every classification: it is total, and the order in which things were listed means nothing."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_dispatch.core import objects
from airflow_dispatch.core.classify import classify, end_of, orphans
from airflow_dispatch.core.observation import State, from_json
from airflow_dispatch.core.snapshot import Leftovers, Snapshot
from tests.support.builders import Scenario, at, node, pod, scenario
from tests.support.odd import records, snapshots

NOW = at(30)
RELAXED = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@RELAXED
@given(snapshots())
def test_any_snapshot_is_classified(snapshot: Snapshot) -> None:
    found = classify(snapshot, NOW)
    assert found.state in State
    assert from_json(found.to_json()) == found
    assert classify(snapshot, NOW) == found
    end_of(snapshot, NOW)


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
    found = orphans(
        Leftovers(
            namespace="ml",
            trainjobs=tuple(trainjobs),
            jobsets=tuple(jobsets),
            jobs=tuple(jobs),
            pods=tuple(pods),
            runtimes=tuple(runtimes),
        ),
        NOW,
    )
    assert all(each.foreign for each in found)


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
def test_order_of_pods_means_nothing(gang: Scenario, random: object) -> None:
    snapshot = gang.snapshot()
    shuffled = msgspec.structs.replace(
        snapshot, pods=_shuffled(snapshot.pods, random), captured=_shuffled(snapshot.captured, random)
    )
    assert classify(shuffled, NOW) == classify(snapshot, NOW)


def _shuffled(items: tuple[object, ...], random: object) -> tuple[object, ...]:
    found = list(items)
    random.shuffle(found)  # type: ignore[attr-defined]
    return tuple(found)

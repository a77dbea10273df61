"""The local controllers bring what the real ones were recorded to: the same acts played on both sides.

Left out are ``p20*`` and ``p21``, where somebody wrote what a kubelet would, and ``p29*``, which catch races that a
cluster without delays does not have.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.kubelet.scripted import Script
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, PODS, TRAINING_RUNTIMES, TRAINJOBS
from tests.support.history import History, history_of
from tests.support.player import Player, refusals_of
from tests.support.recordings import recording

SCENARIOS = [
    "p01-complete",
    "p02-exit-code",
    "p02b-exit-code-peer",
    "p03-oom",
    "p04-jobset-restarts",
    "p06-hold-drain-release-when-empty",
    "p07-hold-release-early",
    "p07b-hold-release-early-default-policy",
    "p08-hold-lost-node",
    "p08b-release-lost-node-safe-runtime",
    "p09-node-lost-running",
    "p10-node-lost-returns",
    "p11-node-deleted",
    "p13-cancel-background",
    "p13b-cancel-while-gc-sleeps",
    "p14-jobset-deleted-after-failed",
    "p15-failed-then-suspend-then-jobset-deleted",
    "p15b-suspend-and-delete-at-once",
    "p16-unschedulable",
    "p16b-one-of-four-unschedulable",
    "p18-eviction-api",
    "p22-runtime-missing",
    "p23-suspended-by-someone-else",
    "p25-force-deleted-pod",
    "p27-in-place-restart-and-default-runtime",
    "p28-webhook-refusals",
    "p30-rank-completed-before-hold",
    "p32-exit-0-on-sigterm-of-failing-job",
]
OBEYS_WITH_0 = "p32-exit-0-on-sigterm-of-failing-job"
KILLED_WITHOUT_REPORT = "p15b-suspend-and-delete-at-once"
"""Here the recorded kubelet removed pods without having reported their end."""


def _script(scenario: str, _: Any) -> Script:
    return Script(term_seconds=3, term_exit_code=0 if scenario == OBEYS_WITH_0 else 143)


@functools.cache
def _played(scenario: str) -> tuple[History, list[tuple[str, int, str]]]:
    """What happened here, and what was refused."""

    async def main() -> tuple[History, list[tuple[str, int, str]]]:
        script = functools.partial(_script, scenario)
        async with LocalCluster(clock=VirtualClock(), runtime="scripted", script=script) as cluster:
            player = Player(cluster, recording("plain", scenario))
            await player.play()
        return player.history, player.refusals

    return asyncio.run(main())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conditions_come_in_the_recorded_order(scenario: str) -> None:
    assert _played(scenario)[0].conditions == history_of(recording("plain", scenario)).conditions


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each != KILLED_WITHOUT_REPORT])
def test_pods_come_and_go_as_recorded(scenario: str) -> None:
    assert _played(scenario)[0].pods == history_of(recording("plain", scenario)).pods


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_labels_and_annotations_change_as_recorded(scenario: str) -> None:
    assert _played(scenario)[0].metadata == history_of(recording("plain", scenario)).metadata


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_last_status_is_the_recorded_one(scenario: str) -> None:
    assert _played(scenario)[0].status == history_of(recording("plain", scenario)).status


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_recorded_events_are_written_in_the_recorded_form(scenario: str) -> None:
    assert _played(scenario)[0].events == history_of(recording("plain", scenario)).events


@pytest.mark.parametrize("scenario", ["p13-cancel-background", "p22-runtime-missing", "p28-webhook-refusals"])
def test_refusals_are_the_recorded_ones(scenario: str) -> None:
    assert _played(scenario)[1] == refusals_of(recording("plain", scenario))


def test_with_the_collector_asleep_what_is_left_of_a_cancelled_job_runs_on() -> None:
    played = recording("plain", "p13b-cancel-while-gc-sleeps")

    async def main() -> None:
        async with LocalCluster(clock=VirtualClock(), runtime="scripted") as cluster:
            player = Player(cluster, played)
            mark = "the TrainJob is gone, JobSet, both pods and the runtime copy are orphans"
            await player.play(until=played.time_of(mark))
            registry = cluster.registry
            assert not registry.exists(TRAINJOBS, "default", played.name)
            assert registry.exists(JOBSETS, "default", played.name)
            assert registry.exists(TRAINING_RUNTIMES, "default", played.name)
            pods = registry.list(PODS, "default").items
            assert [pod["status"]["phase"] for pod in pods] == ["Running", "Running"]

    asyncio.run(main())


def test_jobset_job_and_pod_are_built_as_trainer_jobset_and_job_build_them() -> None:
    played = recording("plain", "p01-complete")

    async def main() -> None:
        async with LocalCluster(clock=VirtualClock(), runtime="scripted") as cluster:
            player = Player(cluster, played)
            await player.play(until=played.time_of("both ranks run"))
            for resource, kind in ((JOBSETS, "JobSet"), (JOBS, "Job"), (PODS, "Pod")):
                ours = cluster.registry.list(resource, "default").items[0]
                theirs = [obj for _, obj in played.events(played.time_of("both ranks run")) if obj["kind"] == kind]
                assert _shape(ours) == _shape(theirs[-1] if kind != "Pod" else theirs[0])

    asyncio.run(main())


def _shape(obj: dict[str, Any]) -> Any:
    """Labels, annotations, owners and what runs, without UIDs, times and what is drawn by lot."""
    metadata = obj["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if not key.endswith("uid")}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if not key.endswith("uid")}
    owners = [
        {key: value for key, value in owner.items() if key != "uid"} for owner in metadata.get("ownerReferences") or ()
    ]
    spec = obj["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"] if "replicatedJobs" in spec else spec
    pod = job["template"]["spec"] if "template" in job else job
    container = {key: value for key, value in pod["containers"][0].items() if key != "volumeMounts"}
    env = {entry["name"]: entry.get("value") for entry in container.pop("env")}
    kept = {key: container.get(key) for key in ("name", "image", "command", "args", "resources", "ports")}
    return (
        labels,
        annotations,
        owners,
        metadata.get("finalizers"),
        env,
        kept,
        pod.get("subdomain"),
        pod["restartPolicy"],
    )

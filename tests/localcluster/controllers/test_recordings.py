"""The local controllers bring the same conditions, in the same order, as the real ones were recorded to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, PODS
from tests.support.player import Player, history_of
from tests.support.recordings import recording

SCENARIOS = [
    "p01-complete",
    "p02-exit-code",
    "p03-oom",
    "p04-jobset-restarts",
    "p06-hold-drain-release-when-empty",
    "p09-node-lost-running",
    "p10-node-lost-returns",
    "p11-node-deleted",
    "p13-cancel-background",
    "p14-jobset-deleted-after-failed",
    "p16-unschedulable",
    "p18-eviction-api",
    "p23-suspended-by-someone-else",
]
THEN_COMPLETE = ["p14-jobset-deleted-after-failed", "p23-suspended-by-someone-else"]
"""Here both ranks end well by themselves, without a mark."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conditions_come_in_the_recorded_order(scenario: str) -> None:
    played = recording("plain", scenario)

    async def main() -> None:
        async with LocalCluster(clock=VirtualClock(), runtime="scripted") as cluster:
            player = Player(cluster, played)
            await player.play()
            if scenario in THEN_COMPLETE:
                await player.complete()
            assert _settled(player.history) == _settled(history_of(played))

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


def _settled(history: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The states in which conditions changed; several changes in one write are as good as one each."""
    found: dict[str, list[Any]] = {}
    for name, states in history.items():
        changes: list[Any] = []
        before: set[Any] = set()
        for state in states:
            if state == "gone":
                changes.append("gone")
                before = set()
                continue
            changes += [entry for entry in state if entry not in before]
            before = set(state)
        found[name] = changes
    return found


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

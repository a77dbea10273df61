"""The life of a pod, under virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_dispatch.localcluster.kubelet import ContainerSpec, Image, ImageTable, Script
from airflow_dispatch.localcluster.resources import PODS
from tests.support.node import container, scripted


def ends(code: int, seconds: float = 5) -> Script:
    return Script(seconds=seconds, exit_code=code)


def test_a_pod_runs_and_completes(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: ends(0)) as node:
            node.create("a", container("train"))
            await node.settle()
            assert node.status("a")["phase"] == "Running"
            assert node.conditions("a") == {
                "Initialized": ("True", ""),
                "PodReadyToStartContainers": ("True", ""),
                "Ready": ("True", ""),
                "ContainersReady": ("True", ""),
            }
            await node.advance(5)
            assert node.status("a")["phase"] == "Succeeded"
            assert node.conditions("a")["Ready"] == ("False", "PodCompleted")
            assert node.conditions("a")["ContainersReady"] == ("False", "PodCompleted")
            (entry,) = node.status("a")["containerStatuses"]
            assert entry["state"]["terminated"] == {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": "2026-01-01T00:00:00Z",
                "finishedAt": "2026-01-01T00:00:05Z",
                "containerID": entry["containerID"],
            }
            assert (entry["ready"], entry["started"], entry["restartCount"]) == (False, False, 0)

    asyncio.run(play())


def test_each_running_pod_has_an_address_of_its_own_and_a_start_time(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("a", container("train"))
            node.create("b", container("train"))
            await node.settle()
            first, second = node.status("a"), node.status("b")
            assert first["podIP"] != second["podIP"]
            assert first["podIPs"] == [{"ip": first["podIP"]}]
            assert first["hostIP"] == second["hostIP"]
            assert first["startTime"] == "2026-01-01T00:00:00Z"

    asyncio.run(play())


def test_a_non_zero_exit_fails_a_pod_that_never_restarts(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: ends(3)) as node:
            node.create("a", container("train"))
            await node.advance(5)
            assert node.status("a")["phase"] == "Failed"
            assert node.conditions("a")["Ready"] == ("False", "PodFailed")
            assert node.state("a")["terminated"]["exitCode"] == 3
            assert node.state("a")["terminated"]["reason"] == "Error"

    asyncio.run(play())


def test_a_program_that_does_not_exist_ends_with_128_and_start_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(start_error='exec: "train": not found')) as node:
            node.create("a", container("train"))
            await node.settle()
            assert node.status("a")["phase"] == "Failed"
            terminated = node.state("a")["terminated"]
            assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
            assert terminated["message"] == 'exec: "train": not found'

    asyncio.run(play())


def test_on_failure_restarts_at_once_and_then_backs_off(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: ends(1, seconds=1)) as node:
            node.create("a", container("train"), restartPolicy="OnFailure")
            await node.advance(1)
            (entry,) = node.status("a")["containerStatuses"]
            assert entry["restartCount"] == 1
            assert "running" in entry["state"]
            assert entry["lastState"]["terminated"]["exitCode"] == 1
            await node.advance(1)
            (entry,) = node.status("a")["containerStatuses"]
            assert entry["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            assert entry["state"]["waiting"]["message"].startswith("back-off 10s restarting failed container=node")
            assert node.status("a")["phase"] == "Running"
            assert node.conditions("a")["Ready"] == ("False", "ContainersNotReady")
            await node.advance(9.9)
            assert "waiting" in node.state("a")
            await node.advance(0.1)
            assert "running" in node.state("a")
            await node.advance(1)
            assert "back-off 20s" in node.state("a")["waiting"]["message"]

    asyncio.run(play())


def test_on_failure_leaves_a_container_that_exited_with_zero(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: ends(0)) as node:
            node.create("a", container("train"), restartPolicy="OnFailure")
            await node.advance(60)
            assert node.status("a")["phase"] == "Succeeded"
            assert node.status("a")["containerStatuses"][0]["restartCount"] == 0

    asyncio.run(play())


def test_always_starts_a_container_again_that_exited_with_zero(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: ends(0)) as node:
            node.create("a", container("train"), restartPolicy="Always")
            await node.advance(6)
            assert node.status("a")["phase"] == "Running"
            assert node.status("a")["containerStatuses"][0]["restartCount"] == 1

    asyncio.run(play())


def test_init_containers_run_in_order_before_the_others(tmp_path: Path) -> None:
    async def play() -> None:
        started = []

        def script(spec: ContainerSpec) -> Script:
            started.append(spec.name)
            return Script() if spec.name == "node" else ends(0, seconds=2)

        async with scripted(tmp_path, script) as node:
            inits = [container("x", name="first"), container("x", name="second")]
            node.create("a", container("train"), initContainers=inits)
            await node.settle()
            assert started == ["first"]
            assert node.status("a")["phase"] == "Pending"
            assert node.state("a") == {"waiting": {"reason": "PodInitializing"}}
            assert node.conditions("a")["Initialized"] == ("False", "ContainersNotInitialized")
            await node.advance(2)
            assert started == ["first", "second"]
            await node.advance(2)
            assert started == ["first", "second", "node"]
            assert node.status("a")["phase"] == "Running"
            assert node.conditions("a")["Initialized"] == ("True", "")
            assert [entry["ready"] for entry in node.status("a")["initContainerStatuses"]] == [True, True]

    asyncio.run(play())


def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: ends(4)) as node:
            node.create("a", container("train"), initContainers=[container("x", name="first")])
            await node.advance(5)
            assert node.status("a")["phase"] == "Failed"
            assert node.status("a")["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
            assert "waiting" in node.state("a")

    asyncio.run(play())


def test_an_unknown_image_is_tried_again_with_growing_pauses_until_it_is_there(tmp_path: Path) -> None:
    async def play() -> None:
        images = ImageTable()
        async with scripted(tmp_path, images=images) as node:
            node.create("a", container("train", image="example.invalid/train:1"))
            await node.settle()
            waiting = node.state("a")["waiting"]
            assert waiting["reason"] == "ErrImagePull"
            assert waiting["message"].startswith('failed to pull and unpack image "example.invalid/train:1"')
            assert node.status("a")["phase"] == "Pending"
            await node.advance(1)
            waiting = node.state("a")["waiting"]
            assert waiting["reason"] == "ImagePullBackOff"
            assert waiting["message"].startswith('Back-off pulling image "example.invalid/train:1": ErrImagePull: ')
            await node.advance(10)
            assert node.state("a")["waiting"]["reason"] == "ErrImagePull"
            images.add("example.invalid/train:1", Image())
            await node.advance(20)
            assert node.state("a")["waiting"]["reason"] == "ImagePullBackOff"
            await node.advance(1)
            assert "running" in node.state("a")

    asyncio.run(play())


def test_deletion_sends_sigterm_writes_the_end_and_lets_the_object_go(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(term_seconds=2)) as node:
            node.create("a", container("train"), terminationGracePeriodSeconds=30)
            await node.settle()
            last = []
            node.registry.listen(lambda resource, _, new, __: last.append(new) if resource == PODS and new else None)
            node.registry.delete(PODS, "default", "a")
            await node.advance(1.9)
            assert node.status("a")["phase"] == "Running"
            await node.advance(0.1)
            assert node.pod("a") is None
            assert last[-1]["status"]["phase"] == "Failed"
            terminated = last[-1]["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (terminated["exitCode"], terminated["reason"]) == (143, "Error")

    asyncio.run(play())


def test_what_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(term_seconds=None)) as node:
            node.create("a", container("train"), terminationGracePeriodSeconds=7)
            await node.settle()
            last = []
            node.registry.listen(lambda resource, _, new, __: last.append(new) if resource == PODS and new else None)
            node.registry.delete(PODS, "default", "a")
            await node.advance(6.9)
            assert node.pod("a") is not None
            await node.advance(0.1)
            assert node.pod("a") is None
            assert last[-1]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137

    asyncio.run(play())


def test_a_second_deletion_shortens_the_grace(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(term_seconds=None)) as node:
            node.create("a", container("train"), terminationGracePeriodSeconds=300)
            await node.settle()
            node.registry.delete(PODS, "default", "a")
            await node.advance(10)
            node.registry.delete(PODS, "default", "a", grace_period=15)
            await node.advance(16)
            assert node.pod("a") is None

    asyncio.run(play())


def test_a_pod_that_exits_with_zero_on_sigterm_succeeds(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(term_exit_code=0)) as node:
            node.create("a", container("train"))
            await node.settle()
            phases = []
            node.registry.listen(
                lambda resource, _, new, __: phases.append(new["status"]["phase"]) if resource == PODS and new else None
            )
            node.registry.delete(PODS, "default", "a")
            await node.advance(1)
            assert phases[-1] == "Succeeded"

    asyncio.run(play())


def test_a_pod_that_waits_for_its_image_is_deleted_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, images=ImageTable()) as node:
            node.create("a", container("train", image="nowhere"))
            await node.advance(3)
            node.registry.delete(PODS, "default", "a")
            await node.settle()
            assert node.pod("a") is None
            assert not node.kubelet.workers

    asyncio.run(play())


def test_a_finalizer_keeps_the_object_and_the_kubelet_does_not_start_it_again(tmp_path: Path) -> None:
    async def play() -> None:
        started = []

        def script(spec: ContainerSpec) -> Script:
            started.append(spec.name)
            return Script()

        async with scripted(tmp_path, script) as node:
            pod = node.create("a", container("train"))
            pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
            node.registry.update(PODS, "default", "a", pod)
            await node.settle()
            node.registry.delete(PODS, "default", "a")
            await node.advance(60)
            assert node.status("a")["phase"] == "Failed"
            kept = node.registry.get(PODS, "default", "a")
            kept["metadata"]["finalizers"] = []
            node.registry.update(PODS, "default", "a", kept)
            await node.settle()
            assert node.pod("a") is None
            assert started == ["node"]

    asyncio.run(play())


def test_a_forced_deletion_ends_the_processes_soon_after(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path, lambda _: Script(term_seconds=None)) as node:
            node.create("a", container("train"))
            await node.settle()
            node.registry.delete(PODS, "default", "a", grace_period=0)
            await node.settle()
            assert node.pod("a") is None
            assert len(node.kubelet.workers) == 1
            await node.advance(1)
            assert not node.kubelet.workers

    asyncio.run(play())


def test_the_active_deadline_fails_the_pod(tmp_path: Path) -> None:
    async def play() -> None:
        async with scripted(tmp_path) as node:
            node.create("a", container("train"), activeDeadlineSeconds=10)
            await node.advance(9.9)
            assert node.status("a")["phase"] == "Running"
            await node.advance(1)
            status = node.status("a")
            assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
            assert status["message"] == "Pod was active on the node longer than the specified deadline"
            assert node.state("a")["terminated"]["exitCode"] == 143

    asyncio.run(play())


def test_a_pod_whose_config_map_is_missing_waits_for_it(tmp_path: Path) -> None:
    from airflow_dispatch.localcluster.resources import CONFIGMAPS  # noqa: PLC0415

    async def play() -> None:
        async with scripted(tmp_path) as node:
            volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
            node.create("a", container("train"), volumes=volumes)
            await node.advance(10)
            assert node.state("a") == {"waiting": {"reason": "ContainerCreating"}}
            node.registry.create(CONFIGMAPS, "default", {"metadata": {"name": "settings"}, "data": {"k": "v"}})
            await node.advance(2)
            assert "running" in node.state("a")

    asyncio.run(play())


def test_an_environment_that_refers_to_nothing_is_a_config_error_until_it_is_there(tmp_path: Path) -> None:
    from airflow_dispatch.localcluster.resources import SECRETS  # noqa: PLC0415

    async def play() -> None:
        async with scripted(tmp_path) as node:
            env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "credentials", "key": "token"}}}]
            node.create("a", container("train", env=env))
            await node.settle()
            assert node.state("a")["waiting"] == {
                "reason": "CreateContainerConfigError",
                "message": 'secret "credentials" not found',
            }
            node.registry.create(SECRETS, "default", {"metadata": {"name": "credentials"}, "data": {"token": "eA=="}})
            await node.advance(10)
            assert "running" in node.state("a")

    asyncio.run(play())


@pytest.mark.parametrize("count", [2])
def test_a_pod_fails_only_when_all_of_its_containers_have_ended(tmp_path: Path, count: int) -> None:
    async def play() -> None:
        def script(spec: ContainerSpec) -> Script:
            return ends(1) if spec.name == "node" else ends(0, seconds=20)

        async with scripted(tmp_path, script) as node:
            node.create("a", container("train"), container("x", name="sidecar"))
            await node.advance(5)
            assert node.status("a")["phase"] == "Running"
            assert len(node.status("a")["containerStatuses"]) == count
            await node.advance(15)
            assert node.status("a")["phase"] == "Failed"

    asyncio.run(play())

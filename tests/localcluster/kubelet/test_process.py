"""Pods as real processes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.localcluster.kubelet.process import namespaces_permitted
from airflow_dispatch.localcluster.resources import CONFIGMAPS, PODS, SECRETS
from tests.support.node import Bench, container, processes

NEEDS_NAMESPACES = pytest.mark.skipif(not namespaces_permitted(), reason="mount namespaces are not permitted here")


def sh(script: str, **fields: Any) -> dict[str, Any]:
    return container("sh", "-c", script, **fields)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def printed(node: Bench, name: str, *containers: dict[str, Any], **fields: Any) -> list[str]:
    """What a pod prints until it ends."""
    node.create(name, *containers, **fields)
    await node.until(lambda: node.status(name).get("phase") in ("Succeeded", "Failed"))
    return await node.log(name)


def test_exit_codes_and_signals_are_reported(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            node.create("code", sh("exit 3"))
            node.create("signal", sh("kill -KILL $$$$"))
            node.create("missing", container("no-such-program"))
            for name, code, reason in (("code", 3, "Error"), ("signal", 137, "Error"), ("missing", 128, "StartError")):
                await node.phase(name, "Failed")
                terminated = node.state(name)["terminated"]
                assert (terminated["exitCode"], terminated["reason"]) == (code, reason)
            assert (
                'exec: "no-such-program": executable file not found' in node.state("missing")["terminated"]["message"]
            )

    asyncio.run(play())


def test_nothing_of_the_clusters_environment_reaches_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_PARENT", "leaked")

    async def play() -> None:
        async with processes(tmp_path) as node:
            env = [
                {"name": "FIRST", "value": "1"},
                {"name": "SECOND", "value": "$(FIRST)2"},
                {"name": "ADMISSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example/a']"}}},
            ]
            lines = await printed(node, "a", container("env", env=env), annotations={"example/a": "7"})
            names = {line.partition("=")[0] for line in lines}
            assert {"FIRST=1", "SECOND=12", "ADMISSION=7"} <= set(lines)
            assert names - {"FIRST", "SECOND", "ADMISSION", "PWD", "SHLVL", "_"} <= {
                "PATH",
                "HOME",
                "HOSTNAME",
                "PYTHONUNBUFFERED",
                "PYTHONPATH",
                "AIRFLOW_DISPATCH_LOCAL_HOSTS",
            }

    asyncio.run(play())


def test_the_python_image_is_this_interpreter(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            lines = await printed(node, "a", container("python", "-c", "import sys; print(sys.prefix)"))
            assert lines == [sys.prefix]

    asyncio.run(play())


def test_standard_output_and_error_are_one_log_in_order(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            assert await printed(node, "a", sh("echo one; echo two >&2; printf three")) == ["one", "two", "three"]

    asyncio.run(play())


def test_sigterm_reaches_the_program_and_all_it_started_is_killed(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            script = "trap 'exit 9' TERM; sleep 600 & setsid sleep 600 & echo $(jobs -p); while :; do sleep 0.05; done"
            node.create("a", container("bash", "-c", script))
            await node.phase("a", "Running")
            log = node.kubelet.workers[0].log("node", previous=False)
            assert log is not None
            while not (lines := await node.log("a")):
                await log.changed()
            children = [int(pid) for pid in lines[0].split()]
            assert len(children) == 2
            last = []
            node.registry.listen(lambda resource, _, new, __: last.append(new) if resource == PODS and new else None)
            node.registry.delete(PODS, "default", "a")
            await node.gone("a")
            assert last[-1]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 9
            assert not any(alive(pid) for pid in children)

    asyncio.run(play())


def test_what_ignores_sigterm_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
            node.create("a", sh(script), terminationGracePeriodSeconds=1)
            await node.phase("a", "Running")
            last = []
            node.registry.listen(lambda resource, _, new, __: last.append(new) if resource == PODS and new else None)
            log = node.kubelet.workers[0].log("node", previous=False)
            assert log is not None
            while not await node.log("a"):
                await log.changed()
            node.registry.delete(PODS, "default", "a")
            await node.gone("a")
            assert last[-1]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137

    asyncio.run(play())


def test_a_container_over_its_memory_limit_is_oom_killed(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            hog = "import time; kept = bytearray(200 << 20); time.sleep(600)"
            node.create("a", container("python", "-c", hog, resources={"limits": {"memory": "100Mi"}}))
            await node.phase("a", "Failed")
            terminated = node.state("a")["terminated"]
            assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")

    asyncio.run(play())


def test_a_container_within_its_memory_limit_is_left_alone(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            lines = await printed(node, "a", sh("sleep 0.5; echo done", resources={"limits": {"memory": "100Mi"}}))
            assert lines == ["done"]

    asyncio.run(play())


def test_the_last_words_of_a_container_are_its_message(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            words = sh("echo it broke > /dev/termination-log; exit 1")
            node.create("a", words)
            await node.phase("a", "Failed")
            assert node.state("a")["terminated"]["message"] == "it broke\n"

    if not namespaces_permitted():
        pytest.skip("mount namespaces are not permitted here")
    asyncio.run(play())


@NEEDS_NAMESPACES
def test_volumes_are_where_the_container_mounts_them_and_nowhere_else(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()

    async def play() -> None:
        async with processes(tmp_path / "cluster") as node:
            node.registry.create(CONFIGMAPS, "default", {"metadata": {"name": "settings"}, "data": {"rate": "0.1"}})
            node.registry.create(SECRETS, "default", {"metadata": {"name": "key"}, "data": {"token": "c2VjcmV0"}})
            volumes = [
                {"name": "scratch", "emptyDir": {}},
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "key", "secret": {"secretName": "key"}},
                {"name": "local", "hostPath": {"path": str(local)}},
                {
                    "name": "info",
                    "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
                },
            ]
            mounts = [
                {"name": "scratch", "mountPath": "/scratch"},
                {"name": "settings", "mountPath": "/etc/settings", "readOnly": True},
                {"name": "key", "mountPath": "/var/run/key/deep", "readOnly": True},
                {"name": "local", "mountPath": "/opt/local"},
                {"name": "info", "mountPath": "/scratch/info"},
            ]
            script = (
                "echo kept > /opt/local/result; echo x > /scratch/y; cat /etc/settings/rate; echo; "
                "cat /var/run/key/deep/token; echo; cat /scratch/info/name; echo; "
                "touch /etc/settings/new 2>/dev/null || echo read-only"
            )
            lines = await printed(node, "a", sh(script, volumeMounts=mounts), volumes=volumes)
            assert lines == ["0.1", "secret", "a", "read-only"]

    asyncio.run(play())
    assert (local / "result").read_text() == "kept\n"
    for path in ("/scratch", "/etc/settings", "/var/run/key", "/opt/local"):
        assert not Path(path).exists()


@NEEDS_NAMESPACES
def test_an_empty_dir_is_shared_by_the_containers_of_a_pod(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            mounts = [{"name": "shared", "mountPath": "/shared"}]
            lines = await printed(
                node,
                "a",
                sh("cat /shared/word", volumeMounts=mounts),
                initContainers=[sh("echo hello > /shared/word", name="first", volumeMounts=mounts)],
                volumes=[{"name": "shared", "emptyDir": {}}],
            )
            assert lines == ["hello"]

    asyncio.run(play())


LOOK_UP = """
import socket, time
while True:
    try:
        print(socket.gethostbyname("js-0-1.js"), socket.gethostname())
        break
    except OSError:
        time.sleep(0.05)
"""


@pytest.mark.parametrize("namespaces", [pytest.param(True, marks=NEEDS_NAMESPACES), False])
def test_a_pods_name_resolves_in_python_also_when_it_comes_later(tmp_path: Path, *, namespaces: bool) -> None:
    async def play() -> None:
        async with processes(tmp_path, namespaces=namespaces) as node:
            node.create("a", container("python", "-c", LOOK_UP), hostname="js-0-0", subdomain="js")
            await node.phase("a", "Running")
            node.create("b", container("sleep", "600"), hostname="js-0-1", subdomain="js")
            await node.phase("a", "Succeeded")
            assert await node.log("a") == [f"{node.status('b')['podIP']} js-0-0"]

    asyncio.run(play())


@NEEDS_NAMESPACES
def test_names_resolve_in_programs_that_are_not_python(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            script = "getent hosts js-0-0.js.default.svc.cluster.local; hostname"
            node.create("a", sh(script), hostname="js-0-0", subdomain="js")
            await node.phase("a", "Succeeded")
            address, name = await node.log("a")
            assert address.split()[0] == node.status("a")["podIP"]
            assert name == "js-0-0"

    asyncio.run(play())


def test_two_pods_listen_on_one_port_at_their_own_addresses(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path) as node:
            serve = (
                "import os, socket, time; s = socket.create_server((os.environ['IP'], 29500)); "
                "print(s.getsockname()[0]); time.sleep(600)"
            )
            env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
            for name in ("a", "b"):
                node.create(name, container("python", "-c", serve, env=env))
            for name in ("a", "b"):
                await node.phase(name, "Running")
                worker = next(worker for worker in node.kubelet.workers if worker.name == name)
                log = worker.log("node", previous=False)
                assert log is not None
                while not (lines := await node.log(name)):
                    await log.changed()
                assert lines == [node.status(name)["podIP"]]

    asyncio.run(play())


def test_without_namespaces_a_volume_elsewhere_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    async def play() -> None:
        async with processes(tmp_path, namespaces=False) as node:
            mounts = [{"name": "v", "mountPath": "/data"}]
            node.create("a", sh("true", volumeMounts=mounts), volumes=[{"name": "v", "emptyDir": {}}])
            await node.until(lambda: node.status("a").get("containerStatuses") and "message" in str(node.state("a")))
            waiting = node.state("a")["waiting"]
            assert waiting["reason"] == "CreateContainerConfigError"
            assert "no mount namespaces" in waiting["message"]

    asyncio.run(play())


CLUSTER = """
import asyncio, sys
from pathlib import Path
from tests.support.node import container, processes
async def main():
    async with processes(Path(sys.argv[1])) as node:
        node.create("a", container("bash", "-c", "setsid sleep 600 & echo $$$$ $! ; wait"))
        await node.phase("a", "Running")
        log = node.kubelet.workers[0].log("node", previous=False)
        while not (lines := await node.log("a")):
            await log.changed()
        print(lines[0], flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_the_cluster(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", CLUSTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as cluster:
        assert cluster.stdout is not None
        try:
            pids = [int(pid) for pid in cluster.stdout.readline().split()]
            watched = [os.pidfd_open(pid) for pid in pids]
        finally:
            cluster.send_signal(number)
        cluster.wait()
        assert len(watched) == 2
        for descriptor in watched:
            ended, _, _ = select.select([descriptor], [], [], 20)
            assert ended
            os.close(descriptor)

"""The pure parts: quantities, fields, expansion, names, addresses, logs, phases."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.kubelet import ClusterNetwork, PodNames
from airflow_dispatch.localcluster.kubelet.env import Place, container_env, expand
from airflow_dispatch.localcluster.kubelet.fields import FieldError, container_resource, pod_field
from airflow_dispatch.localcluster.kubelet.logs import ContainerLog, read_log
from airflow_dispatch.localcluster.kubelet.quantity import parse_quantity, scaled
from airflow_dispatch.localcluster.kubelet.status import ContainerState, phase_of, pod_status
from airflow_dispatch.localcluster.resources import Resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ml",
        "uid": f"uid-{name}",
        "labels": {"rank": "1"},
        "annotations": {"example/a": 'say "hi"'},
    }
    return {"metadata": metadata, "spec": {"nodeName": "node-0", "containers": [{"name": "node"}], **spec}}


@pytest.mark.parametrize(
    ("text", "number"), [("500m", "0.5"), ("1Gi", str(1 << 30)), ("2e3", "2000"), ("1.5k", "1500"), ("7", "7")]
)
def test_quantities_are_numbers(text: str, number: str) -> None:
    assert float(parse_quantity(text)) == float(number)


@pytest.mark.parametrize("text", ["", "1GiB", "abc", "1 Gi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no resource quantity"):
        parse_quantity(text)


def test_a_resource_is_shown_in_units_of_its_divisor_rounded_up() -> None:
    assert scaled("1Gi", "1Mi") == 1024
    assert scaled("1500m", "1") == 2


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "a"),
        ("metadata.namespace", "ml"),
        ("metadata.uid", "uid-a"),
        ("metadata.labels['rank']", "1"),
        ("metadata.labels['absent']", ""),
        ("metadata.annotations['example/a']", 'say "hi"'),
        ("metadata.annotations", 'example/a="say \\"hi\\""'),
        ("spec.nodeName", "node-0"),
        ("status.podIP", "127.64.1.2"),
        ("status.hostIP", "127.64.1.1"),
    ],
)
def test_the_downward_api_shows_the_fields_of_a_pod(path: str, value: str) -> None:
    assert pod_field(pod(), path, pod_ip="127.64.1.2", host_ip="127.64.1.1") == value


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(FieldError, match=r"spec\.hostname"):
        pod_field(pod(), "spec.hostname", pod_ip="", host_ip="")


def test_a_limit_that_is_not_set_is_what_the_node_has() -> None:
    limits = pod(containers=[{"name": "node", "resources": {"limits": {"cpu": "500m"}}}])
    allocatable = {"cpu": "16", "memory": "64Gi"}
    reference = {"resource": "limits.cpu"}
    assert container_resource(limits, reference, container="node", allocatable=allocatable) == "1"
    reference = {"resource": "limits.memory", "divisor": "1Gi"}
    assert container_resource(limits, reference, container="node", allocatable=allocatable) == "64"


def test_references_are_expanded_and_unknown_ones_stay() -> None:
    assert expand("$(A)-$(B)-$$(A)-$A", {"A": "1"}) == "1-$(B)-$(A)-$A"


def test_later_variables_see_earlier_ones_and_win_over_env_from() -> None:
    async def read(resource: Resource, name: str) -> dict[str, bytes]:
        if name == "absent":
            raise ApiError(404, "NotFound", f"{resource.plural} not found")
        return {"A": b"from", "B": b"kept"}

    container = {
        "name": "node",
        "envFrom": [
            {"prefix": "P_", "configMapRef": {"name": "settings"}},
            {"configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "absent", "optional": True}},
        ],
        "env": [
            {"name": "A", "value": "own"},
            {"name": "C", "value": "$(A)/$(B)/$(P_A)"},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k", "optional": True}}},
        ],
    }
    env = asyncio.run(container_env(pod(), container, Place("", "", {}), read))
    assert env == {"P_A": "from", "P_B": "kept", "A": "own", "B": "kept", "C": "own/kept/from"}


def test_a_hosts_file_has_the_pods_of_its_namespace_and_is_rewritten_in_place(tmp_path: Path) -> None:
    names = PodNames()
    file = tmp_path / "hosts"
    names.open_file(pod("a", hostname="js-0-0", subdomain="js"), "127.64.1.2", file)
    inode = file.stat().st_ino
    names.open_file(pod("b", hostname="js-0-1", subdomain="js"), "127.64.2.2", tmp_path / "other")
    own, peer = file.read_text().splitlines()[3:]
    assert own == "127.64.1.2\tjs-0-0.js.ml.svc.cluster.local js-0-0.js.ml.svc js-0-0.js.ml js-0-0.js js-0-0"
    assert peer == "127.64.2.2\tjs-0-1.js.ml.svc.cluster.local js-0-1.js.ml.svc js-0-1.js.ml js-0-1.js"
    names.forget(pod("b"))
    assert file.read_text().splitlines()[3:] == [own]
    assert file.stat().st_ino == inode


def test_a_name_belongs_to_the_newest_pod_that_has_it(tmp_path: Path) -> None:
    names = PodNames()
    names.open_file(pod("watcher"), "127.64.1.9", tmp_path / "hosts")
    names.publish(pod("old", hostname="js-0-0", subdomain="js"), "127.64.1.2")
    names.publish(pod("new", hostname="js-0-0", subdomain="js"), "127.64.1.3")
    lines = [line for line in (tmp_path / "hosts").read_text().splitlines() if " js-0-0.js" in line]
    assert [line.split()[0] for line in lines] == ["127.64.1.3", "127.64.1.2"]


def test_two_clusters_have_different_networks_and_addresses_are_reused_last() -> None:
    first, second = ClusterNetwork(), ClusterNetwork()
    try:
        assert first.node(0).host != second.node(0).host
        pool = first.node(1)
        address = pool.take()
        pool.give_back(address)
        assert pool.take() != address
    finally:
        first.close()
        second.close()


def test_lines_that_arrive_together_have_times_of_their_own(tmp_path: Path) -> None:
    async def play() -> list[datetime]:
        log = ContainerLog(tmp_path / "log")
        log.write(b"one\ntwo\n", NOW)
        log.write(b"three\n", NOW)
        log.close(NOW)
        return [line.time async for line in read_log(log, follow=False) if line is not None]

    assert asyncio.run(play()) == [NOW + timedelta(microseconds=number) for number in range(3)]


def test_a_follower_gets_what_is_written_until_the_log_is_closed(tmp_path: Path) -> None:
    async def play() -> None:
        log = ContainerLog(tmp_path / "log")
        log.write(b"one\ntw", NOW)
        got: list[bytes | None] = []

        came = asyncio.Event()

        async def follow() -> None:
            async for line in read_log(log, follow=True):
                got.append(None if line is None else line.text)
                if len(got) > 1:
                    came.set()

        following = asyncio.create_task(follow())
        await came.wait()
        assert got == [b"one", None]
        came.clear()
        log.write(b"o\nthr", NOW)
        await came.wait()
        assert got == [b"one", None, b"two"]
        log.write(b"ee", NOW)
        log.close(NOW)
        await following
        assert got == [b"one", None, b"two", b"three"]

    asyncio.run(play())


def terminated(code: int, *, init: bool = False) -> ContainerState:
    return ContainerState("c", "image", init=init, state={"terminated": {"exitCode": code}})


def running() -> ContainerState:
    return ContainerState("c", "image", state={"running": {}}, id="x")


@pytest.mark.parametrize(
    ("containers", "policy", "phase"),
    [
        ([ContainerState("c", "image")], "Never", "Pending"),
        ([running()], "Never", "Running"),
        ([running(), terminated(1)], "Never", "Running"),
        ([terminated(0), terminated(0)], "Never", "Succeeded"),
        ([terminated(0), terminated(1)], "Never", "Failed"),
        ([terminated(1)], "OnFailure", "Running"),
        ([terminated(0)], "OnFailure", "Succeeded"),
        ([terminated(0)], "Always", "Running"),
        ([terminated(1, init=True), ContainerState("c", "image")], "Never", "Failed"),
        ([terminated(1, init=True), ContainerState("c", "image")], "OnFailure", "Pending"),
    ],
)
def test_the_phase_follows_from_the_containers(containers: list[ContainerState], policy: str, phase: str) -> None:
    assert phase_of(containers, policy) == phase


def test_a_conditions_time_changes_with_its_status_alone_and_its_old_reason_goes() -> None:
    waiting = ContainerState("node", "image", state={"waiting": {"reason": "ContainerCreating"}})
    before = pod_status({}, [waiting], "Pending", now=NOW)
    later = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    after = pod_status(before, [running()], "Running", now=later)
    conditions = {entry["type"]: entry for entry in after["conditions"]}
    assert conditions["Initialized"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert conditions["Ready"]["lastTransitionTime"] == "2026-01-01T00:01:00Z"
    assert conditions["Ready"]["reason"] is None

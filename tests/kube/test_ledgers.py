"""Ledgers on a server: written when a pod vanishes and only then, by whoever watches, whatever the server says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Conflict, OutcomeUnknown, Unreachable
from airflow_dispatch.core.ledger import Confirmation, Entry, Ledger
from airflow_dispatch.kube import ledgers
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import Hub
from airflow_dispatch.kube.sharing import shared_hub
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import WallClock
from airflow_dispatch.localcluster.resources import CONFIGMAPS, NODES, PODS, TRAINJOBS
from tests.support.builders import JOB_ID, NAME, at
from tests.support.proxy import counting_proxy

NAMESPACE = "default"
LEDGER = names.ledger_name(JOB_ID)
CONFIRMED = Confirmation(who="ana", why="the machine is off", at=at(0))
WATCHES: list[tuple[str, list[str]]] = [
    ("trainer.kubeflow.org", ["*"]),
    ("jobset.x-k8s.io", ["*"]),
    ("batch", ["*"]),
    ("", ["pods", "nodes"]),
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last words of a hub are longer than a test may take: one that has been refused is not to wait for them."""
    quick = {"_RACE": 0.001, "_RETRY": 0.001, "_REFUSED": 0.002, "_READ_AGAIN": 0.01, "_LAST_WORDS": 60}
    for name, seconds in quick.items():
        monkeypatch.setattr(ledgers, f"{name}_SECONDS", seconds)


class Played:
    """A server on which a pod runs, until the test takes its object away."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.registry = server.registry
        self.config = ClusterConfig(kubeconfig=str(server.kubeconfig()))
        body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": NAME},
            "spec": {"runtimeRef": {"name": "torch"}, "suspend": True},
        }
        self.registry.create(TRAINJOBS, NAMESPACE, body)
        node = self.registry.create(NODES, None, {"metadata": {"name": "node-0"}})
        node["status"] = {"nodeInfo": {"bootID": "boot-1"}}
        self.node = self.registry.update(NODES, None, "node-0", node, subresource="status")

    def run_pod(self, name: str) -> str:
        """A pod of the job runs on the Node; its UID."""
        labels = {names.LABEL_JOBSET_NAME: NAME}
        metadata = {"name": name, "labels": labels, "annotations": {names.ANNOTATION_ADMISSION: "1"}}
        spec = {"nodeName": "node-0", "containers": [{"name": "node", "image": "localhost/python:3"}]}
        made = self.registry.create(PODS, NAMESPACE, {"metadata": metadata, "spec": spec})
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        status = {"name": "node", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        made["status"] = {"phase": "Running", "containerStatuses": [status]}
        self.registry.update(PODS, NAMESPACE, name, made, subresource="status")
        return str(made["metadata"]["uid"])

    def force_delete(self, name: str) -> None:
        self.registry.delete(PODS, NAMESPACE, name, grace_period=0)

    def ledger(self) -> dict[str, str]:
        """What the ConfigMap holds; empty when there is none."""
        try:
            return dict(self.registry.get(CONFIGMAPS, NAMESPACE, LEDGER).get("data") or {})
        except ApiError:
            return {}

    def user(self, name: str, *, verbs: list[str]) -> ClusterConfig:
        """Somebody who may watch, and do so much with ConfigMaps."""
        rules = [
            {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]}
            for group, resources in WATCHES
        ]
        rules.append({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs})
        return ClusterConfig(kubeconfig=str(self.server.add_user(name, rules)))


@contextlib.asynccontextmanager
async def played(folder: Path) -> AsyncIterator[Played]:
    async with asyncio.timeout(30), ApiServer(Registry(WallClock()), folder) as server:
        yield Played(server)


async def until(condition: Callable[[], object]) -> None:
    """Gives the event loop its turns until the condition holds; the caller's timeout bounds it."""
    while not condition():  # noqa: ASYNC110 (what server and hub do in this loop is not announced)
        await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def watching(config: ClusterConfig, *pods: str) -> AsyncIterator[Hub]:
    """A hub that has seen these pods run."""
    async with shared_hub(config, NAMESPACE) as hub:
        await hub.synced()
        await until(lambda: set(pods) <= running(hub))
        yield hub


def running(hub: Hub) -> set[str]:
    snapshot = hub.snapshot(NAME)
    pods = snapshot.pods if snapshot is not None else ()
    return {pod.metadata.name for pod in pods if pod.status and pod.status.phase == "Running"}


def entry(pod: str, **fields: Any) -> Entry:
    return Entry(**{"train_job": NAME, "pod": pod, "node": "node-0", "admission": 1, **fields})


async def read(config: ClusterConfig) -> Ledger:
    async with await KubeClient.connect(config) as client:
        return await ledgers.read(client, NAMESPACE, JOB_ID)


def test_a_pod_that_vanishes_is_written_with_its_machine_and_nothing_is_written_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            played(tmp_path) as cluster,
            counting_proxy(cluster.server.kubeconfig(), tmp_path) as proxy,
            watching(ClusterConfig(kubeconfig=str(proxy.kubeconfig))) as hub,
        ):
            uid = cluster.run_pod("a")
            await until(lambda: running(hub) == {"a"})
            assert proxy.requests["GET configmaps"] == 0
            cluster.force_delete("a")
            await until(cluster.ledger)
            found = await read(cluster.config)
            machine = {"node_uid": cluster.node["metadata"]["uid"], "boot_id": "boot-1"}
            written = found.entries[uid].vanished_at
            assert written is not None
            assert found.entries == {uid: entry("a", **machine, vanished_at=written)}
            assert proxy.requests["POST configmaps"] == 1
            assert cluster.registry.get(CONFIGMAPS, NAMESPACE, LEDGER)["metadata"]["labels"] == {
                names.LABEL_JOB_ID: JOB_ID
            }

    asyncio.run(main())


def test_pods_that_end_as_they_should_cost_no_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            played(tmp_path) as cluster,
            counting_proxy(cluster.server.kubeconfig(), tmp_path) as proxy,
            watching(ClusterConfig(kubeconfig=str(proxy.kubeconfig))) as hub,
        ):
            cluster.run_pod("a")
            await until(lambda: running(hub) == {"a"})
            body = cluster.registry.get(PODS, NAMESPACE, "a")
            state = {"terminated": {"exitCode": 143, "finishedAt": "2026-01-01T00:00:09Z"}}
            body["status"]["containerStatuses"][0]["state"] = state
            body["status"]["phase"] = "Failed"
            cluster.registry.update(PODS, NAMESPACE, "a", body, subresource="status")
            cluster.force_delete("a")
            await until(lambda: len(hub.store.snapshot(NAME).captured) == 1)  # type: ignore[union-attr]
        assert {key for key in proxy.requests if "configmaps" in key} == set()

    asyncio.run(main())


def test_two_hubs_that_see_the_same_write_each_pod_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster:
            uids = {name: cluster.run_pod(name) for name in ("a", "b", "c")}
            other = cluster.user("other", verbs=["get", "create", "update"])
            async with watching(cluster.config, *uids) as first, watching(other, *uids) as second:
                assert first is not second
                for name in uids:
                    cluster.force_delete(name)
                await until(lambda: set(cluster.ledger()) == set(uids.values()))
            version = cluster.registry.get(CONFIGMAPS, NAMESPACE, LEDGER)["metadata"]["resourceVersion"]
            async with watching(cluster.config):
                await asyncio.sleep(0)
            assert cluster.registry.get(CONFIGMAPS, NAMESPACE, LEDGER)["metadata"]["resourceVersion"] == version

    asyncio.run(main())


def test_what_another_wrote_between_reading_and_writing_is_kept(tmp_path: Path) -> None:
    class Raced(KubeClient):
        raced = 0

        async def replace(self, resource: Any, body: Mapping[str, Any]) -> dict[str, Any]:
            await self._race()
            return await super().replace(resource, body)

        async def create(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            await self._race()
            return await super().create(*args, **kwargs)

        async def _race(self) -> None:
            """Somebody is quicker, twice."""
            self.raced += 1
            if self.raced <= 2:
                async with await KubeClient.connect(self.config) as quicker:
                    await ledgers.remember(quicker, NAMESPACE, JOB_ID, {f"other-{self.raced}": entry("other")})

    async def main() -> None:
        async with played(tmp_path) as cluster, await Raced.connect(cluster.config) as client:
            for _ in range(2):
                with pytest.raises(Conflict):
                    await ledgers.remember(client, NAMESPACE, JOB_ID, {"uid-a": entry("a")})
            await ledgers.remember(client, NAMESPACE, JOB_ID, {"uid-a": entry("a")})
            assert set(cluster.ledger()) == {"other-1", "other-2", "uid-a"}

    asyncio.run(main())


def test_a_list_that_no_longer_has_the_pod_writes_it_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster:
            uid = cluster.run_pod("a")
            async with watching(cluster.config, "a"):
                cluster.registry.compact()
                cluster.force_delete("a")
                cluster.registry.compact()
                await until(lambda: set(cluster.ledger()) == {uid})

    asyncio.run(main())


@pytest.mark.parametrize("verbs", [[], ["get"]], ids=["may not read", "may not write"])
def test_without_permission_it_is_said_once_and_kept_in_memory(
    verbs: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster:
            cluster.run_pod("a")
            cluster.run_pod("b")
            config = cluster.user("poor", verbs=verbs)
            async with watching(config, "a", "b") as hub:
                cluster.force_delete("a")
                await until(lambda: "no permission" in caplog.text)
                cluster.force_delete("b")
                await until(lambda: not running(hub))
                for _ in range(50):  # more repetitions of the refused write than any log should tell
                    await asyncio.sleep(0.002)
                snapshot = hub.snapshot(NAME)
                assert snapshot is not None
                assert sorted(each.pod.metadata.name for each in snapshot.captured) == ["a", "b"]
                assert not hub.failed

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records if "vanished" in record.getMessage()]
    assert len([line for line in said if "no permission" in line]) == 1
    assert said[0].startswith(
        f"pods that vanished while they ran can't be noted in ConfigMap {NAMESPACE}/{LEDGER}, so only this process "
        "knows that they may still run: a on node-0: "
    )
    assert f"no permission to {'create' if verbs else 'get'} configmaps" in said[0]


def test_what_could_not_be_written_is_written_once_it_can_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster:
            uid = cluster.run_pod("a")
            async with watching(cluster.user("updater", verbs=["get", "update"]), "a"):
                cluster.force_delete("a")
                await until(lambda: "no permission to create configmaps" in caplog.text)
                assert cluster.ledger() == {}
                cluster.registry.create(CONFIGMAPS, NAMESPACE, {"metadata": {"name": LEDGER}})
                await until(lambda: set(cluster.ledger()) == {uid})

    asyncio.run(main())


@pytest.mark.parametrize(
    "failure", [Unreachable("HTTP 500"), Unreachable("HTTP 429", 0.001), OutcomeUnknown("the answer was lost")]
)
def test_a_server_that_fails_is_asked_again(failure: Exception, tmp_path: Path) -> None:
    class Failing(KubeClient):
        failures = 0

        async def create(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            self.failures += 1
            if self.failures == 1:
                raise failure
            if self.failures == 2:
                await super().create(*args, **kwargs)
                raise OutcomeUnknown("the answer was lost")
            return await super().create(*args, **kwargs)

    async def main() -> None:
        async with played(tmp_path) as cluster, await Failing.connect(cluster.config) as client:
            taken: list[Ledger] = []

            def take(found: Ledger) -> bool:
                taken.append(found)
                return True

            writer = ledgers.LedgerWriter(client, NAMESPACE, take)
            running = asyncio.create_task(writer.run())
            writer.add({JOB_ID: {"uid-a": entry("a")}})
            await until(lambda: taken)
            assert (client.failures, set(cluster.ledger())) == (2, {"uid-a"})
            running.cancel()
            await asyncio.wait({running})

    asyncio.run(main())


def test_a_hub_that_ends_writes_what_it_has_seen_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster:
            uid = cluster.run_pod("a")
            async with watching(cluster.config, "a") as hub:
                cluster.force_delete("a")
                await until(lambda: not running(hub))
            assert set(cluster.ledger()) == {uid}

    asyncio.run(main())


def test_a_confirmation_reaches_those_who_watch(tmp_path: Path) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster:
            uid = cluster.run_pod("a")
            async with watching(cluster.config, "a") as hub, await KubeClient.connect(cluster.config) as client:
                cluster.force_delete("a")
                await until(lambda: [each.pod.metadata.uid for each in hub.snapshot(NAME).vanished] == [uid])  # type: ignore[union-attr]
                assert await ledgers.confirm(client, NAMESPACE, JOB_ID, CONFIRMED) == ("a on node-0",)
                await until(lambda: hub.snapshot(NAME).confirmed == {uid})  # type: ignore[union-attr]

    asyncio.run(main())


def test_nobody_reads_on_for_a_job_that_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            played(tmp_path) as cluster,
            counting_proxy(cluster.server.kubeconfig(), tmp_path) as proxy,
        ):
            cluster.run_pod("a")
            async with watching(ClusterConfig(kubeconfig=str(proxy.kubeconfig)), "a") as hub:
                cluster.force_delete("a")
                await until(lambda: hub.snapshot(NAME) and hub.snapshot(NAME).vanished)  # type: ignore[union-attr]
                cluster.registry.delete(TRAINJOBS, NAMESPACE, NAME)
                await until(lambda: not hub._ledgers._unconfirmed)
                assert hub.store._ledgers == {}

    asyncio.run(main())


def test_what_waits_to_be_written_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ledgers, "PENDING", 2)

    async def main() -> None:
        async with played(tmp_path) as cluster, await KubeClient.connect(cluster.config) as client:
            writer = ledgers.LedgerWriter(client, NAMESPACE, lambda _: True)
            writer.add({JOB_ID: {f"uid-{number}": entry(f"p{number}") for number in range(3)}})
            assert "1 vanished pods are forgotten" in caplog.text
            await writer.close()
            assert set(cluster.ledger()) == {"uid-1", "uid-2"}

    asyncio.run(main())


def test_what_was_edited_by_hand_is_added_to_and_confirmed_as_it_stands(tmp_path: Path) -> None:
    async def main() -> None:
        async with played(tmp_path) as cluster, await KubeClient.connect(cluster.config) as client:
            body = {"metadata": {"name": LEDGER}, "data": {"x": "?"}, "binaryData": {"y": "AA=="}}
            cluster.registry.create(CONFIGMAPS, NAMESPACE, body)
            found = await ledgers.remember(client, NAMESPACE, JOB_ID, {"uid-a": entry("a")})
            assert (set(found.entries), set(found.unreadable)) == ({"uid-a"}, {"x", "y"})
            done = await ledgers.confirm(client, NAMESPACE, JOB_ID, CONFIRMED)
            assert sorted(done) == ["a on node-0", "entry x", "entry y"]
            again = await ledgers.read(client, NAMESPACE, JOB_ID)
            assert (again.open, again.unreadable) == ({}, {})
            assert "binaryData" not in cluster.registry.get(
                CONFIGMAPS, NAMESPACE, LEDGER
            )  # a key may stand in one alone
            assert await ledgers.confirm(client, NAMESPACE, "01K6NJRFAE13R8H0C3SWZGBJ7S", CONFIRMED) == ()

    asyncio.run(main())

"""What a ledger of vanished pods keeps from being admitted, over HTTP, and how an operator ends that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Forbidden, InvalidJob, OutcomeUnknown, PodsRemain, Refused, Unreachable
from airflow_dispatch.core.ledger import Entry
from airflow_dispatch.kube import ledgers
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster.resources import CONFIGMAPS, NODES, TRAINJOBS
from tests.support.cluster import JOB_ID, NAMESPACE, Cluster, cluster, job

NAME = names.object_name(JOB_ID, 1)
SECOND = names.object_name(JOB_ID, 2)
LEDGER = names.ledger_name(JOB_ID)
VANISHED = "a on node-0 (vanished, Ready=Unknown)"


async def remember(running: Cluster, *, of: str = NAME, **machine: Any) -> None:
    """A pod has vanished from a Node, which is there unless it was there before."""
    if not any(each["metadata"]["name"] == "node-0" for each in running.registry.list(NODES).items):
        running.registry.create(NODES, None, {"metadata": {"name": "node-0"}})
    entry = Entry(train_job=of, pod="a", node="node-0", admission=1, **machine)
    await ledgers.remember(running.client, NAMESPACE, JOB_ID, {"uid-a": entry})


def kept(running: Cluster) -> dict[str, Any]:
    return {key: json.loads(text) for key, text in running.registry.get(CONFIGMAPS, NAMESPACE, LEDGER)["data"].items()}


async def held(running: Cluster) -> None:
    """A submission that was opened and is held, of which the controllers have made nothing."""
    await running.adapter.start(job(), submission=1, attempt=1)
    await running.adapter.hold(NAME, instance=1, who="me", reason="why")
    await running.adapter.open(NAME)


def test_a_vanished_pod_keeps_its_submission_from_being_opened_and_released(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            await remember(running)
            before = running.registry.get(TRAINJOBS, NAMESPACE, NAME)
            with pytest.raises(PodsRemain, match="the previous execution may still run") as caught:
                await running.adapter.release(NAME, instance=1)
            assert caught.value.remaining == (VANISHED,)
            assert running.registry.get(TRAINJOBS, NAMESPACE, NAME) == before
            running.registry.delete(NODES, None, "node-0")
            released = await running.adapter.release(NAME, instance=1)
            assert released.hold_instance == 0

    asyncio.run(run())


@pytest.mark.parametrize("of", [NAME, SECOND], ids=["its own", "another submission's"])
def test_a_vanished_pod_of_any_submission_keeps_the_next_from_being_opened(of: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            started = await running.adapter.start(job(), submission=2, attempt=2)
            await remember(running, of=of)
            with pytest.raises(PodsRemain) as caught:
                await running.adapter.open(SECOND, uid=started.uid)
            assert caught.value.remaining == (VANISHED,)
            assert await running.adapter.confirm_ceased(JOB_ID, who="ana", reason="the machine is off") == (
                "a on node-0",
            )
            opened = await running.adapter.open(SECOND, uid=started.uid)
            assert opened.state == "running"

    asyncio.run(run())


def test_a_node_of_the_name_that_is_another_settles_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            await remember(running, node_uid="the one before")
            await running.adapter.release(NAME, instance=1)

    asyncio.run(run())


def test_what_reads_an_object_says_what_has_vanished(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            await remember(running)
            inspected = await running.adapter.inspect(NAME)
            assert inspected is not None
            assert inspected.cause.detail.endswith(f"remaining pods: {VANISHED}")
            (found,) = await running.adapter.find(JOB_ID)
            assert found == inspected
            assert await running.adapter.ceased(NAME) is False
            await running.adapter.confirm_ceased(NAME, who="ana", reason="off")
            assert await running.adapter.ceased(NAME) is True
            inspected = await running.adapter.inspect(NAME)
            assert inspected is not None
            assert "remaining pods" not in inspected.cause.detail

    asyncio.run(run())


def test_a_confirmation_says_who_why_and_when_and_keeps_the_entry(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await remember(running, node_uid="n", boot_id="b")
            before = kept(running)["uid-a"]
            done = await running.adapter.confirm_ceased(JOB_ID.lower(), who=" ana ", reason="the machine is off")
            assert done == ("a on node-0",)
            after = kept(running)["uid-a"]
            said = after.pop("confirmed")
            assert after == before
            assert (said["who"], said["why"]) == ("ana", "the machine is off")
            assert said["at"].endswith("Z")

    asyncio.run(run())


def test_there_must_be_something_to_confirm_and_somebody_who_does(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            with pytest.raises(Refused, match=f"{NAMESPACE}/{LEDGER}: there is nothing to confirm"):
                await running.adapter.confirm_ceased(JOB_ID, who="ana", reason="off")
            await remember(running)
            for who, reason in (("", "off"), ("ana", " ")):
                with pytest.raises(Refused, match="who gives it, and how they know"):
                    await running.adapter.confirm_ceased(JOB_ID, who=who, reason=reason)
            with pytest.raises(InvalidJob, match="is not a ULID"):
                await running.adapter.confirm_ceased("nobody", who="ana", reason="off")
            await running.adapter.confirm_ceased(JOB_ID, who="ana", reason="off")
            with pytest.raises(Refused, match="nothing to confirm"):
                await running.adapter.confirm_ceased(JOB_ID, who="bob", reason="off")
            assert kept(running)["uid-a"]["confirmed"]["who"] == "ana"

    asyncio.run(run())


def test_a_ledger_that_was_edited_into_nonsense_blocks_and_says_what_to_do(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            running.registry.create(CONFIGMAPS, NAMESPACE, {"metadata": {"name": LEDGER}, "data": {"odd": "{"}})
            with pytest.raises(PodsRemain) as caught:
                await running.adapter.release(NAME, instance=1)
            (problem,) = caught.value.remaining
            assert problem.startswith(f"entry odd of ConfigMap {NAMESPACE}/{LEDGER} (it can't be read: ")
            assert f"airflow-dispatch confirm-ceased {JOB_ID}" in problem
            assert await running.adapter.confirm_ceased(JOB_ID, who="ana", reason="looked") == ("entry odd",)
            await running.adapter.release(NAME, instance=1)

    asyncio.run(run())


def test_what_admits_needs_to_read_the_ledger(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as running:
            await held(running)
            groups = ["trainer.kubeflow.org", "jobset.x-k8s.io", "batch"]
            rules: list[dict[str, Any]] = [
                {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["pods", "nodes", "events"], "verbs": ["*"]},
            ]
            kubeconfig = running.add_user("poor", rules)
            async with await KubeClient.connect(ClusterConfig(kubeconfig=str(kubeconfig))) as client:
                with pytest.raises(Forbidden, match="no permission to get configmaps"):
                    await Adapter(client, NAMESPACE).release(NAME, instance=1)

    asyncio.run(run())


@pytest.mark.parametrize(
    "failure", [Unreachable("HTTP 500"), OutcomeUnknown("the answer was lost")], ids=["refused", "lost answer"]
)
def test_a_confirmation_whose_write_fails_is_made_all_the_same(failure: Exception, tmp_path: Path) -> None:
    class Failing(KubeClient):
        failures = 0

        async def replace(self, resource: Any, body: Mapping[str, Any]) -> dict[str, Any]:
            self.failures += 1
            if self.failures == 1 and isinstance(failure, OutcomeUnknown):
                await super().replace(resource, body)
            if self.failures == 1:
                raise failure
            return await super().replace(resource, body)

    async def run() -> None:
        async with cluster(tmp_path) as running, await Failing.connect(running.client.config) as client:
            await remember(running)
            adapter = Adapter(client, NAMESPACE)
            assert await adapter.confirm_ceased(JOB_ID, who="ana", reason="off") == ("a on node-0",)
            assert kept(running)["uid-a"]["confirmed"]["who"] == "ana"

    asyncio.run(run())

"""What preflight says of clocks and versions: where a local cluster can't be made to differ."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from airflow_dispatch.adapter.installation import clock_finding, look_at_installation
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig

NOW = datetime(2026, 1, 1, 12, 0, 30, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("seconds", [-5, 0, 5])
def test_clocks_that_differ_by_less_than_a_rule_could_notice_are_well(seconds: int) -> None:
    server = (NOW + timedelta(seconds=seconds)).replace(microsecond=0)
    assert clock_finding(server, NOW, NOW) is None


@pytest.mark.parametrize(("seconds", "words"), [(-7, "ahead of"), (7, "behind")])
def test_a_clock_that_is_off_is_said_with_its_direction(seconds: int, words: str) -> None:
    server = (NOW + timedelta(seconds=seconds)).replace(microsecond=0)
    found = clock_finding(server, NOW, NOW)
    assert found is not None
    assert f" 6 s {words} the API server's" in found.problem


def test_a_slow_answer_makes_no_clock_wrong() -> None:
    assert clock_finding(NOW.replace(microsecond=0), NOW - timedelta(seconds=20), NOW + timedelta(seconds=20)) is None


def document(kind: str, group: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI document of one kind, as a real API server writes it: inline, and with a reference."""
    schemas = {
        f"{kind}.spec": {"type": "object", "properties": spec},
        "ListMeta": {"type": "object"},
        kind: {
            "properties": {
                "spec": {"allOf": [{"$ref": f"#/components/schemas/{kind}.spec"}]},
                "status": {"type": "object", "properties": status},
            },
            "x-kubernetes-group-version-kind": [{"group": group, "version": "v1", "kind": kind}],
        },
    }
    return {"components": {"schemas": schemas}}


async def look(documents: dict[str, Any]) -> list[str]:
    """The problems that are found at a server that answers with these documents."""

    async def answer(request: web.Request) -> web.Response:
        if request.path not in documents:
            return web.json_response({"kind": "Status", "message": "not found"}, status=404)
        return web.json_response(documents[request.path], headers={"Date": format_datetime(datetime.now(UTC))})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{address[1]}"}}
    content = {
        "clusters": [cluster],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    try:
        async with await KubeClient.connect(ClusterConfig(kubeconfig_dict=content)) as client:
            return [each.problem for each in await look_at_installation(client, kueue=False)]
    finally:
        await runner.cleanup()


def test_an_older_trainer_is_known_by_the_fields_that_it_lacks() -> None:
    trainer, jobset = "trainer.kubeflow.org/v1alpha1", "jobset.x-k8s.io/v1alpha2"
    documents = {
        "/version": {"gitVersion": "v1.28.4-gke.1"},
        f"/apis/{trainer}": {"resources": [{"name": "trainjobs"}]},
        f"/apis/{jobset}": {"resources": [{"name": "jobsets"}]},
        f"/openapi/v3/apis/{trainer}": document("TrainJob", "trainer.kubeflow.org", {"suspend": {}}, {}),
        f"/openapi/v3/apis/{jobset}": document("JobSet", "jobset.x-k8s.io", {"suspend": {}}, {"restarts": {}}),
    }
    assert asyncio.run(look(documents)) == [
        "Kubernetes v1.28.4-gke.1 is older than 1.29",
        "TrainJob has no field spec.runtimePatches: it is not Kubeflow Trainer 2.3",
        "TrainJob has no field spec.activeDeadlineSeconds: it is not Kubeflow Trainer 2.3",
    ]


def test_what_is_not_installed_is_named() -> None:
    assert asyncio.run(look({"/version": {"gitVersion": "v1.36.3"}})) == [
        "Kubeflow Trainer is not there: trainer.kubeflow.org/v1alpha1 has no trainjobs",
        "JobSet is not there: jobset.x-k8s.io/v1alpha2 has no jobsets",
    ]

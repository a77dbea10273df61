from __future__ import annotations

import asyncio
import json
import ssl
import stat
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from airflow_dispatch.localcluster.apiserver.logs import LogSource
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.apiserver.server import ApiServer
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.resources import CONFIGMAPS, TRAINJOBS

Object = dict[str, Any]
Get = Callable[..., Awaitable[tuple[int, Any]]]
CONFIGS = "/api/v1/namespaces/default/configmaps"
TRAINJOB_LIST = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"


def serving(
    registry: Registry, directory: Path, scenario: Callable[[ApiServer, Get], Awaitable[None]], **options: Any
) -> None:
    """Runs a scenario against a server that listens; ``get`` sends a request as the administrator."""

    async def run() -> None:
        async with ApiServer(registry, directory, **options) as server:
            context = ssl.create_default_context(cadata=server.ca)
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(server.url, connector=connector) as session:

                async def request(method: str, path: str, *, token: str | None = None, **kwargs: Any) -> Any:
                    headers = kwargs.pop("headers", {})
                    bearer = server.access.admin.token if token is None else token
                    headers = {"Authorization": f"Bearer {bearer}", **headers}
                    async with session.request(method, path, headers=headers, **kwargs) as response:
                        text = await response.text()
                        if response.content_type == "application/json":
                            lines = [json.loads(line) for line in text.splitlines()]
                            return response.status, lines[0] if len(lines) == 1 else lines
                        return response.status, text

                await scenario(server, request)

    asyncio.run(run())


def test_a_wrong_token_is_unauthorized(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        for path in (CONFIGS, "/api", "/apis"):
            code, body = await send("GET", path, token="wrong")
            assert code == 401
            assert (body["reason"], body["message"]) == ("Unauthorized", "Unauthorized")
        assert await send("GET", "/healthz", token="") == (200, "ok")

    serving(registry, tmp_path, scenario)


def test_a_users_rules_decide_with_the_real_words(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        rules = [
            {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], "namespaces": ["default"]},
        ]
        token = yaml.safe_load(server.add_user("x", rules).read_text())["users"][0]["user"]["token"]
        assert (await send("GET", TRAINJOB_LIST, token=token))[0] == 200
        code, body = await send("POST", TRAINJOB_LIST.replace("default", "ml"), json={}, token=token)
        assert code == 403
        assert body["message"] == (
            'trainjobs.trainer.kubeflow.org is forbidden: User "x" cannot create resource "trainjobs" in API group '
            '"trainer.kubeflow.org" in the namespace "ml"'
        )
        assert body["details"] == {"group": "trainer.kubeflow.org", "kind": "trainjobs"}
        code, body = await send("GET", "/api/v1/nodes/n", token=token)
        assert body["message"] == (
            'nodes "n" is forbidden: User "x" cannot get resource "nodes" in API group "" at the cluster scope'
        )
        assert (await send("GET", "/api/v1/namespaces/default/pods/p/log", token=token))[0] == 404
        assert (await send("GET", "/api/v1/namespaces/ml/pods/p/log", token=token))[0] == 403
        assert (await send("GET", f"{TRAINJOB_LIST}?watch=true", token=token))[0] == 403

    serving(registry, tmp_path, scenario)


def test_a_revoked_token_is_unauthorized(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        user = server.access.add_user("x", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
        assert (await send("GET", CONFIGS, token=user.token))[0] == 200
        server.access.revoke(user)
        assert (await send("GET", CONFIGS, token=user.token))[0] == 401

    serving(registry, tmp_path, scenario)


def test_access_reviews_answer_for_the_caller(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        user = server.access.add_user("x", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

        async def allowed(**attributes: str) -> bool:
            code, body = await send("POST", path, json={"spec": {"resourceAttributes": attributes}}, token=user.token)
            assert code == 201
            return bool(body["status"]["allowed"])

        assert await allowed(verb="list", resource="pods", namespace="default")
        assert not await allowed(verb="create", resource="pods", namespace="default")
        assert not await allowed(verb="list", resource="pods", subresource="log", namespace="default")

    serving(registry, tmp_path, scenario)


def test_kubeconfigs_are_for_their_owner_alone(registry: Registry, tmp_path: Path) -> None:
    server = ApiServer(registry, tmp_path)
    for path in (server.kubeconfig(), server.kubeconfig(), server.add_user("x", [], namespace="ml")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["contexts"][0]["context"] == {
        "cluster": "local",
        "user": "x",
        "namespace": "ml",
    }


def test_a_client_that_does_not_know_the_ca_refuses(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del send
        async with aiohttp.ClientSession() as session:
            try:
                await session.get(f"{server.url}/version")
            except aiohttp.ClientConnectorCertificateError:
                return
        raise AssertionError("an unknown CA was trusted")

    serving(registry, tmp_path, scenario)


def test_lists_in_pages_and_objects_without_managed_fields(registry: Registry, tmp_path: Path) -> None:
    for name in "abc":
        registry.create(CONFIGMAPS, "default", {"metadata": {"name": name}})

    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        _, page = await send("GET", f"{CONFIGS}?limit=2")
        assert (page["kind"], page["metadata"]["remainingItemCount"]) == ("ConfigMapList", 1)
        assert "kind" not in page["items"][0]
        _, rest = await send("GET", CONFIGS, params={"limit": "2", "continue": page["metadata"]["continue"]})
        assert [entry["metadata"]["name"] for entry in page["items"] + rest["items"]] == list("abc")
        assert "continue" not in rest["metadata"]
        _, one = await send("GET", f"{CONFIGS}/a")
        assert "managedFields" not in one["metadata"]

    serving(registry, tmp_path, scenario)


def test_a_stream_of_json_lines_that_ends_in_time(registry: Registry, clock: VirtualClock, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        since = registry.resource_version
        await send("POST", CONFIGS, json={"metadata": {"name": "a"}})
        query = f"watch=true&resourceVersion={since}&timeoutSeconds=5"
        context = ssl.create_default_context(cadata=server.ca)
        headers = {"Authorization": f"Bearer {server.access.admin.token}"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), headers=headers) as session,
            session.get(f"{server.url}{CONFIGS}?{query}") as response,
        ):
            assert (response.status, response.content_type) == (200, "application/json")
            assert json.loads(await response.content.readline())["type"] == "ADDED"
            await send("DELETE", f"{CONFIGS}/a")
            assert json.loads(await response.content.readline())["type"] == "DELETED"
            clock.step(clock.now() + timedelta(seconds=5))
            assert await response.content.read() == b""

    serving(registry, tmp_path, scenario)


def test_a_watch_from_before_the_history_says_410_in_the_stream(registry: Registry, tmp_path: Path) -> None:
    since = registry.resource_version
    registry.create(CONFIGMAPS, "default", {"metadata": {"name": "a"}})
    registry.compact()

    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        code, event = await send("GET", CONFIGS, params={"watch": "true", "resourceVersion": since})
        assert (code, event["type"], event["object"]["code"]) == (200, "ERROR", 410)
        assert event["object"]["reason"] == "Expired"

    serving(registry, tmp_path, scenario)


def test_stopping_ends_open_watches(registry: Registry, tmp_path: Path) -> None:
    async def run() -> None:
        server = ApiServer(registry, tmp_path)
        await server.start()
        context = ssl.create_default_context(cadata=server.ca)
        headers = {"Authorization": f"Bearer {server.access.admin.token}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), headers=headers) as session:
            response = await session.get(f"{server.url}{CONFIGS}?watch=true")
            assert response.status == 200
            await asyncio.wait_for(server.stop(), 10)
            response.close()

    asyncio.run(run())


def test_a_client_that_goes_leaves_no_subscription(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        closed = asyncio.Event()
        unsubscribe = registry._store._unsubscribe

        def note(subscription: Any) -> None:
            unsubscribe(subscription)
            closed.set()

        registry._store._unsubscribe = note  # type: ignore[method-assign]
        context = ssl.create_default_context(cadata=server.ca)
        headers = {"Authorization": f"Bearer {server.access.admin.token}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), headers=headers) as session:
            response = await session.get(f"{server.url}{CONFIGS}?watch=true")
            await send("POST", CONFIGS, json={"metadata": {"name": "a"}})
            assert await response.content.readline()
            response.close()
        await asyncio.wait_for(closed.wait(), 10)
        assert registry._store._subscriptions[CONFIGMAPS] == []

    serving(registry, tmp_path, scenario)


def test_unknown_fields_warn_by_default_and_fail_when_strict(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        body = {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}, "nonsense": 1}}
        code, refused = await send("POST", f"{TRAINJOB_LIST}?fieldValidation=Strict", json=body)
        assert code == 400
        assert 'strict decoding error: unknown field "spec.nonsense"' in refused["message"]
        context = ssl.create_default_context(cadata=server.ca)
        headers = {"Authorization": f"Bearer {server.access.admin.token}"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.post(f"{server.url}{TRAINJOB_LIST}", json=body, headers=headers) as response,
        ):
            assert response.status == 201
            assert response.headers.getall("Warning") == ['299 - "unknown field \\"spec.nonsense\\""']

    serving(registry, tmp_path, scenario)


def test_logs_over_http(registry: Registry, tmp_path: Path, scripted_logs: LogSource, make_pod: Any) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        await send("POST", "/api/v1/namespaces/default/pods", json=make_pod())
        log = "/api/v1/namespaces/default/pods/p/log"
        assert await send("GET", f"{log}?tailLines=1") == (200, "main 2\n")
        assert await send("GET", f"{log}?follow=true&tailLines=1") == (200, "main 2\nmain 3 of p\n")
        for query in ("container=other", "container=other&follow=true"):
            code, body = await send("GET", f"{log}?{query}")
            assert (code, body["message"]) == (400, "container other is not valid for pod p")

    serving(registry, tmp_path, scenario, logs=scripted_logs)


def test_binding_eviction_and_collections(registry: Registry, tmp_path: Path, make_pod: Any) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        pods = "/api/v1/namespaces/default/pods"
        for name in ("p", "q"):
            await send("POST", pods, json=make_pod(name, labels={"app": name}))
        binding = {"target": {"kind": "Node", "name": "node-0"}}
        assert (await send("POST", f"{pods}/p/binding", json=binding))[0] == 201
        code, body = await send("POST", f"{pods}/p/eviction", json={"kind": "Eviction"})
        assert (code, body["status"]) == (201, "Success")
        _, pod = await send("GET", f"{pods}/p")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
        await send("DELETE", f"{pods}?labelSelector=app=q")
        _, left = await send("GET", pods)
        assert [entry["metadata"]["name"] for entry in left["items"]] == ["p"]
        assert (await send("DELETE", f"{pods}/p", json={"gracePeriodSeconds": 0}))[0] == 200

    serving(registry, tmp_path, scenario)


def test_paths_and_methods_that_are_not_served(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        for path in ("/api/v1/things", "/apis/none.example/v1/things", f"{CONFIGS}/a/status", "/nonsense"):
            code, body = await send("GET", path)
            assert (code, body["message"]) == (404, "the server could not find the requested resource"), path
        assert (await send("PUT", CONFIGS, json={}))[0] == 405
        assert (await send("POST", f"{CONFIGS}/a", json={}))[0] == 405
        code, body = await send("POST", CONFIGS, data=b"{", headers={"Content-Type": "application/json"})
        assert code == 400
        code, body = await send("PATCH", f"{CONFIGS}/a", data=b"{}", headers={"Content-Type": "text/plain"})
        assert (code, body["reason"]) == (415, "UnsupportedMediaType")
        code, _ = await send("POST", f"{CONFIGS}?dryRun=Some", json={"metadata": {"name": "a"}})
        assert code == 422

    serving(registry, tmp_path, scenario)


def test_apply_answers_201_when_it_makes_and_200_when_it_changes(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        headers = {"Content-Type": "application/apply-patch+yaml"}
        path = f"{CONFIGS}/a?fieldManager=m"
        for data, expected in (("{a: b}", 201), ("{a: c}", 200)):
            body = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {data}}}"
            assert (await send("PATCH", path, data=body.encode(), headers=headers))[0] == expected

    serving(registry, tmp_path, scenario)


def test_discovery_of_old_and_new_kind_agree(registry: Registry, tmp_path: Path) -> None:
    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}
        _, groups = await send("GET", "/apis")
        _, aggregated = await send("GET", "/apis", headers=accept)
        names = [group["name"] for group in groups["groups"]]
        assert names == [item["metadata"]["name"] for item in aggregated["items"]]
        assert {"trainer.kubeflow.org", "jobset.x-k8s.io", "batch"} <= set(names)
        _, resources = await send("GET", "/apis/trainer.kubeflow.org/v1alpha1")
        assert {"trainjobs", "trainjobs/status", "trainingruntimes", "clustertrainingruntimes"} == {
            entry["name"] for entry in resources["resources"]
        }
        _, version = await send("GET", "/version")
        assert version["major"] == "1"

    serving(registry, tmp_path, scenario)


def test_a_table_for_those_who_print(registry: Registry, tmp_path: Path) -> None:
    registry.create(TRAINJOBS, "default", {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}}})

    async def scenario(server: ApiServer, send: Get) -> None:
        del server
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        _, table = await send("GET", TRAINJOB_LIST, headers=accept)
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
        assert table["rows"][0]["cells"] == ["t", "", "0s"]

    serving(registry, tmp_path, scenario)

"""Plays what was done in a recording on the local cluster, and notes what each object went through."""

from __future__ import annotations

import re
from typing import Any

from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.resources import ALL, PODS, Resource
from tests.support.history import History, without_luck
from tests.support.recordings import Recording

_EXITS = re.compile(r"rank (\d+) \(.*\) exits (\d+)( OOMKilled)?$")
_LOST = re.compile(r"(node-\d+) stops heartbeating")
_RETURNS = re.compile(r"(node-\d+) returns$")
_NODE_DELETED = re.compile(r"the Node object (node-\d+) is deleted")
_COMPLETE = "trainjobs Complete=True"
_COLLECTOR_SLEEPS = "both ranks run"
_COLLECTOR_WAKES = "the garbage collector goes on"
_KINDS = {resource.kind: resource for resource in ALL}
_TOO_LATE = "the object has been modified"


class Player:
    """Plays one recording."""

    def __init__(self, cluster: LocalCluster, recording: Recording) -> None:
        self._cluster = cluster
        self._recording = recording
        self._nodes: dict[str, str] = {}
        self._collector_sleeps = any(line.get("mark") == _COLLECTOR_WAKES for line in recording.lines)
        self.history = History()
        self.refusals: list[tuple[str, int, str]] = []
        cluster.registry.listen(self._on_write)

    def _on_write(self, resource: Resource, event: str, new: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        state = new or old
        if state is not None:
            self.history.add(event, {**state, "kind": resource.kind})

    async def play(self, until: float = float("inf")) -> None:
        """Plays it in virtual time; nothing is slower than in the recording."""
        before = 0.0
        for line in self._recording.lines:
            if not ({"act", "mark"} & set(line)) or line["t"] > until:
                continue
            await self._cluster.advance(max(0.0, line["t"] - before))
            before = max(before, line["t"])
            if "act" in line:
                self._act(line)
            else:
                await self._mark(line["mark"])
            await self._cluster.settle()
        await self._cluster.advance(60)

    async def complete(self) -> None:
        """All that runs exits with 0, as in recordings where it does so by itself before this mark."""
        for pod in self._cluster.registry.list(PODS, "default").items:
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                await self._cluster.faults.pod_exit(pod["metadata"]["name"], 0)

    # ------------------------------------------------------------ what was done

    def _act(self, line: dict[str, Any]) -> None:
        request, response = line["request"], line["response"]
        if _TOO_LATE in _message(response):
            return  # what came too late there need not do so here
        try:
            self._request(request)
            code, message = 200, ""
        except ApiError as error:
            code, message = error.code, error.message
        if response["code"] >= 400:
            self.refusals.append((line["act"], code, without_luck(message)))
        elif code >= 400:
            raise AssertionError(f"{line['act']}: {code} {message}")

    def _request(self, request: dict[str, Any]) -> None:
        registry = self._cluster.registry
        resource, namespace, name, subresource = _target(request["path"])
        body, params = request.get("body") or {}, request.get("params") or {}
        options = {
            "field_manager": params.get("fieldManager", ""),
            "field_validation": params.get("fieldValidation", "Ignore"),
            "dry_run": "dryRun" in params,
        }
        match request["method"]:
            case "POST" if subresource == "eviction":
                registry.evict(namespace or "", self._pod_like(name))
            case "POST":
                registry.create(resource, namespace, body, **options)
            case "PUT":
                current = self._current(resource, namespace, name, body)
                registry.update(resource, namespace, name, current, **options)
            case "PATCH":
                name = self._node(name) if resource.kind == "Node" else name
                patch = self._current(resource, namespace, name, body)
                force = params.get("force") == "true"
                registry.patch(resource, namespace, name, patch, request["contentType"], force=force, **options)
            case "DELETE":
                name = self._pod_like(name) if resource == PODS else name
                wanted = self._translated(body)
                registry.delete(
                    resource,
                    namespace,
                    name,
                    uid=(wanted.get("preconditions") or {}).get("uid"),
                    propagation=wanted.get("propagationPolicy"),
                    grace_period=wanted.get("gracePeriodSeconds"),
                )

    def _current(self, resource: Resource, namespace: str | None, name: str, body: Any) -> Any:
        """The body with our UIDs, and with our resourceVersion where it had one."""
        translated = self._translated(body)
        if not isinstance(translated, dict):
            return translated
        metadata = translated.get("metadata") or {}
        if "resourceVersion" in metadata:
            now = self._cluster.registry.get(resource, namespace, name)["metadata"]
            metadata["resourceVersion"] = now["resourceVersion"]
        return translated

    def _translated(self, value: Any) -> Any:
        """Recorded UIDs, of whatever has the same kind and name here, in our own."""
        uids = self._uids()

        def walk(each: Any) -> Any:
            if isinstance(each, dict):
                return {key: walk(item) for key, item in each.items()}
            if isinstance(each, list):
                return [walk(item) for item in each]
            return uids.get(each, each) if isinstance(each, str) else each

        return walk(value)

    def _uids(self) -> dict[str, str]:
        registry = self._cluster.registry
        found = {}
        for _, obj in self._recording.events(float("inf")):
            resource, metadata = _KINDS.get(obj["kind"]), obj["metadata"]
            if resource is None or obj["kind"] not in ("TrainJob", "JobSet", "Job", "TrainingRuntime"):
                continue
            key = metadata["namespace"], metadata["name"]
            if registry.exists(resource, *key):
                found[metadata["uid"]] = str(registry.get(resource, *key)["metadata"]["uid"])
        return found

    # ------------------------------------------------------------ what happened

    async def _mark(self, mark: str) -> None:
        faults = self._cluster.faults
        if mark == _COMPLETE:
            await self.complete()
        elif mark == _COLLECTOR_SLEEPS and self._collector_sleeps:
            self._cluster.manager.pause("garbage-collector")
        elif mark == _COLLECTOR_WAKES:
            self._cluster.manager.resume("garbage-collector")
        elif match := _EXITS.match(mark):
            pod = self._rank(match[1])
            await (faults.pod_oom(pod) if match[3] else faults.pod_exit(pod, int(match[2])))
        elif match := _LOST.match(mark):
            await faults.lose_node(self._node(match[1]))
        elif match := _RETURNS.match(mark):
            await faults.return_node(self._node(match[1]))
        elif match := _NODE_DELETED.match(mark):
            await faults.delete_node(self._node(match[1]))

    def _rank(self, index: str) -> str:
        """Our newest live pod of that rank."""
        selector = f"batch.kubernetes.io/job-completion-index={index}"
        pods = self._cluster.registry.list(PODS, "default", label_selector=selector).items
        live = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return str(live[-1]["metadata"]["name"])

    def _pod_like(self, recorded: str) -> str:
        return self._rank(recorded.rsplit("-", 2)[1])

    def _node(self, recorded: str) -> str:
        """Our node with the rank that the recorded one has, the same for the whole recording."""
        if recorded not in self._nodes:
            for _, obj in self._recording.events(float("inf")):
                if obj["kind"] == "Pod" and obj["spec"].get("nodeName") == recorded:
                    index = obj["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
                    pod = self._cluster.registry.get(PODS, "default", self._rank(index))
                    self._nodes[recorded] = pod["spec"]["nodeName"]
                    break
        return self._nodes[recorded]


def refusals_of(recording: Recording) -> list[tuple[str, int, str]]:
    """What the real API server and webhooks refused: act, code and message."""
    found = []
    for line in recording.lines:
        response = line.get("response")
        if response and response["code"] >= 400 and _TOO_LATE not in _message(response):
            found.append((line["act"], response["code"], without_luck(_message(response))))
    return found


def _message(response: dict[str, Any]) -> str:
    return str((response.get("body") or {}).get("message", ""))


def _target(path: str) -> tuple[Resource, str | None, str, str]:
    """Resource, namespace, name and subresource of a request's path."""
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = None
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource = next(each for each in ALL if (each.group, each.plural) == (group, parts[0]))
    name, subresource = (*parts[1:], "", "")[:2]
    return resource, namespace, name, subresource

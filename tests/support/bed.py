"""Controllers on a registry under virtual time, with Nodes and pod statuses written by the test."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import VirtualClock
from airflow_dispatch.localcluster.controllers import ControllerManager, default_controllers
from airflow_dispatch.localcluster.resources import EVENTS, JOBS, JOBSETS, NODES, PODS, TRAINJOBS, Resource

__all__ = ["NAMESPACE", "Bed"]

NAMESPACE = "default"
_STEP = 0.5


class Bed:
    """A control plane without kubelets. ``grace``: seconds until a silent Node counts as lost."""

    def __init__(self, *, lag: float = 0.0, grace: float = 5.0, toleration: int = 4) -> None:
        self.clock = VirtualClock()
        self.registry = Registry(self.clock, toleration_seconds=toleration)
        controllers = default_controllers(self.registry, self.clock, grace=grace)
        self.manager = ControllerManager(self.registry, self.clock, controllers, lag=lag)

    def advance(self, seconds: float = 0.0) -> None:
        """Lets the controllers work, and time go on in small steps."""
        self.manager.drain()
        target = self.clock.now() + timedelta(seconds=seconds)
        while self.clock.now() < target:
            self.clock.step(min(target, self.clock.now() + timedelta(seconds=_STEP)))
            self.manager.drain()

    def node(self, name: str, cpu: str = "4", **spec: Any) -> None:
        """A Node that is ready; without heartbeats it stays so for the grace period alone."""
        labels = spec.pop("labels", {})
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        self.registry.create(NODES, None, body)
        self.beat(name, {"cpu": cpu, "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"})

    def beat(self, name: str, allocatable: dict[str, str] | None = None) -> None:
        """A kubelet's heartbeat: the Node is ready."""
        node = self.registry.get(NODES, None, name)
        status = node.setdefault("status", {})
        status["allocatable"] = allocatable or status["allocatable"]
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status["conditions"] = [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "reason": "Kubelet",
                "message": "",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ]
        self.registry.update(NODES, None, name, node, subresource="status")

    def job(self, name: str = "job", *, pod: dict[str, Any] | None = None, **spec: Any) -> None:
        """A Job of one container; ``pod``: more of its pod's spec."""
        template = {"spec": {"restartPolicy": "Never", "containers": [container()], **(pod or {})}}
        self.registry.create(JOBS, NAMESPACE, {"metadata": {"name": name}, "spec": {"template": template, **spec}})
        self.advance()

    def jobset(self, name: str = "set", *, ranks: int = 2, replicas: int = 1, **spec: Any) -> None:
        """A JobSet of one replicated job, ``node``, made so that one execution never overlaps another."""
        template = {
            "spec": {
                "parallelism": ranks,
                "completions": ranks,
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "template": {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container()]}},
            }
        }
        replicated = [{"name": "node", "replicas": replicas, "template": template}]
        body = {"metadata": {"name": name}, "spec": {"replicatedJobs": replicated, **spec}}
        self.registry.create(JOBSETS, NAMESPACE, body)
        self.advance()

    def change(self, resource: Resource, name: str, **spec: Any) -> None:
        """Changes fields of an object's spec."""
        obj = self.registry.get(resource, NAMESPACE, name)
        obj["spec"].update(spec)
        self.registry.update(resource, NAMESPACE, name, obj)
        self.advance()

    def pods(self) -> list[dict[str, Any]]:
        """All pods, by name."""
        return list(self.registry.list(PODS, NAMESPACE).items)

    def report(self, pod: dict[str, Any], phase: str, exit_code: int = 0) -> None:
        """What a kubelet reports of a pod's one container."""
        name = pod["metadata"]["name"]
        pod = self.registry.get(PODS, NAMESPACE, name)
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        state: dict[str, Any] = {"running": {"startedAt": now}}
        if phase in ("Succeeded", "Failed"):
            state = {"terminated": {"exitCode": exit_code, "reason": "Error", "startedAt": now, "finishedAt": now}}
        others = [each for each in pod["status"].get("conditions") or () if each["type"] != "Ready"]
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False", "lastTransitionTime": now}
        pod["status"] |= {"phase": phase, "conditions": [*others, ready]}
        pod["status"]["containerStatuses"] = [{"name": "node", "image": "i", "imageID": "", "state": state}]
        self.registry.update(PODS, NAMESPACE, name, pod, subresource="status")
        self.advance()

    def confirm(self, pod: dict[str, Any], phase: str = "Failed") -> None:
        """What a kubelet does when a deleted pod has stopped."""
        self.report(pod, phase, 143)
        name = pod["metadata"]["name"]
        if self.registry.exists(PODS, NAMESPACE, name):
            self.registry.delete(PODS, NAMESPACE, name, uid=pod["metadata"]["uid"], grace_period=0)
        self.advance()

    def run_all(self) -> None:
        """All pods that are bound run."""
        for pod in self.pods():
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                self.report(pod, "Running")

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        namespace = NAMESPACE if resource.namespaced else None
        found: dict[str, Any] = self.registry.get(resource, namespace, name)
        return found

    def exists(self, resource: Resource, name: str) -> bool:
        return bool(self.registry.exists(resource, NAMESPACE, name))

    def conditions(self, resource: Resource, name: str) -> list[tuple[str, str, str]]:
        """Type, status and reason, in order."""
        found = self.get(resource, name).get("status", {}).get("conditions") or ()
        return [(each["type"], each["status"], each.get("reason", "")) for each in found]

    def trainjob(self, name: str) -> dict[str, Any]:
        return self.get(TRAINJOBS, name)

    def events(self, reason: str) -> list[dict[str, Any]]:
        """The Events of that reason."""
        return [event for event in self.registry.list(EVENTS, NAMESPACE).items if event["reason"] == reason]


def container(**more: Any) -> dict[str, Any]:
    """A container that asks for one cpu."""
    return {"name": "node", "image": "example.invalid/i:1", "resources": {"requests": {"cpu": "1"}}, **more}

"""The scheduler: binds pods to Nodes that have room for them, or says why none has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from airflow_dispatch.localcluster.apiserver.objects import Object, condition
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import Key, change_condition, find, is_finished, is_true, keys_of
from airflow_dispatch.localcluster.controllers.events import EventRecorder
from airflow_dispatch.localcluster.controllers.nodeaffinity import selects
from airflow_dispatch.localcluster.kubelet.quantity import parse_quantity
from airflow_dispatch.localcluster.resources import NODES, PODS, Resource

__all__ = ["Scheduler"]

_EFFECTS: Final = ("NoSchedule", "NoExecute")
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_UNHELPFUL: Final = "Preemption is not helpful for scheduling"


class _Problem(NamedTuple):
    """Why a pod does not go onto a Node; ``lasting``: it would not even if no other pod were there."""

    reason: str
    lasting: bool


class Scheduler:
    """Keys are pods that are bound to no Node; whatever frees room or changes a Node concerns all of them."""

    name = "default-scheduler"
    watches: tuple[Resource, ...] = (PODS, NODES)

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._events = EventRecorder(registry, clock, self.name)
        self._waiting: set[Key] = set()

    def keys_for(self, resource: Resource, obj: Object | None, old: Object | None) -> Iterator[Key]:
        """The pod, while it waits; all that wait when a pod ends or a Node changes."""
        if resource == PODS:
            if obj is not None and not obj["spec"].get("nodeName"):
                yield from keys_of(obj, old)
                return
            freed = obj is None or is_finished(obj)
            if not freed:
                return
        elif obj is not None and old is not None and _placement(obj) == _placement(old):
            return
        yield from tuple(self._waiting)

    def reconcile(self, key: Key) -> float | None:
        """Binds one pod, or writes why it waits."""
        pod = find(self._registry, PODS, key)
        if (
            pod is None
            or pod["spec"].get("nodeName")
            or pod["spec"].get("schedulingGates")
            or pod["spec"].get("schedulerName") != self.name
            or "deletionTimestamp" in pod["metadata"]
            or is_finished(pod)
        ):
            self._waiting.discard(key)
            return None
        nodes = self._registry.list(NODES).items
        used = self._used()
        reasons: Counter[str] = Counter()
        remedies: Counter[str] = Counter()
        fitting: list[tuple[Decimal, int, str]] = []
        for node in nodes:
            name = node["metadata"]["name"]
            problems = list(_problems(pod, node, used.get(name, Counter())))
            reasons.update(problem.reason for problem in problems)
            if problems:
                remedies[_UNHELPFUL if any(problem.lasting for problem in problems) else _NO_VICTIMS] += 1
            else:
                free = _quantity(node, "cpu") - used.get(name, Counter())["cpu"]
                fitting.append((-free, int(used.get(name, Counter())["pods"]), name))
        if fitting:
            self._bind(pod, min(fitting)[2])
            self._waiting.discard(key)
        else:
            self._waiting.add(key)
            self._explain(pod, len(nodes), reasons, remedies)
        return None

    def _bind(self, pod: Object, node: str) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._registry.bind(namespace, name, node, uid=pod["metadata"]["uid"])
        bound = self._registry.get(PODS, namespace, name)
        if not is_true(bound, "PodScheduled"):
            change_condition(bound, "PodScheduled", "True", ("", ""), self._clock.now())
            entry = condition(bound, "PodScheduled") or {}
            entry.pop("reason", None)
            entry.pop("message", None)
            self._registry.update(PODS, namespace, name, bound, subresource="status", field_manager=self.name)
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self._events.record(PODS, bound, "Normal", "Scheduled", message, action="Binding")

    def _explain(self, pod: Object, count: int, reasons: Counter[str], remedies: Counter[str]) -> None:
        """Writes why no Node takes the pod, and that it would not help to preempt others, which is never tried."""
        if count:
            available = f"0/{count} nodes are available:"
            message = (
                f"{available} {_listed(reasons)}. no new claims to deallocate, preemption: "
                f"{available} {_listed(remedies)}."
            )
        else:
            message = "no nodes available to schedule pods"
        words = ("Unschedulable", message)
        seen = {"observedGeneration": pod["metadata"]["generation"]}
        if change_condition(pod, "PodScheduled", "False", words, self._clock.now(), **seen):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            self._registry.update(PODS, namespace, name, pod, subresource="status", field_manager=self.name)
            self._events.record(PODS, pod, "Warning", "FailedScheduling", message, action="Scheduling")

    def _used(self) -> dict[str, Counter[str]]:
        """What the pods of each Node have asked for."""
        used: dict[str, Counter[str]] = {}
        for pod in self._registry.list(PODS).items:
            node = pod["spec"].get("nodeName")
            if node and not is_finished(pod):
                total = used.setdefault(node, Counter())
                for resource, amount in _requests(pod).items():
                    total[resource] += amount  # type: ignore[assignment]
                total["pods"] += 1
        return used


def _listed(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{number} {words}" for words, number in counts.items()))


def _problems(pod: Object, node: Object, used: Counter[str]) -> Iterator[_Problem]:
    """Why a pod does not go onto a Node, in the scheduler's words; the first plugin that says no has the last word."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield _Problem("node(s) were unschedulable", lasting=True)
        return
    for taint in spec.get("taints") or ():
        if taint["effect"] in _EFFECTS and not tolerates(pod, taint):
            yield _Problem("node(s) had untolerated taint(s)", lasting=True)
            return
    if not selects(pod, node):
        yield _Problem("node(s) didn't match Pod's node affinity/selector", lasting=True)
        return
    if used["pods"] + 1 > _quantity(node, "pods"):
        yield _Problem("Too many pods", lasting=False)
    for resource, amount in _requests(pod).items():
        total = _quantity(node, resource)
        if amount and amount > total - used[resource]:
            yield _Problem(f"Insufficient {resource}", lasting=amount > total)


def tolerates(pod: Object, taint: Object) -> bool:
    """The pod tolerates a taint, for however long."""
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        if toleration.get("key") not in (None, "", taint["key"]):
            continue
        if toleration.get("operator", "Equal") == "Exists" or toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def _requests(pod: Object) -> dict[str, Decimal]:
    """What a pod asks for: the sum of its containers, or more when one init container wants more."""
    total: dict[str, Decimal] = {}
    for container in pod["spec"].get("containers") or ():
        for resource, amount in _container_requests(container).items():
            total[resource] = total.get(resource, Decimal(0)) + amount
    for container in pod["spec"].get("initContainers") or ():
        for resource, amount in _container_requests(container).items():
            total[resource] = max(total.get(resource, Decimal(0)), amount)
    return total


def _container_requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(str(value)) for name, value in asked.items()}


def _quantity(node: Object, resource: str) -> Decimal:
    return parse_quantity(str((node.get("status", {}).get("allocatable") or {}).get(resource, "0")))


def _placement(node: Object) -> tuple[object, ...]:
    """What of a Node decides where pods go."""
    spec = node.get("spec") or {}
    return (
        spec.get("taints"),
        spec.get("unschedulable"),
        node["metadata"].get("labels"),
        node.get("status", {}).get("allocatable"),
    )

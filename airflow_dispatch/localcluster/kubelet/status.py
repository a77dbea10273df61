"""What a kubelet writes into a pod's status: pure functions of what it knows of the containers.

Condition types, reasons and messages are those of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["ContainerState", "KubeletConditions", "phase_of", "pod_status", "timestamp"]

KubeletConditions: Final = ("Initialized", "PodReadyToStartContainers", "Ready", "ContainersReady")
"""The conditions of a pod that its kubelet writes; the others belong to others and are left alone."""


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as Kubernetes writes times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class ContainerState:
    """What the kubelet knows of one container.

    Attributes:
        name: Its name.
        image: The image it asked for.
        init: Whether it is an init container.
        state: ``waiting``, ``running`` or ``terminated`` with its fields, as in the API.
        last_state: The same for the run before this one.
        restarts: How many times it was started again.
        id: The runtime's name for it, once it has started.
    """

    name: str
    image: str
    init: bool = False
    state: dict[str, Any] = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last_state: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    id: str = ""

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The exit code of a terminated container, else None."""
        return self.state["terminated"]["exitCode"] if "terminated" in self.state else None

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with 0."""
        return self.exit_code == 0

    @property
    def ready(self) -> bool:
        """An init container is ready when it has done its work, any other while it runs (there are no probes)."""
        return self.succeeded if self.init else self.running

    def shown(self) -> dict[str, Any]:
        """Its entry in the pod's status."""
        entry: dict[str, Any] = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "restartCount": self.restarts,
            "image": self.image,
            "imageID": f"local://{self.image}" if self.id else "",
            "started": self.running,
        }
        if self.id:
            entry["containerID"] = self.id
        return entry


def phase_of(containers: Sequence[ContainerState], restart_policy: str) -> str:
    """The pod's phase, from the containers of a pod that lives (a deleted pod's is decided when all have ended)."""
    inits = [container for container in containers if container.init]
    mains = [container for container in containers if not container.init]
    if any(container.exit_code not in (0, None) for container in inits) and restart_policy == "Never":
        return "Failed"
    if not all(container.succeeded for container in inits):
        return "Pending"
    if any("waiting" in container.state and "terminated" not in container.last_state for container in mains):
        return "Pending"
    if restart_policy == "Always" or not all("terminated" in container.state for container in mains):
        return "Running"
    if all(container.succeeded for container in mains):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def _condition(kind: str, true: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": "True" if true else "False", "reason": reason, "message": message}


def _conditions(containers: Sequence[ContainerState], phase: str) -> list[dict[str, Any]]:
    inits = [container for container in containers if container.init]
    mains = [container for container in containers if not container.init]
    incomplete = [container.name for container in inits if not container.succeeded]
    conditions = [
        _condition(
            "Initialized",
            not incomplete,
            "ContainersNotInitialized" if incomplete else "",
            f"containers with incomplete status: [{' '.join(incomplete)}]" if incomplete else "",
        )
    ]
    if any(container.id for container in containers):
        conditions.append(_condition("PodReadyToStartContainers", true=True))
    unready = [container.name for container in mains if not container.ready]
    if phase in ("Succeeded", "Failed"):
        reason, message = "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    elif unready:
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    else:
        reason, message = "", ""
    ready = (_condition(kind, not reason, reason, message) for kind in ("Ready", "ContainersReady"))
    return [*conditions, *ready]


def pod_status(
    old: dict[str, Any],
    containers: Sequence[ContainerState],
    phase: str,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
) -> dict[str, Any]:
    """The part of a pod's status that its kubelet owns, as a strategic merge patch of ``old``.

    A condition's ``lastTransitionTime`` changes with its status alone; what it no longer has is patched away with null.
    """
    before = {condition["type"]: condition for condition in old.get("conditions") or ()}
    conditions = []
    for condition in _conditions(containers, phase):
        known = before.get(condition["type"], {})
        unchanged = known.get("status") == condition["status"]
        entry: dict[str, Any] = {"type": condition["type"], "status": condition["status"], "lastProbeTime": None}
        entry["lastTransitionTime"] = known["lastTransitionTime"] if unchanged else timestamp(now)
        for key in ("reason", "message"):
            if condition[key]:
                entry[key] = condition[key]
            elif key in known:
                entry[key] = None
        conditions.append(entry)
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [container.shown() for container in containers if not container.init],
    }
    inits = [container.shown() for container in containers if container.init]
    if inits:
        status["initContainerStatuses"] = inits
    if reason:
        status.update(reason=reason, message=message)
    return status

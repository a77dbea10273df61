"""What a kubelet asks of whatever runs its containers: the place of the container runtime interface.

Two implementations: :class:`~airflow_dispatch.localcluster.kubelet.process.ProcessRuntime` runs real processes,
:class:`~airflow_dispatch.localcluster.kubelet.scripted.ScriptedRuntime` plays containers on the cluster's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from airflow_dispatch.localcluster.kubelet.logs import ContainerLog

__all__ = ["Container", "ContainerExit", "ContainerSpec", "Mount", "Runtime", "StartError", "exit_reason"]


def exit_reason(exit_code: int) -> str:
    """The reason a kubelet writes beside an exit code when there is no better one."""
    return "Completed" if exit_code == 0 else "Error"


class StartError(Exception):
    """A container could not be started.

    Attributes:
        reason: What the kubelet reports: ``StartError`` (no such program: terminated with exit code 128) or
            ``CreateContainerError`` and ``CreateContainerConfigError`` (the container keeps waiting).
        message: The words that go with it.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Mount:
    """One entry of ``volumeMounts``, resolved.

    Attributes:
        source: The file or folder on this machine.
        target: Where the container sees it.
        read_only: Whether writing is refused.
    """

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    """Everything a runtime must know to run one container once.

    Attributes:
        node: The Node it runs on.
        namespace: The pod's namespace.
        pod: The pod's name.
        pod_uid: The pod's UID.
        name: The container's name.
        argv: Program and arguments, expanded.
        env: The whole environment; nothing of the cluster's own is added to it.
        scratch: A folder of the container's own, its working directory unless ``working_dir`` says otherwise.
        working_dir: ``workingDir``, or None.
        hostname: What the pod calls itself.
        hosts_file: What the container should see as ``/etc/hosts``.
        log: Where its output goes.
        mounts: Its volumes.
        memory_limit: Bytes beyond which it is killed, or None.
        termination_message_path: Where it may leave a last word.
        termination_message_file: The file on this machine that stands for it.
    """

    node: str
    namespace: str
    pod: str
    pod_uid: str
    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    scratch: str
    working_dir: str | None
    hostname: str
    hosts_file: str | None
    log: ContainerLog
    mounts: tuple[Mount, ...] = field(default=())
    memory_limit: int | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_file: str | None = None


@dataclass(frozen=True)
class ContainerExit:
    """How a container ended.

    Attributes:
        exit_code: 0 to 255; a signal counts as 128 plus its number.
        reason: ``Completed``, ``Error``, ``OOMKilled``, ...
        finished_at: When.
        message: What the container, or the runtime, has to say about it.
    """

    exit_code: int
    reason: str
    finished_at: datetime
    message: str = ""


class Container(Protocol):
    """One running container."""

    @property
    def id(self) -> str:
        """``<runtime>://<identifier>``."""
        ...

    @property
    def started_at(self) -> datetime:
        """When its first process began."""
        ...

    async def wait(self) -> ContainerExit:
        """Returns when all its processes are gone; may be awaited by several and again afterwards."""
        ...

    def terminate(self) -> None:
        """Asks it to stop: SIGTERM to its first process."""
        ...

    def kill(self) -> None:
        """Ends all its processes at once: SIGKILL."""
        ...

    def end(self, exit_code: int, reason: str) -> None:
        """Ends all its processes at once and reports this exit: how faults are injected."""
        ...


class Runtime(Protocol):
    """What starts containers."""

    @property
    def name(self) -> str:
        """What the Node reports as its container runtime."""
        ...

    async def start(self, spec: ContainerSpec) -> Container:
        """Starts a container.

        Raises:
            StartError: It can't be started.
        """
        ...

    async def close(self) -> None:
        """Ends every container that still runs."""
        ...

"""The runs of one container: image, environment, start, exit, and whether and when it is started again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_dispatch.localcluster.kubelet.env import container_env, expand
from airflow_dispatch.localcluster.kubelet.images import Image, ImageNotFound
from airflow_dispatch.localcluster.kubelet.logs import ContainerLog
from airflow_dispatch.localcluster.kubelet.names import hostname_of
from airflow_dispatch.localcluster.kubelet.quantity import scaled
from airflow_dispatch.localcluster.kubelet.runtime import Container, ContainerExit, ContainerSpec, StartError
from airflow_dispatch.localcluster.kubelet.status import ContainerState, timestamp
from airflow_dispatch.localcluster.kubelet.volumes import container_mounts

if TYPE_CHECKING:
    from airflow_dispatch.localcluster.kubelet.worker import PodWorker

__all__ = ["ContainerRunner", "Stopping"]

_FIRST_BACKOFF: Final = 10.0
_LONGEST_BACKOFF: Final = 300.0
_BACKOFF_FORGOTTEN_AFTER: Final = 600.0
_NEXT_SYNC: Final = 1.0
_START_FAILED: Final = 128
_LOST_IN_REBOOT: Final = 255
_LOGS_KEPT: Final = 2


class Stopping(Exception):
    """The pod is to stop: nothing is started any more."""


class ContainerRunner:
    """Runs one container as the pod's ``restartPolicy`` wants it."""

    def __init__(self, worker: PodWorker, spec: dict[str, Any], *, init: bool) -> None:
        self._worker = worker
        self._spec = spec
        self.state = ContainerState(spec["name"], spec["image"], init=init)
        self.live: Container | None = None
        self.logs: list[ContainerLog] = []
        self.recovered = False
        self._backoff = 0.0

    def creating(self) -> dict[str, Any]:
        """The state before the first start."""
        return {"waiting": {"reason": "ContainerCreating"}}

    def announce(self, *, alone: bool) -> None:
        """Sets the state in which the pod is first shown: with init containers before it, others say so."""
        if not self.recovered:
            self.state.state = self.creating() if alone else {"waiting": {"reason": "PodInitializing"}}

    def recover(self, status: dict[str, Any]) -> None:
        """Takes up what an earlier life of the node has reported; what ran then was lost in between."""
        key = "initContainerStatuses" if self.state.init else "containerStatuses"
        for entry in status.get(key) or ():
            if entry["name"] != self.state.name or not entry.get("containerID"):
                continue
            self.recovered = True
            self.state.id = entry["containerID"]
            self.state.restarts = entry["restartCount"]
            self.state.last_state = entry.get("lastState") or {}
            self.state.state = entry["state"]
            if "running" in entry["state"]:
                started = entry["state"]["running"]["startedAt"]
                self._ended(_LOST_IN_REBOOT, "Unknown", started, timestamp(self._worker.host.clock.now()))

    def terminate(self) -> None:
        """Asks what runs to stop."""
        if self.live is not None:
            self.live.terminate()

    async def kill(self) -> None:
        """Ends what runs."""
        if self.live is not None:
            self.live.kill()
            await self.live.wait()

    async def run(self) -> bool:
        """Runs the container until it has ended for good; whether it ended well.

        Raises:
            Stopping: The pod is to stop.
            Gone: The pod is not there any more.
        """
        if self.recovered and "terminated" in self.state.state and not self._restarts():
            await self._worker.publish()
            return self.state.succeeded
        while True:
            if "terminated" in self.state.state:
                await self._back_off()
            await self._run_once()
            if self._worker.stopping or not self._restarts():
                await self._worker.publish()
                return self.state.succeeded

    def _restarts(self) -> bool:
        policy = self._worker.pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (self.state.init and self.state.succeeded):
            return False
        return policy == "Always" or not self.state.succeeded

    async def _back_off(self) -> None:
        """The first restart is at once, each further one later than the one before: ``CrashLoopBackOff``."""
        self.state.last_state = self.state.state
        delay, self._backoff = self._backoff, min(max(self._backoff * 2, _FIRST_BACKOFF), _LONGEST_BACKOFF)
        if delay > 0:
            pod = self._worker
            words = f"back-off {delay:.0f}s restarting failed container={self.state.name}"
            await self._wait("CrashLoopBackOff", f"{words} pod={pod.name}_{pod.namespace}({pod.uid})", delay)
        self.state.restarts += 1

    async def _wait(self, reason: str, message: str, seconds: float) -> None:
        self.state.state = {"waiting": {"reason": reason, "message": message}}
        await self._worker.publish()
        await self._worker.pause(seconds)

    async def _run_once(self) -> None:
        worker = self._worker
        try:
            container = await self._start()
        except StartError as error:
            now = timestamp(worker.host.clock.now())
            self._ended(_START_FAILED, "StartError", now, now, error.message)
            self.state.id = self.state.id or f"none://{worker.uid[:8]}-{self.state.name}"
            return
        self.live = container
        started = timestamp(container.started_at)
        self.state.id = container.id
        self.state.state = {"running": {"startedAt": started}}
        if worker.stopping:
            container.terminate()
        await worker.publish()
        ended = await container.wait()
        self.live = None
        self._note_run(ended, (ended.finished_at - container.started_at).total_seconds())
        self._ended(ended.exit_code, ended.reason, started, timestamp(ended.finished_at), ended.message)

    def _note_run(self, ended: ContainerExit, seconds: float) -> None:
        if ended.exit_code == 0 or seconds > _BACKOFF_FORGOTTEN_AFTER:
            self._backoff = 0.0

    def _ended(self, code: int, reason: str, started: str, finished: str, message: str = "") -> None:
        terminated: dict[str, Any] = {
            "exitCode": code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": finished,
        }
        if message:
            terminated["message"] = message
        if self.state.id:
            terminated["containerID"] = self.state.id
        self.state.state = {"terminated": terminated}

    async def _start(self) -> Container:
        """Pulls the image and starts the container, trying for as long as that can still succeed.

        Raises:
            StartError: ``StartError``: its program can't be run.
        """
        while True:
            image = await self._pull()
            try:
                return await self._worker.host.runtime.start(await self._described(image))
            except StartError as error:
                if error.reason == "StartError":
                    raise
                await self._wait(error.reason, error.message, _FIRST_BACKOFF)

    async def _pull(self) -> Image:
        name = self._spec["image"]
        delay = _FIRST_BACKOFF
        while True:
            if self._worker.stopping:
                raise Stopping
            try:
                return self._worker.host.pull(name)
            except ImageNotFound as error:
                await self._wait("ErrImagePull", str(error), _NEXT_SYNC)
                await self._wait("ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: {error}', delay)
                delay = min(delay * 2, _LONGEST_BACKOFF)

    async def _described(self, image: Image) -> ContainerSpec:
        worker, spec = self._worker, self._spec
        scratch = worker.folder / "containers" / self.state.name
        scratch.mkdir(parents=True, exist_ok=True)
        hostname = hostname_of(worker.pod)
        given = await container_env(worker.pod, spec, worker.place, worker.read_data)
        env = {"HOME": str(scratch), "HOSTNAME": hostname, **image.env, **given}
        command = spec.get("command") or image.entrypoint
        arguments = spec.get("args") or (() if spec.get("command") else image.arguments)
        argv = tuple(expand(word, given) for word in (*command, *arguments))
        if not argv:
            raise StartError("CreateContainerError", "no command specified")
        last_words = worker.folder / f"{self.state.name}-termination-log"
        last_words.write_bytes(b"")
        self.logs.append(ContainerLog(worker.folder / "logs" / self.state.name / f"{self.state.restarts}.log"))
        for old in self.logs[:-_LOGS_KEPT]:
            old.path.unlink(missing_ok=True)
        self.logs = self.logs[-_LOGS_KEPT:]
        limit = (spec.get("resources", {}).get("limits") or {}).get("memory")
        return ContainerSpec(
            node=worker.host.node,
            namespace=worker.namespace,
            pod=worker.name,
            pod_uid=worker.uid,
            name=self.state.name,
            argv=argv,
            env=env,
            scratch=str(scratch),
            working_dir=spec.get("workingDir"),
            hostname=hostname,
            hosts_file=str(worker.folder / "hosts"),
            log=self.logs[-1],
            mounts=container_mounts(spec, worker.volumes, given),
            memory_limit=None if limit is None else scaled(str(limit)),
            termination_message_path=spec.get("terminationMessagePath") or "/dev/termination-log",
            termination_message_file=str(last_words),
        )

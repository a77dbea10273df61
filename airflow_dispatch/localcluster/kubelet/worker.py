"""The life of one pod on its node: one task from the first sight of it until the API server has let it go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from pathlib import Path
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import Api
from airflow_dispatch.localcluster.kubelet.containers import ContainerRunner, Stopping
from airflow_dispatch.localcluster.kubelet.env import Place
from airflow_dispatch.localcluster.kubelet.host import Host
from airflow_dispatch.localcluster.kubelet.link import Gone
from airflow_dispatch.localcluster.kubelet.logs import ContainerLog
from airflow_dispatch.localcluster.kubelet.status import ContainerState, phase_of, pod_status, timestamp
from airflow_dispatch.localcluster.kubelet.volumes import VolumeError, prepare_volumes
from airflow_dispatch.localcluster.resources import PODS, Resource

__all__ = ["PodWorker"]

_LOG = logging.getLogger(__name__)
_FINISHED: Final = ("Succeeded", "Failed")
_VOLUME_RETRY: Final = 2.0
_ORPHAN_GRACE: Final = 1.0
_DEFAULT_GRACE: Final = 30.0
_DEADLINE_EXCEEDED: Final = (
    "Failed",
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)


async def _together(tasks: list[asyncio.Task[bool]]) -> None:
    """Waits for all; the first that fails ends the others, and its exception is raised."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PodWorker:
    """Starts a pod's containers, reports what becomes of them, and takes the pod down when it is deleted.

    Args:
        host: The node.
        pod: The pod, as the API server showed it first.
    """

    def __init__(self, host: Host, pod: dict[str, Any]) -> None:
        self.host = host
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.folder: Path = host.folder / "pods" / self.uid
        self.place = Place("", host.addresses.host, host.allocatable)
        self.volumes: dict[str, Path] = {}
        self.stopping = False
        self._vanished = False
        self._finished = False
        self._woken = asyncio.Event()
        self._stop = asyncio.Event()
        self._writing = asyncio.Lock()
        self._sent: dict[str, Any] = {}
        self._verdict: tuple[str, str, str] | None = None
        self._runners = [ContainerRunner(self, spec, init=True) for spec in pod["spec"].get("initContainers") or ()]
        self._runners += [ContainerRunner(self, spec, init=False) for spec in pod["spec"]["containers"]]
        self._task: asyncio.Task[None] | None = None

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def done(self) -> bool:
        """Whether nothing is left to do for it."""
        return self._task is None or self._task.done()

    @property
    def _states(self) -> list[ContainerState]:
        return [runner.state for runner in self._runners]

    # What its kubelet tells it

    def begin(self) -> None:
        """Starts the work."""
        self._task = asyncio.create_task(self._run(), name=f"pod {self.namespace}/{self.name}")

    def update(self, pod: dict[str, Any]) -> None:
        """The pod has changed."""
        self.pod = pod
        self._woken.set()

    def vanish(self) -> None:
        """The pod is gone from the API server: whatever runs of it is to be ended."""
        self._vanished = True
        self._woken.set()

    async def abort(self) -> None:
        """The node has lost power: everything ends here, and nobody is told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def ended(self) -> None:
        """Returns when nothing of it runs any more."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def report_again(self) -> None:
        """Writes the status once more: others may have changed it while the node was away.

        A pod that they have ended stays so, as the API server sees to.
        """
        if (self.pod.get("status") or {}).get("phase") in _FINISHED:
            return
        try:
            await self.publish(force=True)
        except Gone:
            return
        except ApiError as error:
            _LOG.warning("the status of pod %s/%s stays as it is: %s", self.namespace, self.name, error.message)

    def end(self, exit_code: int, reason: str, container: str | None = None) -> None:
        """Makes a container exit: the named one, else the first that runs.

        Raises:
            LookupError: None such runs.
        """
        for runner in self._runners:
            if runner.live is not None and container in (None, runner.state.name):
                runner.live.end(exit_code, reason)
                return
        raise LookupError(f"pod {self.namespace}/{self.name} has no running container {container or ''}".rstrip())

    def log(self, container: str, *, previous: bool) -> ContainerLog | None:
        """The log of the container's present run, or of the one before; None when there is none."""
        logs = next(runner.logs for runner in self._runners if runner.state.name == container)
        index = -2 if previous else -1
        return logs[index] if len(logs) >= -index else None

    def waiting_reason(self, container: str) -> str:
        """Why the container has no log yet."""
        state = next(state for state in self._states if state.name == container).state
        return str(state.get("waiting", {}).get("reason", "ContainerCreating"))

    # Its own work

    async def pause(self, seconds: float) -> None:
        """Waits on the clock.

        Raises:
            Stopping: The pod is to stop.
        """
        sleeping = asyncio.ensure_future(self.host.clock.sleep(seconds))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()
        if self.stopping:
            raise Stopping

    async def read_data(self, resource: Resource, name: str) -> dict[str, bytes]:
        """The keys of a ConfigMap or Secret of the pod's namespace."""
        return await self.host.read_data(resource, self.namespace, name)

    async def publish(self, *, phase: str | None = None, force: bool = False, **more: Any) -> None:
        """Writes the status if it has changed since it was last written.

        Raises:
            Gone: The pod is not there any more.
        """
        async with self._writing:
            if self._vanished:
                raise Gone
            reason = message = ""
            if self._verdict is not None and not any(state.running for state in self._states):
                phase, reason, message = self._verdict
            policy = self.pod["spec"].get("restartPolicy", "Always")
            status = pod_status(
                self.pod.get("status") or {},
                self._states,
                phase or phase_of(self._states, policy),
                now=self.host.clock.now(),
                reason=reason,
                message=message,
            )
            if self.place.pod_ip:
                ip = self.place.pod_ip
                # Lists of addresses merge by address, and a pod of before the node's restart had another one.
                status.update(podIP=ip, podIPs=[{"$patch": "replace"}, {"ip": ip}], hostIP=self.place.host_ip)
                status["hostIPs"] = [{"ip": self.place.host_ip}]
            status.update(more)
            content = {key: value for key, value in status.items() if key != "conditions"}
            if content == self._sent and not force:
                return
            body = {"metadata": {"uid": self.uid}, "status": status}

            async def write(api: Api) -> dict[str, Any]:
                return await api.patch(PODS, self.namespace, self.name, body, subresource="status")

            self.pod = await self.host.link.write(write)
            self._sent = content

    async def _run(self) -> None:
        work = asyncio.create_task(self._work(), name=f"containers of {self.namespace}/{self.name}")
        try:
            await self._until_deleted()
            await self._take_down(work)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await asyncio.gather(*(runner.kill() for runner in self._runners))
            self._release()

    async def _work(self) -> None:
        try:
            if (self.pod.get("status") or {}).get("phase") in _FINISHED:
                self._finished = True
                return
            for runner in self._runners:
                runner.recover(self.pod.get("status") or {})
            await self._prepare()
            await self._run_containers()
        except Stopping:
            return
        except Gone:
            self.vanish()
        except Exception:  # noqa: BLE001 - logged with its traceback
            # The pod stays as it is; the node's other pods are not to suffer for it.
            _LOG.exception("pod %s/%s can't be run", self.namespace, self.name)

    async def _prepare(self) -> None:
        known = (self.pod.get("status") or {}).get("startTime")
        self.place.pod_ip = self.host.addresses.take()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.host.names.open_file(self.pod, self.place.pod_ip, self.folder / "hosts")
        for runner in self._runners:
            runner.announce(alone=len(self._runners) == len(self.pod["spec"]["containers"]))
        await self.publish(startTime=known or timestamp(self.host.clock.now()))
        while True:
            try:
                self.volumes = await prepare_volumes(
                    self.pod, self.folder / "volumes", self.place, self.read_data, self._token
                )
            except VolumeError as error:
                _LOG.warning("pod %s/%s: MountVolume.SetUp failed: %s", self.namespace, self.name, error)
                await self.pause(_VOLUME_RETRY)
            else:
                return

    async def _token(self, source: dict[str, Any]) -> str:
        return await self.host.service_account_token(self.pod, source)

    async def _run_containers(self) -> None:
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        timer = asyncio.create_task(self._enforce(deadline)) if deadline else None
        try:
            for runner in self._runners:
                if runner.state.init and not await runner.run():
                    return
            mains = [runner for runner in self._runners if not runner.state.init]
            for runner in mains:
                runner.announce(alone=True)
            await _together([asyncio.create_task(runner.run()) for runner in mains])
        finally:
            self._finished = not self.stopping
            if timer is not None:
                timer.cancel()

    async def _enforce(self, deadline: float) -> None:
        """``activeDeadlineSeconds``: the pod fails when it has run for that long."""
        with contextlib.suppress(Stopping):
            await self.pause(deadline)
            self._verdict = _DEADLINE_EXCEEDED
            self._begin_stop()
            await self.host.clock.sleep(self.pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
            await asyncio.gather(*(runner.kill() for runner in self._runners))

    def _begin_stop(self) -> None:
        self.stopping = True
        self._stop.set()
        for runner in self._runners:
            runner.terminate()

    async def _until_deleted(self) -> None:
        while not self._vanished and "deletionTimestamp" not in self.pod["metadata"]:
            self._woken.clear()
            await self._woken.wait()

    async def _take_down(self, work: asyncio.Task[None]) -> None:
        """SIGTERM, SIGKILL after the grace, the last status, then the deletion that lets the object go."""
        self._begin_stop()
        begun = self.host.clock.now()
        while not work.done():
            grace = float(self.pod["metadata"].get("deletionGracePeriodSeconds", _DEFAULT_GRACE))
            left = (_ORPHAN_GRACE if self._vanished else grace) - (self.host.clock.now() - begun).total_seconds()
            if left <= 0:
                await asyncio.gather(*(runner.kill() for runner in self._runners))
                await asyncio.wait({work})
                break
            await self._wait_for(work, left)
        if self._vanished:
            return
        with contextlib.suppress(Gone):
            if not self._finished:
                await self._publish_last()
            await self.host.link.write(
                lambda api: api.delete(PODS, self.namespace, self.name, uid=self.uid, grace_period=0)
            )

    async def _wait_for(self, work: asyncio.Task[None], seconds: float) -> None:
        """Until the work is done, the time is up, or the pod has changed."""
        self._woken.clear()
        timer = asyncio.ensure_future(self.host.clock.sleep(seconds))
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({work, timer, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            woken.cancel()

    async def _publish_last(self) -> None:
        """A deleted pod ends ``Succeeded`` only when each of its containers has exited with 0."""
        succeeded = all(state.succeeded for state in self._states)
        await self.publish(phase="Succeeded" if succeeded else "Failed")

    def _release(self) -> None:
        self.host.names.forget(self.pod)
        if self.place.pod_ip:
            self.host.addresses.give_back(self.place.pod_ip)

    def forget(self) -> None:
        """Removes its files: the pod's object is gone, so nobody can ask for its logs any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

"""A local cluster and an Airflow, both as processes of their own, and a look at each from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config, watch

from demo.airflow import Airflow
from demo.services import Service, wait_for

__all__ = ["NAMESPACE", "Cluster", "Run", "Seen", "program", "still_running"]

NAMESPACE: Final = "default"
_TRAINER: Final = ("trainer.kubeflow.org", "v1alpha1", NAMESPACE, "trainjobs")
_PATIENCE: Final = 60.0

Object = dict[str, Any]


@contextmanager
def program(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program with everything that it prints in one stream; it is ended when the block leaves it running."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def still_running(folder: Path) -> list[str]:
    """The commands of all processes that know the folder by their arguments, their environment or their place."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(process / name).read_bytes() for name in ("cmdline", "environ")]
            texts.append(os.fsencode((process / "cwd").readlink()))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is another user's
            continue
        if process.name != str(os.getpid()) and any(os.fsencode(folder) in text for text in texts):
            found.append(texts[0].replace(b"\0", b" ").decode(errors="replace"))
    return found


@dataclass(frozen=True)
class Seen:
    """One event of a watch, and when it came here."""

    at: datetime
    type: str
    obj: Object

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])


@dataclass
class Cluster:
    """The local cluster, through its kubeconfig and its command line.

    From :meth:`follow` on, every event of TrainJobs and Nodes is kept: what existed for a moment is seen too.
    """

    service: Service
    state: Object
    state_file: Path
    trainjobs: list[Seen] = field(default_factory=list)
    nodes: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        configuration = client.Configuration()
        config.load_kube_config(self.state["kubeconfig"], client_configuration=configuration)
        self.core = client.CoreV1Api(client.ApiClient(configuration))
        self.custom = client.CustomObjectsApi(client.ApiClient(configuration))

    def follow(self) -> None:
        """Keeps what the API tells of TrainJobs and Nodes, for as long as this process lives."""

        def trainjobs() -> None:
            for event in watch.Watch().stream(self.custom.list_namespaced_custom_object, *_TRAINER):
                self.trainjobs.append(Seen(datetime.now(UTC), event["type"], event["object"]))

        def nodes() -> None:
            for event in watch.Watch().stream(self.core.list_node):
                self.nodes.append(Seen(datetime.now(UTC), event["type"], event["raw_object"]))

        for target in (trainjobs, nodes):
            threading.Thread(target=self._until_it_ends, args=(target,), name=target.__name__, daemon=True).start()

    def _until_it_ends(self, target: Callable[[], None]) -> None:
        """A watch that breaks while the cluster runs fails the test that misses its events; at the end it has to."""
        try:
            target()
        except Exception as error:  # noqa: BLE001 (a thread has nobody to raise to)
            sys.stderr.write(f"the watch of {target.__name__} ended: {error!r}\n")

    def uids_of(self, run: Run) -> list[str]:
        """The UIDs of all TrainJobs that ever existed for a Dag run, in the order in which they came."""
        return list(dict.fromkeys(seen.uid for seen in self.trainjobs if run.made(seen.obj)))

    def pods(self, run: Run) -> list[Object]:
        """The pods of a Dag run's jobs, by completion index."""
        names = {seen.name for seen in self.trainjobs if run.made(seen.obj)}
        listed = self.core.list_namespaced_pod(NAMESPACE).to_dict()["items"]
        found = [
            pod for pod in listed if (pod["metadata"]["labels"] or {}).get("jobset.sigs.k8s.io/jobset-name") in names
        ]
        return sorted(found, key=lambda pod: str(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]))

    def unknown_at(self, node: str, after: datetime) -> datetime | None:
        """When a watch first brought, after a moment, that a Node is ``Ready=Unknown``."""
        for seen in self.nodes:
            if seen.name == node and seen.at > after and _ready(seen.obj) == "Unknown":
                return seen.at
        return None

    def is_ready(self, node: str) -> bool:
        """Whether a Node is Ready and without taints now."""
        found = client.ApiClient().sanitize_for_serialization(self.core.read_node(node))
        return _ready(found) == "True" and not found["spec"].get("taints")

    def local(self, *words: str) -> None:
        """``airflow-dispatch local ...``."""
        program = Path(sys.executable).parent / "airflow-dispatch"
        subprocess.run([program, "local", *words, "--state", self.state_file], check=True, env=os.environ)

    @property
    def secrets(self) -> list[str]:
        """What nobody but the cluster and its clients may ever hold: the token, and a piece of the kubeconfig."""
        content = yaml.safe_load(Path(self.state["kubeconfig"]).read_text())
        return [
            content["users"][0]["user"]["token"],
            content["clusters"][0]["cluster"]["certificate-authority-data"][:200],
            self.state["token"],
        ]


@dataclass
class Run:
    """One Dag run, and the folder through which the test and the ranks of its jobs talk."""

    airflow: Airflow
    dag_id: str
    run_id: str
    folder: Path

    @classmethod
    def start(cls, airflow: Airflow, dag_id: str, folder: Path) -> Run:
        return cls(airflow, dag_id, airflow.run(dag_id, {"folder": str(folder)}), folder)

    def made(self, trainjob: Object) -> bool:
        """Whether a TrainJob is one of this run's."""
        origin = (trainjob["metadata"].get("annotations") or {}).get("dispatch.phpboyscout.uk/origin", "{}")
        return bool(json.loads(origin).get("run_id") == self.run_id)

    def tell(self, name: str, content: str = "") -> None:
        """Writes a file that the ranks look for."""
        partial = self.folder / f".{name}"
        partial.write_text(content)
        partial.replace(self.folder / name)

    def until_deferred(self, task: str = "train", attempt: int = 1) -> None:
        """Returns when the task waits on the triggerer and the scheduler has heard so from its executor.

        The executor may take five seconds to say it. Airflow 3.3 fails a task that has resumed by then.
        """
        marks = (f"task_id={task}, run_id={self.run_id}", "state=deferred", f"try_number={attempt},")
        log = self.airflow.services["scheduler"].log

        def heard() -> bool:
            lines = log.read_text(errors="replace").splitlines()
            return any("TaskInstance Finished" in line and all(mark in line for mark in marks) for line in lines)

        self._wait(f"{task} deferred", heard, _PATIENCE, task, attempt)

    def state(self, task: str = "train") -> str | None:
        """The task's state."""
        state: str | None = self.airflow.task(self.dag_id, self.run_id, task)["state"]
        return state

    def log(self, task: str = "train", attempt: int = 1) -> list[Object]:
        """The entries of one try's log."""
        return self.airflow.log(self.dag_id, self.run_id, task, attempt)

    def lines(self, task: str = "train", attempt: int = 1) -> list[str]:
        """The texts of one try's log."""
        return [str(entry.get("event", "")) for entry in self.log(task, attempt)]

    def text(self, task: str = "train", attempt: int = 1) -> str:
        """One try's log with everything that is in it, as text: tracebacks too."""
        return "\n".join(json.dumps(entry, ensure_ascii=False) for entry in self.log(task, attempt))

    def until_logged(self, words: str, task: str = "train", attempt: int = 1, seconds: float = _PATIENCE) -> Object:
        """The first entry of the log that contains ``words``, once it is there."""
        found: list[Object] = []

        def ready() -> bool:
            found[:] = [entry for entry in self.log(task, attempt) if words in str(entry.get("event", ""))]
            return bool(found)

        self._wait(f"{words!r} in the log of {task}", ready, seconds, task, attempt)
        return found[0]

    def until(self, state: str, task: str = "train", seconds: float = _PATIENCE) -> None:
        """Returns when the task has this state; fails at once when it has ended otherwise."""
        ended = {"success", "failed", "skipped", "upstream_failed", "removed"}
        seen: list[str | None] = [None]

        def ready() -> bool:
            seen[0] = self.state(task)
            return seen[0] == state or seen[0] in ended

        self._wait(f"{task} {state}", ready, seconds, task)
        attempt = max(1, self.airflow.task(self.dag_id, self.run_id, task)["try_number"])
        self._wait(f"the end of the log of {task}", lambda: self._is_whole(task, attempt), seconds, task, attempt)
        if seen[0] != state:
            raise AssertionError(f"{task} is {seen[0]}, not {state}; its log:\n" + self.text(task, attempt))

    def _is_whole(self, task: str, attempt: int) -> bool:
        """Whether a worker has written the last group of its log: the task's state is final a moment before."""
        groups = [line for line in self.lines(task, attempt) if line.startswith(("::group::Pre", "::group::Post"))]
        return bool(groups) and groups[-1].startswith("::group::Post")

    def _wait(self, what: str, ready: Callable[[], bool], seconds: float, task: str, attempt: int = 1) -> None:
        try:
            wait_for(what, ready, list(self.airflow.services.values()), seconds)
        except Exception as error:
            error.add_note(f"the log of {task}, try {attempt}:\n" + "\n".join(self.lines(task, attempt)))
            raise


def _ready(node: Object) -> str:
    conditions = node.get("status", {}).get("conditions") or []
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")

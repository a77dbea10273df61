"""A local cluster over HTTPS whose containers run until they are told to end, and the command line in front of it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.kubelet.scripted import Script
from airflow_dispatch.localcluster.resources import PODS
from airflow_dispatch.localcluster.thread import ClusterThread

WAIT_SECONDS = 30.0
EXECUTABLE = str(Path(sys.executable).parent / "airflow-dispatch")
JOB = {"argv": ["sleep", "60"], "runtime": "torch-distributed", "num_nodes": 2}


def until(holds: Callable[[], bool]) -> None:
    """Returns when it holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def observations(self) -> list[dict[str, Any]]:
        """What ``--output json`` printed."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class CommandLine:
    """``airflow-dispatch`` in this process, with the cluster's kubeconfig."""

    cluster: ClusterThread
    kubeconfig: Path
    directory: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Said:
        code = main([*arguments, "--kubeconfig", str(self.kubeconfig)])
        return Said(code, *self.capsys.readouterr())

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        """The observations of a command that must succeed."""
        said = self(*arguments, "--output", "json")
        assert said.code == Exit.DONE, said
        return said.observations

    def json_without_cluster(self, *arguments: str) -> list[dict[str, Any]]:
        """As :meth:`json`, of a command that needs no cluster."""
        code = main([*arguments, "--output", "json"])
        said = Said(code, *self.capsys.readouterr())
        assert (said.code, said.err) == (Exit.DONE, "")
        return said.observations

    def file(self, content: object) -> str:
        """A job file."""
        path = self.directory / "job.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def started(self, **fields: Any) -> str:
        """The JobID of a new job, gated."""
        said = self("start", self.file({**JOB, **fields}))
        assert re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\n", said.out), said
        return said.out.strip()

    def opened(self, **fields: Any) -> str:
        """The JobID of a new job, running."""
        job_id = self.started(**fields)
        assert self("open", job_id).code == Exit.DONE
        until(lambda: self.pods(job_id, "Running") == self.ranks(fields))
        return job_id

    def ranks(self, fields: dict[str, Any]) -> int:
        return int({**JOB, **fields}["num_nodes"])

    def pods(self, job_id: str, phase: str) -> int:
        """How many pods of a job are in this phase."""
        return sum(pod["status"]["phase"] == phase for pod in self.pods_of(job_id))

    def pods_of(self, job_id: str) -> Sequence[dict[str, Any]]:
        """The pods of a job, by name."""
        pods = self.cluster.read(lambda cluster: cluster.registry.list(PODS, "default").items)
        return [pod for pod in pods if pod["metadata"]["name"].startswith(f"dj-{job_id.lower()}-")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    with LocalCluster.in_thread(runtime="scripted", script=lambda _: Script(output=b"epoch 1\nepoch 2\n")) as running:
        yield running


@pytest.fixture
def cli(cluster: ClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(cluster, cluster.kubeconfig, tmp_path, capsys)

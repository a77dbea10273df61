"""``airflow-dispatch record``, and that ``replay`` says of a recording what the live hub said."""

from __future__ import annotations

import json
import signal
import subprocess
from io import FileIO
from pathlib import Path

import pytest

from airflow_dispatch.cli.exits import Exit
from tests.cli.conftest import EXECUTABLE, CommandLine, until

SECRET = "hunter2"


def recording(cli: CommandLine, *arguments: str) -> subprocess.Popen[str]:
    """The real executable, once it records."""
    command = [EXECUTABLE, "record", *arguments, "--kubeconfig", str(cli.kubeconfig)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "recording to" in process.stderr.readline()
    return process


def test_a_recorded_job_replays_to_what_the_live_hub_said(cli: CommandLine, tmp_path: Path) -> None:
    job_id = cli.opened(env={"PASSWORD": SECRET}, argv=["train", f"--token={SECRET}"])
    file = tmp_path / "job.jsonl"
    with recording(cli, job_id, "-o", str(file)) as recorder:
        with subprocess.Popen(
            [EXECUTABLE, "watch", job_id, "--output", "json", "--kubeconfig", str(cli.kubeconfig)],
            stdout=subprocess.PIPE,
            text=True,
        ) as watch:
            assert watch.stdout is not None
            watched = [watch.stdout.readline()]
            cli.cluster.faults.pod_exit(cli.pods_of(job_id)[1]["metadata"]["name"], 3)
            watched += watch.stdout.readlines()
        assert recorder.wait() == Exit.DONE
    cli("cancel", job_id)

    live = json.loads(watched[-1])
    (replayed,) = cli.json_without_cluster("replay", str(file))
    live.pop("seen_at")
    replayed.pop("seen_at")
    assert live["state"] == "ended"
    assert replayed == live
    assert cli.json_without_cluster("replay", str(file), "--until", "the job has ended")
    assert SECRET not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_job_the_namespace_is_recorded_until_it_is_interrupted(cli: CommandLine, tmp_path: Path) -> None:
    job_id = cli.opened()
    file = tmp_path / "all.jsonl"
    with recording(cli, "-o", str(file)) as recorder:
        until(lambda: file.read_text().count(f'"name":"dj-{job_id.lower()}-s1"') > 2)
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait() == Exit.DONE
    cli("cancel", job_id)
    assert job_id in [each["job_id"] for each in cli.json_without_cluster("replay", str(file))]


def test_a_file_that_is_there_is_not_written_over(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("mine")
    said = cli("record", "-o", str(file))
    assert (said.code, file.read_text()) == (Exit.USAGE, "mine")
    assert f"{file} exists already" in said.err


def test_a_job_that_is_not_there_is_not_recorded(cli: CommandLine, tmp_path: Path) -> None:
    said = cli("record", "01K6NJRFAE13R8H0C3SWZGBJ7R", "-o", str(tmp_path / "none"))
    assert said.code == Exit.NO
    assert not (tmp_path / "none").exists()


def test_watches_that_are_not_allowed_are_named(cli: CommandLine, tmp_path: Path) -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    cli.kubeconfig = cli.cluster.read(lambda cluster: cluster.server.add_user("reader", rules))
    said = cli("record", "-o", str(tmp_path / "none"))
    assert said.code == Exit.REFUSED
    assert "no permission to watch" in said.err


def test_a_full_disk_ends_it_with_a_message(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_dispatch.cli.record._new_file", lambda _: FileIO("/dev/full", "w"))
    said = cli("record", "-o", "full")
    assert said.code == Exit.USAGE
    assert "full: No space left on device" in said.err

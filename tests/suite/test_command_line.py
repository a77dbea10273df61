"""The command line on either cluster, under the service accounts of the guide on permissions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_dispatch.adapter import installation
from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.kube.config import ClusterConfig
from tests.suite.workspace import Workspace
from tests.support.accounts import TRIGGERER, WORKER

EXECUTABLE = str(Path(sys.executable).parent / "airflow-dispatch")


def where(workspace: Workspace, account: str | None = None) -> list[str]:
    """The options that reach the workspace, as an administrator or as an account."""
    config: ClusterConfig = workspace.accounts.configs[account] if account else workspace.config
    return ["--kubeconfig", str(config.kubeconfig), "--namespace", workspace.namespace]


def test_doctor_finds_nothing_wrong_with_the_documented_roles(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    for role, account in (("worker", WORKER), ("triggerer", TRIGGERER)):
        assert main(["doctor", "--role", role, *where(workspace, account)]) == Exit.DONE, capsys.readouterr()
    assert main(["doctor", *where(workspace)]) == Exit.DONE
    assert capsys.readouterr().out == ""


def test_doctor_names_what_a_triggerer_lacks_to_start_jobs(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *where(workspace, TRIGGERER)]) == Exit.NO
    found = capsys.readouterr().out
    assert f"no permission to create trainjobs.trainer.kubeflow.org in namespace {workspace.namespace}. Why: " in found
    assert "get clustertrainingruntimes" in found


def test_doctor_and_harden_know_the_runtime_as_trainer_ships_it(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--runtime", "torch-distributed-unsafe", *where(workspace)]) == Exit.NO
    assert capsys.readouterr().out.startswith("runtime torch-distributed-unsafe is unsafe: template.spec.backoffLimit")
    assert main(["harden-runtime", "torch-distributed-unsafe", *where(workspace, WORKER)]) == Exit.DONE
    assert "podReplacementPolicy: Failed" in capsys.readouterr().out


def test_doctor_knows_the_fields_that_a_cluster_has(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tuple(each._replace(field=each.field.replace(".", ".no")) for each in installation._FEATURES)
    monkeypatch.setattr(installation, "_FEATURES", others)
    assert main(["doctor", *where(workspace)]) == Exit.NO
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        f"{each.resource.kind} has no field {each.field}" for each in others
    ]


@pytest.mark.timeout(180)
def test_a_job_is_started_recorded_and_replayed(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = 'sleep 3; if [ "$PET_NODE_RANK" = 1 ]; then exit 3; fi; exec sleep 60'
    job = {
        "argv": ["sh", "-c", program],
        "runtime": "torch-distributed",
        "num_nodes": 2,
        "resources_per_node": {"cpu": "1", "memory": "256Mi"},
        "env": {"PASSWORD": "hunter2"},
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["start", str(tmp_path / "job.json"), *where(workspace, WORKER)]) == Exit.DONE
    job_id = capsys.readouterr().out.strip()
    try:
        file = tmp_path / "job.jsonl"
        recorder = subprocess.Popen(
            [EXECUTABLE, "record", job_id, "-o", str(file), *where(workspace, TRIGGERER)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert recorder.stderr is not None
        assert "recording to" in recorder.stderr.readline()
        assert main(["open", job_id, *where(workspace, WORKER)]) == Exit.DONE
        capsys.readouterr()
        assert main(["watch", job_id, "--output", "json", *where(workspace, TRIGGERER)]) == Exit.NO
        live = json.loads(capsys.readouterr().out.splitlines()[-1])
        recorder.communicate()
        assert recorder.returncode == Exit.DONE

        assert main(["replay", str(file), "--output", "json"]) == Exit.DONE
        (replayed,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert replayed["cause"]["kind"] == "non-zero-exit"
        assert {**replayed, "seen_at": None} == {**live, "seen_at": None}
        assert "hunter2" not in file.read_text()
    finally:
        main(["cancel", job_id, *where(workspace, WORKER)])

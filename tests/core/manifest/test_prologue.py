"""The prologue, run by a real ``sh``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_dispatch.core.manifest.prologue import BAD_COUNTERS, COMMAND

INPUTS = {
    "DISPATCH_K8S_EPOCH_PREFIX": "3",
    "DISPATCH_K8S_TOKEN_PREFIX": "JOB.3.1",
    "DISPATCH_K8S_ADMISSION": "2",
    "DISPATCH_K8S_RESTART": "5",
}


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *argv], env={"PATH": "/usr/bin:/bin", **INPUTS, **env}, capture_output=True, text=True, check=False
    )


def test_it_works_out_epoch_and_token() -> None:
    assert run("sh", "-c", "echo $DISPATCH_EPOCH $DISPATCH_ATTEMPT").stdout == "3000007 JOB.3.1.2.5\n"


def test_its_inputs_do_not_reach_the_job() -> None:
    names = {line.partition("=")[0] for line in run("env").stdout.splitlines()}
    assert names & {*INPUTS, "DISPATCH_K8S_WORKDIR", "counter", "value", "execution"} == set()


def test_arguments_reach_the_job_unchanged() -> None:
    argv = ["a b", "$HOME", "", "'", "*", "-x"]
    assert run("printf", "%s\\n", *argv).stdout.split("\n")[:-1] == argv


def test_it_changes_to_the_work_directory(tmp_path: Path) -> None:
    assert run("pwd", DISPATCH_K8S_WORKDIR=str(tmp_path)).stdout == f"{tmp_path}\n"


@pytest.mark.parametrize("value", ["", "x", "01", "-1", "1.0", "1000000", "99999999"])
@pytest.mark.parametrize("counter", ["DISPATCH_K8S_ADMISSION", "DISPATCH_K8S_RESTART"])
def test_a_bad_counter_ends_it_with_a_message(counter: str, value: str) -> None:
    done = run("true", **{counter: value})
    assert (done.returncode, counter in done.stderr) == (BAD_COUNTERS, True)


def test_the_job_s_exit_code_is_its_own() -> None:
    assert run("sh", "-c", "exit 3").returncode == 3

"""Job files: what is understood, and what is said of mistakes."""

from __future__ import annotations

import inspect
import json

import pytest

from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.jobfile import _TYPES, parse_job
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.job import Credential, Publish, TrainingJob
from tests.cli.conftest import CommandLine

JOB_ID = "01K6NJRFAE13R8H0C3SWZGBJ7R"
WHOLE = """
job_id: 01K6NJRFAE13R8H0C3SWZGBJ7S
argv: [python, train.py]
runtime: torch
num_nodes: 2
time_limit: 3600
resources_per_node: {cpu: 4, memory: 16Gi}
env: {LEVEL: "3"}
credentials:
  - {secret: bucket, mount_path: /var/bucket}
publish: {image: registry/bundle:1}
labels:
"""


def test_a_file_says_what_a_job_is() -> None:
    job = parse_job(WHOLE.encode(), JOB_ID)
    assert job == TrainingJob.validated(
        job_id="01K6NJRFAE13R8H0C3SWZGBJ7S",
        argv=["python", "train.py"],
        runtime="torch",
        num_nodes=2,
        time_limit=3600,
        resources_per_node={"cpu": "4", "memory": "16Gi"},
        env={"LEVEL": "3"},
        credentials=[Credential(secret="bucket", mount_path="/var/bucket")],
        publish=Publish(image="registry/bundle:1"),
    )


def test_json_with_tabs_is_json_and_the_new_job_id_is_taken() -> None:
    job = parse_job(json.dumps({"argv": ["true"], "runtime": "torch"}, indent="\t").encode(), JOB_ID)
    assert (job.job_id, job.argv) == (JOB_ID, ("true",))


def test_every_field_of_a_job_is_a_key() -> None:
    assert set(_TYPES) == set(inspect.signature(TrainingJob.validated).parameters)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file must be a mapping of keys to values, not None"),
        ("- argv", "the file must be a mapping of keys to values, not ['argv']"),
        ("argv: [", "neither YAML nor JSON: "),
        ('{"argv": [', "neither YAML nor JSON: "),
        ("runtime: torch", "argv must be given"),
        ("image: a", "argv and runtime must be given"),
        ("argv: [a]\nargv: [b]\nruntime: torch", "argv is given twice (line 2)"),
        ('{"argv": ["a"], "env": {"A": "1", "A": "2"}}', "A is given twice"),
        ("argv: [a]\nruntime: torch\nenv: {A: '1', A: '2'}", "A is given twice (line 3)"),
        ("argv: [a]\nruntime: torch\nnodes: 2", "nodes is no key here, did you mean num_nodes?; keys are job_id, argv"),
        ("argv: [a]\nruntime: torch\nxyz: 2", "xyz is no key here; keys are job_id, argv, runtime"),
        ("argv: python train.py\nruntime: torch", "argv must be a list, not 'python train.py'"),
        ("argv: [a]\nruntime: 5", "runtime must be text, not 5"),
        ("argv: [a]\nruntime: torch\nnum_nodes: '2'", "num_nodes must be a whole number, not '2'"),
        ("argv: [a]\nruntime: torch\nnum_nodes: true", "num_nodes must be a whole number, not True"),
        ("argv: [a]\nruntime: torch\nnum_nodes: 0", "num_nodes 0 is not a whole number of at least 1"),
        ("argv: [a]\nruntime: torch\nenv: [A]", "env must be a mapping, not ['A']"),
        ("argv: [a]\nruntime: torch\nenv: {A: 1}", "env 'A': 1 is no text: write it in quotes"),
        ("argv: [a]\nruntime: torch\ncredentials: [b]", "credentials[0] must be a mapping"),
        ("argv: [a]\nruntime: torch\ncredentials: [{secret: b}]", "credentials[0] needs secret and mount_path"),
        (
            "argv: [a]\nruntime: torch\ncredentials: [{secret: b, mountPath: c}]",
            "credentials[0].mountPath is no key here, did you mean mount_path?; keys are secret, mount_path",
        ),
        ("argv: [a]\nruntime: torch\npublish: {image: 5}", "publish.image must be text, not 5"),
        ("argv: [a]\nruntime: torch\npublish: {}", "publish needs either an image or an init container"),
        ("job_id: x\nargv: [a]\nruntime: torch", "job_id 'x' is not a ULID"),
    ],
)
def test_a_mistake_is_named_with_its_key(text: str, complaint: str) -> None:
    with pytest.raises(InvalidJob) as error:
        parse_job(text.encode(), JOB_ID)
    assert str(error.value).startswith(complaint)


def test_a_mistake_names_the_file_and_nothing_is_created(cli: CommandLine) -> None:
    file = cli.file("argv: [a]")
    said = cli("start", file)
    assert (said.code, said.err) == (Exit.USAGE, f"airflow-dispatch: {file}: runtime must be given\n")


@pytest.mark.parametrize(("mode", "queue"), [("kueue", None), ("plain", "team")])
def test_a_job_of_the_other_mode_is_not_started(mode: str, queue: str | None, cli: CommandLine) -> None:
    file = cli.file({"argv": ["a"], "runtime": "torch-distributed", "queue": queue})
    said = cli("start", file, "--mode", mode)
    assert said.code == Exit.USAGE
    assert "queue " in said.err

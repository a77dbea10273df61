"""The documentation says what is so: commands parse, code imports, links lead somewhere, permissions suffice."""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_dispatch.adapter import Adapter
from airflow_dispatch.cli import parser
from airflow_dispatch.core.errors import Forbidden
from airflow_dispatch.core.identity import TaskKey, job_id_of
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.core.observation import CauseKind, State
from airflow_dispatch.exceptions import error_of
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.kube.hub import shared_hub
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.thread import ClusterThread
from airflow_dispatch.operators.trainjob import OpenTrainJobOperator, SubmitTrainJobOperator, TrainJobOperator
from airflow_dispatch.sensors.trainjob import TrainJobSensor

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\S*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (str(page.relative_to(ROOT)), match[3])
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text())
        if match[1] == language
    ]


def commands() -> Iterator[tuple[str, str]]:
    for page, block in blocks("sh"):
        for line in block.splitlines():
            if line.strip():
                yield page, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_commands_are_understood(page: str, line: str) -> None:
    words = shlex.split(line)
    if words[0] == "airflow-dispatch":
        parser().parse_args(words[1:])
    elif words[0] == "make":
        dry_run = subprocess.run(
            ["make", "--dry-run", *words[1:]], cwd=ROOT, check=False, capture_output=True, text=True
        )
        assert dry_run.returncode == 0, dry_run.stderr
    else:
        assert words[0] in ("pip", "export"), f"{page}: nobody checks {line!r}"


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_code_compiles_and_what_it_imports_is_there(page: str, code: str) -> None:
    compile(code, page, "exec")
    imports = [line for line in code.splitlines() if line.startswith(("import ", "from "))]
    exec("\n".join(imports), {})


def test_the_dag_of_the_readme_can_be_built() -> None:
    code = next(code for page, code in blocks("python") if page == "README.md")
    made: dict[str, Any] = {}
    exec(code, made)


@pytest.mark.parametrize("operator", [SubmitTrainJobOperator, TrainJobOperator, OpenTrainJobOperator, TrainJobSensor])
def test_the_reference_names_every_parameter(operator: type) -> None:
    page = (ROOT / "docs/reference/operators.md").read_text()
    section = page.partition(f"## {operator.__name__}\n")[2].partition("\n## ")[0]
    for name, parameter in inspect.signature(operator).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert f"`{name}`" in section, name


def test_every_cause_is_in_the_reference_with_its_exception() -> None:
    page = (ROOT / "docs/reference/causes.md").read_text()
    for kind in set(CauseKind) - {CauseKind.NONE, CauseKind.COMPLETED}:
        outcome = {"cause": {"kind": kind.value, "provenance": "", "detail": "", "at": None}}
        assert f"| `{kind.value}` | `{type(error_of('', outcome)).__name__}` |" in page


# ------------------------------------------------------------ permissions


def documented_rules() -> list[dict[str, Any]]:
    text = next(block for page, block in blocks("yaml") if page.endswith("permissions.md"))
    return [rule for document in yaml.safe_load_all(text) for rule in document["rules"]]


def as_user(cluster: ClusterThread, name: str, rules: list[dict[str, Any]]) -> ClusterConfig:
    def add(running: LocalCluster) -> Path:
        return running.server.add_user(name, rules)

    return ClusterConfig(kubeconfig=str(cluster.read(add)))


def test_the_documented_permissions_are_enough_for_a_whole_life() -> None:
    with LocalCluster.in_thread(runtime="scripted") as cluster:
        asyncio.run(_whole_life(as_user(cluster, "airflow", documented_rules())))


def without(index: int, verb: str) -> list[dict[str, Any]]:
    """The documented rules, less one verb of one of them."""
    rules = documented_rules()
    rules[index] = {**rules[index], "verbs": [each for each in rules[index]["verbs"] if each != verb]}
    return rules


def test_each_verb_that_a_life_needs_is_missed_by_name() -> None:
    missed = set()
    with LocalCluster.in_thread(runtime="scripted") as cluster:
        for index, rule in enumerate(documented_rules()):
            resource = rule["resources"][0]
            for verb in rule["verbs"]:
                config = as_user(cluster, f"lacks-{index}-{verb}", without(index, verb))
                try:
                    asyncio.run(_whole_life(config))
                except Forbidden as error:
                    missed.add((resource, verb) if f"no permission to {verb} {resource}" in str(error) else str(error))
    named = ("trainjobs", "trainingruntimes", "jobsets", "jobs", "pods")
    expected = {(resource, verb) for resource in named for verb in ("get", "list", "watch")}
    expected |= {("trainjobs", verb) for verb in ("create", "update", "delete")}
    expected |= {("trainingruntimes", verb) for verb in ("create", "update")}
    expected |= {("clustertrainingruntimes", "get")}
    expected -= {("jobs", "get"), ("pods", "get")}  # these are only ever listed and watched
    assert missed == expected


async def _whole_life(config: ClusterConfig) -> None:
    key = TaskKey("docs", "dag", str(datetime.now(UTC)), "task", -1)
    job = TrainingJob.validated(
        job_id=job_id_of(key, datetime.now(UTC)),
        argv=["sleep", "60"],
        runtime="torch-distributed",
        num_nodes=1,
    )
    async with await KubeClient.connect(config) as client:
        adapter = Adapter(client, "default")
        observation = (await adapter.submit(job, key, 1, "ti")).observation
        name = observation.ref.partition("/")[2]
        try:
            await adapter.open(name, uid=observation.uid)
            async with asyncio.timeout(30), shared_hub(config, "default") as hub:
                async for snapshot in hub.subscribe(name):
                    if snapshot is None:
                        break
                    if snapshot.pods:
                        assert [each.state for each in await adapter.find(job.job_id)] == [State.RUNNING]
                        await adapter.cancel(name, uid=observation.uid)
        finally:
            await adapter.cancel(name, uid=observation.uid)

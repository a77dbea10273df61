"""The sessions of the documentation, run line by line on a local cluster."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.names import object_name
from airflow_dispatch.kube import paths
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.recording.replaying import RESOURCES
from tests.cli.conftest import CommandLine, until
from tests.support.pages import blocks

DOCUMENTED = "01K6NJRFAE13R8H0C3SWZGBJ7R"
WAITS_FOR_AN_END = ("watch", "record")


def lines(page: str) -> Iterator[str]:
    """The commands of a page, in order; those of the local cluster have a test of their own."""
    for where, text in blocks("sh"):
        if where == f"docs/{page}":
            yield from (line for line in text.splitlines() if line and " local " not in line)


def run(cli: CommandLine, line: str, job_id: str) -> str:
    """What a line prints, for this job instead of the documented one."""
    line = line.replace(DOCUMENTED, job_id).replace(DOCUMENTED.lower(), job_id.lower())
    command = shlex.split(line.partition(" | ")[0])[1:]
    if command[0] in WAITS_FOR_AN_END:
        for pod in cli.pods_of(job_id):
            cli.cluster.faults.pod_exit(pod["metadata"]["name"], 0)
    needs_a_cluster = command[0] not in ("classify", "replay")
    said = cli(*command) if needs_a_cluster else None
    if said is not None:
        assert said.code == Exit.DONE, (line, said)
        return said.out
    assert main(command) == Exit.DONE, line
    return cli.capsys.readouterr().out


def test_the_session_of_the_reference_runs(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (job,) = (text for page, text in blocks("yaml") if page.endswith("command-line.md"))
    (tmp_path / "job.yaml").write_text(job)
    job_id = ""
    for line in lines("reference/command-line.md"):
        printed = run(cli, line, job_id)
        if line.startswith("airflow-dispatch start"):
            job_id = printed.strip()
        settle(cli, line.split()[1], job_id)
    assert job_id


def settle(cli: CommandLine, verb: str, job_id: str) -> None:
    """Waits for what a verb sets going."""
    if verb in ("open", "release"):
        until(lambda: cli.pods(job_id, "Running") == 2)
    elif verb == "hold":
        until(lambda: not cli.pods_of(job_id))


def test_the_sessions_of_the_guide_to_bug_reports_run(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    job_id = cli.opened()
    kubectl, *ours = lines("guides/bug-reports.md")
    (tmp_path / "dump.json").write_text(json.dumps(cli.cluster.read(lambda cluster: dump(cluster, kubectl))))
    for line in ours:
        assert f"default/{object_name(job_id, 1)}" in run(cli, line, job_id) or " record " in line
    cli("cancel", job_id)


def dump(cluster: LocalCluster, command: str) -> dict[str, object]:
    """What the documented kubectl command prints: it must name all that a classification reads, but for Kueue's."""
    named = command.split()[2].split(",")
    assert set(named) == {resource.plural for resource in RESOURCES.values()} - {paths.WORKLOADS.plural}
    known = {resource.plural: resource for resource in cluster.registry.resources}
    items = [item for plural in named for item in cluster.registry.list(known[plural], None).items]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def test_the_safe_twin_of_the_guide_to_runtimes_is_printed(cli: CommandLine) -> None:
    (line,) = lines("guides/runtimes.md")
    assert "kind: ClusterTrainingRuntime" in run(cli, line, "")

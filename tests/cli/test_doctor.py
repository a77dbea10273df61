"""``doctor`` and ``harden-runtime``."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.manifest import unsafe_fields
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.resources import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, TRAINJOBS
from airflow_dispatch.localcluster.runtimes import SAFE_RUNTIME, UNSAFE_RUNTIME
from tests.cli.conftest import CommandLine
from tests.support.accounts import TRIGGERER, WORKER, verbs_of


def rules_of(account: str) -> list[dict[str, Any]]:
    """What the guide gives an account, a rule a verb; a Role's hold in the jobs' namespace alone."""
    return [
        {
            "apiGroups": [each.group],
            "resources": [each.resource],
            "verbs": [each.verb],
            **({"namespaces": ["default"]} if each.kind == "Role" else {}),
        }
        for each in verbs_of(account)
    ]


def rules_without(resource: str, verb: str) -> list[dict[str, Any]]:
    """What the guide gives to both, but for one verb."""
    both = rules_of(WORKER) + rules_of(TRIGGERER)
    return [rule for rule in both if (rule["resources"], rule["verbs"]) != ([resource], [verb])]


def as_user(cli: CommandLine, name: str, rules: list[dict[str, Any]]) -> None:
    cli.kubeconfig = cli.cluster.read(lambda cluster: cluster.server.add_user(name, rules))


def test_on_a_local_cluster_nothing_is_missing(cli: CommandLine) -> None:
    said = cli("doctor")
    assert (said.code, said.out) == (Exit.DONE, "")
    assert "nothing is missing for jobs in namespace default" in said.err
    assert cli("doctor", "--runtime", SAFE_RUNTIME).code == Exit.DONE


def test_the_documented_roles_are_enough_and_nothing_is_left_behind(cli: CommandLine) -> None:
    def everything(cluster: LocalCluster) -> list[Any]:
        return [cluster.registry.list(each).items for each in (TRAINJOBS, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES)]

    before = cli.cluster.read(everything)
    as_user(cli, "documented", rules_without("", ""))
    said = cli("doctor")
    assert (said.code, said.out) == (Exit.DONE, "")
    assert cli.cluster.read(everything) == before


@pytest.mark.parametrize(
    ("resource", "verb", "problem"),
    [
        ("trainjobs", "watch", "no permission to watch trainjobs.trainer.kubeflow.org in namespace default"),
        ("pods/log", "get", "no permission to get pods/log in namespace default"),
        ("nodes", "get", "no permission to get nodes"),
        ("trainingruntimes", "delete", "no permission to delete trainingruntimes.trainer.kubeflow.org in namespace"),
    ],
)
def test_a_verb_that_is_missing_is_named_with_its_reason_and_fix(
    resource: str, verb: str, problem: str, cli: CommandLine
) -> None:
    as_user(cli, f"without-{verb}-{resource}".replace("/", "-"), rules_without(resource, verb))
    said = cli("doctor")
    assert said.code == Exit.NO
    (line,) = said.out.splitlines()
    assert line.startswith(problem)
    assert ". Why: " in line
    assert "role" in line.partition(". Fix: ")[2].lower()


def test_a_role_is_asked_for_its_own_permissions_alone(cli: CommandLine) -> None:
    as_user(cli, "worker", rules_of(WORKER))
    assert cli("doctor", "--role", "worker").code == Exit.DONE
    assert "no permission to watch trainjobs" in cli("doctor").out
    as_user(cli, "triggerer", rules_of(TRIGGERER))
    assert cli("doctor", "--role", "triggerer").code == Exit.DONE


def test_an_unsafe_runtime_is_a_finding_as_json_too(cli: CommandLine) -> None:
    said = cli("doctor", "--runtime", UNSAFE_RUNTIME, "--output", "json")
    assert said.code == Exit.NO
    (finding,) = map(json.loads, said.out.splitlines())
    assert list(finding) == ["problem", "why", "fix"]
    assert finding["problem"].startswith(
        f"runtime {UNSAFE_RUNTIME} is unsafe: template.spec.backoffLimit: unset, not 0"
    )
    assert f"harden-runtime {UNSAFE_RUNTIME}" in finding["fix"]


def test_a_runtime_that_is_not_there_is_answered_with_those_that_are(cli: CommandLine) -> None:
    said = cli("doctor", "--runtime", "none")
    assert said.code == Exit.NO
    assert f"runtime 'none' is not known here; there are: {SAFE_RUNTIME}, {UNSAFE_RUNTIME}" in said.out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("label", "has no replicated job labelled trainer.kubeflow.org/trainjob-ancestor-step=trainer"),
        ("container", "its trainer job has no container 'node'"),
    ],
)
def test_a_runtime_in_which_nothing_trains_is_a_finding(change: str, problem: str, cli: CommandLine) -> None:
    name = f"no-{change}"

    def create(cluster: LocalCluster) -> None:
        """Trainer's webhook looks at new runtimes alone: what it refuses can still come about by an update."""
        shipped = cluster.registry.get(CLUSTER_TRAINING_RUNTIMES, None, SAFE_RUNTIME)
        body = {"metadata": {"name": name, "labels": shipped["metadata"]["labels"]}, "spec": shipped["spec"]}
        runtime = cluster.registry.create(CLUSTER_TRAINING_RUNTIMES, None, body)
        (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        if change == "label":
            replicated["template"]["metadata"] = {}
        else:
            replicated["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "main"
        cluster.registry.update(CLUSTER_TRAINING_RUNTIMES, None, name, runtime)

    cli.cluster.read(create)
    try:
        said = cli("doctor", "--runtime", name)
        assert said.code == Exit.NO
        assert problem in said.out
        assert cli("doctor").code == Exit.DONE
        assert cli("harden-runtime", name).code == Exit.REFUSED
    finally:
        cli.cluster.read(lambda cluster: cluster.registry.delete(CLUSTER_TRAINING_RUNTIMES, None, name))


def test_a_namespace_that_is_not_there_shows_in_the_dry_run(cli: CommandLine) -> None:
    said = cli("doctor", "-n", "nowhere")
    assert said.code == Exit.NO
    assert "a TrainJob like a job's would be refused: create trainjobs nowhere/" in said.out
    assert 'namespaces "nowhere" not found' in said.out


def test_without_kueue_its_mode_is_a_finding(cli: CommandLine) -> None:
    said = cli("doctor", "--mode", "kueue")
    assert said.code == Exit.NO
    assert "Kueue is not there: kueue.x-k8s.io/v1beta2 has no workloads" in said.out


def test_an_airflow_without_a_name_is_a_finding(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__DISPATCH__DEPLOYMENT")
    said = cli("doctor")
    assert said.code == Exit.NO
    assert said.out.startswith("this Airflow deployment has no name. Why: ")
    for name in ("AIRFLOW__API__BASE_URL", "AIRFLOW__DISPATCH__DEPLOYMENT"):
        with monkeypatch.context() as named:
            named.setenv(name, "https://airflow.example.com")
            assert cli("doctor").code == Exit.DONE


def test_the_safe_twin_can_be_created_and_doctor_takes_it(cli: CommandLine) -> None:
    said = cli("harden-runtime", UNSAFE_RUNTIME)
    twin = yaml.safe_load(said.out)
    name = twin["metadata"]["name"]
    assert (twin["kind"], name) == ("ClusterTrainingRuntime", f"{UNSAFE_RUNTIME}-safe")
    assert unsafe_fields(twin) == []
    assert json.loads(cli("harden-runtime", UNSAFE_RUNTIME, "--output", "json").out) == twin
    cli.cluster.read(lambda cluster: cluster.registry.create(CLUSTER_TRAINING_RUNTIMES, None, twin))
    try:
        assert cli("doctor", "--runtime", name).code == Exit.DONE
    finally:
        cli.cluster.read(lambda cluster: cluster.registry.delete(CLUSTER_TRAINING_RUNTIMES, None, name))


def test_a_runtime_that_is_not_there_has_no_twin(cli: CommandLine) -> None:
    said = cli("harden-runtime", "none")
    assert (said.code, said.out) == (Exit.USAGE, "")

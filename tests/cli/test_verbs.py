"""The commands that read and act, over HTTPS on a local cluster."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.names import object_name
from tests.cli.conftest import EXECUTABLE, CommandLine, Said, until


def test_a_job_is_started_gated_then_opened_and_read(cli: CommandLine) -> None:
    job_id = cli.started()
    name = object_name(job_id, 1)
    (gated,) = cli.json("status", job_id)
    assert (gated["ref"], gated["state"], gated["attempt"]) == (f"default/{name}", "gated", 1)

    assert cli("open", job_id).out.startswith(f"default/{name}  pending")
    until(lambda: cli.pods(job_id, "Running") == 2)

    assert cli("status", name).out == f"default/{name}  running: admission 1\n"
    assert cli("status", f"default/{name}").code == Exit.DONE
    assert name in cli("status").out
    assert cli("output", job_id).out == "epoch 1\nepoch 2\n"
    assert cli("output", job_id, "--tail", "1").out == "epoch 2\n"
    cli("cancel", job_id)


def test_a_hold_takes_the_next_instance_and_a_release_the_one_in_force(cli: CommandLine) -> None:
    job_id = cli.opened()
    for instance in (1, 2):
        (held,) = cli.json("hold", job_id, "--who", "me", "--reason", "to look", "--until", "2030-01-01T00:00:00Z")
        assert (held["state"], held["hold_instance"]) == ("held", instance)
    until(lambda: not cli.pods_of(job_id))
    (released,) = cli.json("release", job_id)
    assert released["hold_instance"] == 0
    until(lambda: cli.pods(job_id, "Running") == 2)
    (running,) = cli.json("status", job_id)
    assert running["execution"]["admission"] == 2
    again = cli("release", job_id)
    assert (again.code, again.err) == (Exit.DONE, f"airflow-dispatch: no hold of {running['ref']} is in force\n")
    cli("cancel", job_id)


def test_nothing_is_released_while_pods_remain(cli: CommandLine) -> None:
    job_id = cli.opened(num_nodes=1)
    (pod,) = cli.pods_of(job_id)
    node = pod["spec"]["nodeName"]
    cli.cluster.faults.lose_node(node)
    try:
        cli("hold", job_id, "--who", "me", "--reason", "its node is lost")
        refused = cli("release", job_id)
        assert refused.code == Exit.PODS_REMAIN
        assert f"{pod['metadata']['name']} on {node} (" in refused.err
    finally:
        cli.cluster.faults.return_node(node)
    until(lambda: not cli.pods_of(job_id))
    cli("cancel", job_id)


def test_explain_says_all_and_what_to_do(cli: CommandLine) -> None:
    job_id = cli.opened()
    cli("hold", job_id, "--who", "me", "--reason", "to look")
    said = cli("explain", job_id)
    assert said.code == Exit.DONE
    lines = [line.split(maxsplit=1) for line in said.out.splitlines()]
    assert lines[0] == [f"default/{object_name(job_id, 1)}"]
    assert lines[1] == ["job", f"{job_id}, submission 1, attempt 1"]
    assert lines[2] == ["state", "held, hold 1 is in force"]
    assert "  to do      it stays so until hold 1 is released" in said.out.splitlines()
    cli("cancel", job_id)


def test_watch_tells_the_changes_until_the_job_fails(cli: CommandLine) -> None:
    job_id = cli.opened()
    (pod, _) = cli.pods_of(job_id)
    said: list[Said] = []
    watching = threading.Thread(target=lambda: said.append(cli("watch", job_id, "--output", "json")))
    watching.start()
    cli.cluster.faults.pod_exit(pod["metadata"]["name"], 3)
    watching.join()
    (watched,) = said
    assert watched.code == Exit.NO
    assert watched.observations[-1]["state"] == "ended"
    assert watched.observations[-1]["cause"]["kind"] == "non-zero-exit"
    assert cli("status", job_id).code == Exit.NO
    assert cli("explain", job_id).code == Exit.NO
    cli("cancel", job_id)


def test_watch_ends_when_the_job_is_deleted(cli: CommandLine) -> None:
    job_id = cli.opened()
    command = [EXECUTABLE, "watch", job_id, "--kubeconfig", str(cli.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert watch.stdout.readline() == f"default/{object_name(job_id, 1)}  running: admission 1\n"
        cli("cancel", job_id)
        assert watch.stderr.read().endswith("airflow-dispatch: the TrainJob was deleted\n")
    assert watch.returncode == Exit.NO


def test_what_nobody_reads_any_more_ends_quietly(cli: CommandLine) -> None:
    job_id = cli.opened()
    command = [EXECUTABLE, "watch", job_id, "--kubeconfig", str(cli.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        watch.stdout.readline()
        watch.stdout.close()
        cli("hold", job_id, "--who", "me", "--reason", "to see it")
        assert watch.stderr.read() == ""
    cli("cancel", job_id)


def test_cancelling_what_is_not_there_is_done(cli: CommandLine) -> None:
    job_id = cli.started()
    assert "deleted default/" in cli("cancel", job_id).err
    until(lambda: not cli("status", job_id).out)
    again = cli("cancel", job_id)
    assert (again.code, again.out) == (Exit.DONE, "")
    assert f"there is no TrainJob of {job_id} in default" in again.err


def test_a_job_id_that_is_given_finds_its_submission_again(cli: CommandLine) -> None:
    job_id = cli.started()
    assert cli.started(job_id=job_id) == job_id
    assert len(cli.json("status", job_id)) == 1
    cli("cancel", job_id)


@pytest.mark.parametrize("verb", [["status"], ["explain"], ["watch"], ["output"], ["open"], ["release"]])
def test_a_job_that_is_not_there_is_answered_with_no(verb: list[str], cli: CommandLine) -> None:
    said = cli(*verb, "01K6NJRFAE13R8H0C3SWZGBJ7R")
    assert said.code == Exit.NO
    assert "of 01K6NJRFAE13R8H0C3SWZGBJ7R in" in said.err
    assert said.out == ""


def test_a_name_that_is_none_is_bad_usage(cli: CommandLine) -> None:
    said = cli("status", "training")
    assert said.code == Exit.USAGE
    assert "'training' is neither a JobID" in said.err


def test_a_reference_into_another_namespace_than_the_option_names_is_bad_usage(cli: CommandLine) -> None:
    said = cli("status", "one/dj-01k6njrfae13r8h0c3swzgbj7r-s1", "--namespace", "other")
    assert said.code == Exit.USAGE


def test_a_kubeconfig_that_is_not_there_is_named(cli: CommandLine, tmp_path: Path) -> None:
    cli.kubeconfig = tmp_path / "none"
    said = cli("status")
    assert said.code == Exit.UNREACHABLE
    assert f"there is no kubeconfig at {tmp_path / 'none'}" in said.err


def test_a_cluster_that_does_not_answer_is_unreachable(cli: CommandLine, tmp_path: Path) -> None:
    content = cli.kubeconfig.read_text().replace(cli.cluster.url, "https://127.0.0.1:9")
    cli.kubeconfig = tmp_path / "kubeconfig"
    cli.kubeconfig.write_text(content)
    assert cli("status").code == Exit.UNREACHABLE


def test_what_the_role_does_not_allow_is_refused(cli: CommandLine) -> None:
    cli.kubeconfig = cli.cluster.read(lambda cluster: cluster.server.add_user("nobody", []))
    said = cli("status")
    assert said.code == Exit.REFUSED
    assert "no permission to list trainjobs" in said.err


def test_the_namespace_is_the_contexts(cli: CommandLine, tmp_path: Path) -> None:
    content = cli.kubeconfig.read_text()
    cli.kubeconfig = tmp_path / "kubeconfig"
    cli.kubeconfig.write_text(content.replace("namespace: default", "namespace: training"))
    assert cli.kubeconfig.read_text() != content
    assert "no job in namespace training" in cli("status").err
    assert "no job in namespace other" in cli("status", "-n", "other").err

"""``airflow-dispatch confirm-ceased``: what it prints, and its exit codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.ledger import Entry
from airflow_dispatch.kube import ledgers
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from tests.support.apiserver import Live
from tests.support.builders import NAME
from tests.support.cluster import JOB_ID, NAMESPACE


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with Live(tmp_path) as live:
        yield live


async def remember(kubeconfig: str, *pods: str) -> None:
    entries = {f"uid-{pod}": Entry(train_job=NAME, pod=pod, node="node-0") for pod in pods}
    async with await KubeClient.connect(ClusterConfig(kubeconfig=kubeconfig)) as client:
        await ledgers.remember(client, NAMESPACE, JOB_ID, entries)


def confirm(live: Live, *arguments: str, job: str = JOB_ID) -> int:
    words = ["--who", "ana", "--reason", "the machine is off", "--kubeconfig", live.kubeconfig]
    return main(["confirm-ceased", job, *words, *arguments])


def test_what_is_confirmed_is_printed(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(remember(live.kubeconfig, "a", "b"))
    assert confirm(live) == Exit.DONE
    assert capsys.readouterr().out == "confirmed: a on node-0\nconfirmed: b on node-0\n"


def test_a_trainjob_s_name_stands_for_its_job_and_json_for_programs(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(remember(live.kubeconfig, "a"))
    assert confirm(live, "--output", "json", job=NAME) == Exit.DONE
    assert json.loads(capsys.readouterr().out) == {"confirmed": ["a on node-0"]}


def test_nothing_to_confirm_is_refused(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(live) == Exit.REFUSED
    assert "there is nothing to confirm" in capsys.readouterr().err
    asyncio.run(remember(live.kubeconfig, "a"))
    assert confirm(live, "--namespace", "elsewhere") == Exit.REFUSED


def test_a_job_that_is_none_is_bad_usage(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    assert confirm(live, job="train") == Exit.USAGE
    assert "'train' is neither a JobID" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["--who", "--reason"])
def test_somebody_has_to_say_so(missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [word for option in {"--who", "--reason"} - {missing} for word in (option, "x")]
    with pytest.raises(SystemExit) as ended:
        main(["confirm-ceased", JOB_ID, *given])
    assert ended.value.code == Exit.USAGE
    assert missing in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["confirm-ceased", JOB_ID, "--who", "ana", "--reason", "off"]
    assert main([*arguments, "--kubeconfig", str(tmp_path / "none")]) == Exit.UNREACHABLE
    assert "none" in capsys.readouterr().err

"""The documentation says what is so: links lead somewhere, commands parse, code runs, references match the code."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from airflow_dispatch.cli import parser
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core import names
from airflow_dispatch.core.manifest import unsafe_fields
from airflow_dispatch.core.observation import CauseKind, Observation, State
from airflow_dispatch.exceptions import error_of
from airflow_dispatch.get_provider_info import get_provider_info
from airflow_dispatch.hooks.connection import read_connection
from airflow_dispatch.localcluster.runtimes import UNSAFE_RUNTIME, shipped_runtimes
from airflow_dispatch.operators.trainjob import OpenTrainJobOperator, SubmitTrainJobOperator, TrainJobOperator
from airflow_dispatch.sensors.trainjob import TrainJobSensor
from airflow_dispatch.triggers.status import OUTPUT_KEY, OWNER_KEY, STATUS_KEY
from tests.support.pages import PAGES, ROOT, Block, anchors, blocks, links, page_id, read, rows, section, ticked

OPERATORS = [SubmitTrainJobOperator, TrainJobOperator, OpenTrainJobOperator, TrainJobSensor]


# ---------------------------------------------------------------- pages


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_to_what_exists(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), link
        if anchor:
            assert anchor in anchors(found), link


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=page_id)
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        current = waiting.pop()
        reached.add(current)
        targets = (current.parent / link.partition("#")[0] for link in links(current))
        waiting += [found for each in targets if (found := each.resolve()).suffix == ".md" and found not in reached]
    assert page in reached


# ---------------------------------------------------------------- commands and code


def commands() -> Iterator[Block]:
    for page, text in blocks("sh"):
        yield from (Block(page, line) for line in text.splitlines() if line.strip())


def extras() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_commands_are_understood(page: str, line: str) -> None:
    program, *arguments = shlex.split(line.partition(" | ")[0])
    if program == "airflow-dispatch":
        parser().parse_args(arguments)
    elif program == "airflow":
        from airflow.cli import cli_parser  # noqa: PLC0415 - takes a while, and few commands need it

        cli_parser.get_parser().parse_args(arguments)
    elif program == "make":
        dry_run = subprocess.run(
            ["make", "--dry-run", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
        )
        assert dry_run.returncode == 0, dry_run.stderr
    elif program == "pip":
        name, _, extra = arguments[-1].rstrip("]").partition("[")
        assert name == "airflow-provider-dispatch"
        assert not extra or extra in extras()
    elif program == "export":
        options = {key.partition("=")[0] for key in arguments}
        ours = {key.removeprefix("AIRFLOW__DISPATCH__").lower() for key in options if "__DISPATCH__" in key}
        assert ours <= set(get_provider_info()["config"]["dispatch"]["options"])
    else:
        assert program in ("python3", ".", "kubectl"), f"{page}: nobody checks {line!r}"


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_code_runs_and_what_it_imports_is_there(page: str, code: str) -> None:
    if "load_kube_config" in code:  # needs the cluster of its page
        compile(code, page, "exec")
        code = "\n".join(line for line in code.splitlines() if line.startswith(("import ", "from ")))
    exec(compile(code, page, "exec"), {"__name__": "documentation"})


# ---------------------------------------------------------------- reference: operators


def documented_parameters(operator: type) -> list[str]:
    found = section(read("reference/operators.md"), operator.__name__)
    return [name for row in found.rows for name in ticked(row[0])]


def own_parameters(operator: type) -> list[str]:
    parameters = inspect.signature(operator).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_reference_has_every_parameter_and_no_other(operator: type) -> None:
    assert sorted(documented_parameters(operator)) == sorted(own_parameters(operator))


def test_the_parameters_that_are_not_templated_are_the_two_that_are_named() -> None:
    fields = set(own_parameters(SubmitTrainJobOperator)) - set(SubmitTrainJobOperator.template_fields)
    assert fields == {"time_limit", "unsafe_runtime"}
    assert "All but `time_limit` and `unsafe_runtime` are templated" in read("reference/operators.md")


def test_import_paths_are_those_of_the_reference() -> None:
    for classes, module in rows(read("reference/operators.md").partition("\n## ")[0]):
        for name in ticked(classes):
            assert hasattr(importlib.import_module(ticked(module)[0]), name)


# ---------------------------------------------------------------- reference: causes, connection, names


def test_every_cause_is_in_the_reference_with_its_exception() -> None:
    page = read("reference/causes.md")
    for kind in set(CauseKind) - {CauseKind.NONE, CauseKind.COMPLETED}:
        outcome = {"cause": {"kind": kind.value, "provenance": "", "detail": "", "at": None}}
        assert f"| `{kind.value}` | `{type(error_of('', outcome)).__name__}` |" in page


def test_other_exceptions_are_where_the_reference_says() -> None:
    for name, module, _ in section(read("reference/causes.md"), "When a job can't be submitted or watched").rows:
        assert issubclass(getattr(importlib.import_module(ticked(module)[0]), ticked(name)[0]), Exception)


def test_the_outcome_of_the_reference_is_an_observation() -> None:
    (example,) = (json.loads(text) for page, text in blocks("json") if page.endswith("causes.md"))
    assert list(example) == list(Observation.__struct_fields__)
    assert msgspec.to_builtins(msgspec.convert(example, Observation)) == example


class Recorder(Mapping[str, Any]):
    """An empty ``extra`` that remembers what was looked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return False

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_the_reference_has_every_field_of_a_connection_and_no_other() -> None:
    extra = Recorder()
    read_connection("any", extra, in_pod=False)
    fields = {
        name for row in section(read("reference/connection.md"), "The connection").rows for name in ticked(row[0])
    }
    assert fields == {name for name in extra.asked if not name.startswith("extra__")}


def constants(prefix: str) -> set[str]:
    return {value for key, value in vars(names).items() if key.startswith(prefix) and isinstance(value, str)}


def test_every_label_and_annotation_of_ours_is_in_the_reference() -> None:
    page = read("reference/names.md")
    for value in constants("LABEL_") | constants("ANNOTATION_"):
        assert not value.startswith(names.PREFIX) or f"`{value}`" in page, value
    for prefix in names.RESERVED_PREFIXES:
        assert f"`{prefix}`" in section(page, "Prefixes that are refused").text


def test_no_page_names_a_key_of_ours_that_does_not_exist() -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)}
    for page in PAGES:
        for word in ticked(page.read_text()):
            assert not word.startswith(names.PREFIX) or word in known, (page_id(page), word)


def test_the_environment_of_the_ranks_is_in_the_reference() -> None:
    documented = {
        name for row in section(read("reference/names.md"), "Environment of the ranks").rows for name in ticked(row[0])
    }
    assert documented == {names.ENV_JOB_ID, names.ENV_SUBMISSION, names.ENV_EPOCH, names.ENV_ATTEMPT}


def test_the_xcoms_of_a_task_are_in_the_reference() -> None:
    documented = {
        name for row in section(read("reference/names.md"), "XComs of the task").rows for name in ticked(row[0])
    }
    assert {OWNER_KEY, STATUS_KEY, OUTPUT_KEY, "dispatch_job", "return_value"} == documented


# ---------------------------------------------------------------- reference: command line


def leaves(
    command: argparse.ArgumentParser, path: str = "airflow-dispatch"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield path, command
    for action in below:
        for name, each in action.choices.items():
            yield from leaves(each, f"{path} {name}")


def test_the_reference_has_every_command_and_no_other() -> None:
    documented = [ticked(row[0])[0] for row in section(read("reference/command-line.md"), "Command line").rows]
    for line in documented:
        parser().parse_args(shlex.split(line.replace(" N", " 3"))[1:])
    words = [[word for word in line.split() if word.islower() and not word.startswith("-")] for line in documented]
    assert [" ".join(each) for each in words] == [path for path, _ in leaves(parser())]


def test_the_reference_has_every_option() -> None:
    page = read("reference/command-line.md")
    for path, command in leaves(parser()):
        for action in command._actions:
            for option in set(action.option_strings) - {"-h", "--help"}:
                assert f"`{option}`" in page or f"`{option} " in page or f" {option} " in page, (path, option)


def test_the_exit_codes_of_the_reference_exist() -> None:
    codes = [int(row[0]) for row in section(read("reference/command-line.md"), "Exit codes").rows]
    assert set(codes) == {code.value for code in Exit}


# ---------------------------------------------------------------- guides


def test_the_guide_to_runtimes_shows_the_refusal_as_it_is() -> None:
    runtime = next(each for each in shipped_runtimes() if each["metadata"]["name"] == UNSAFE_RUNTIME)
    assert f"runtime '{UNSAFE_RUNTIME}' could start a second execution beside a running one " in read(
        "guides/runtimes.md"
    )
    assert f"({'; '.join(unsafe_fields(runtime))})" in read("guides/runtimes.md")


def test_the_guide_to_the_log_has_every_state() -> None:
    firsts = {word for row in rows(read("guides/task-log.md")) for word in ticked(row[0])}
    assert {state.value for state in State} <= firsts

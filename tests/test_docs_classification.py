"""The reference page of classification and the code have the same rules, in the same order, each with its test."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.disruption import PREEMPTING, SHUTDOWN_REASONS
from airflow_dispatch.core.classify.evicted import REPORTED as EVICTIONS
from airflow_dispatch.core.classify.failed import BY_PODS
from airflow_dispatch.core.classify.failed import REPORTED as FAILURES
from airflow_dispatch.core.classify.foreign import ROWS as FOREIGN
from airflow_dispatch.core.classify.pending import NEVER_FITS
from airflow_dispatch.core.classify.pending import ROWS as PENDING
from airflow_dispatch.core.classify.rejection import NO_ROOM
from airflow_dispatch.core.classify.running import ROWS as RUNNING
from airflow_dispatch.core.classify.situation import ROWS as SITUATION
from airflow_dispatch.core.classify.state import RULES
from airflow_dispatch.core.classify.suspended import BY_KUEUE
from tests.support.pages import ROOT, Section, read, section, sections, ticked

PAGE = "reference/classification.md"
RECORDINGS = ROOT / "tests" / "golden"


class Row(NamedTuple):
    section: str
    cells: list[str]
    files: list[str]

    @property
    def rule(self) -> str:
        return ticked(self.cells[-3])[0]

    @property
    def tests(self) -> list[str]:
        return ticked(self.cells[-2])

    @property
    def recordings(self) -> list[str]:
        return [name for name in self.cells[-1].split(", ") if name]


def documented() -> list[Row]:
    """Every row of the page; a section without test files of its own has those of the section before it."""
    found: list[Row] = []
    files: list[str] = []
    for each in sections(read(PAGE)):
        named = re.findall(r"`(tests/core/classify/test_\w+\.py)`", each.text)
        files = named or files
        found += [Row(each.title, cells, files) for cells in each.rows]
    return found


def identity(row: Row) -> str:
    return f"{row.section}-{row.cells[0][:40]}"


@pytest.mark.parametrize("row", documented(), ids=identity)
def test_every_row_has_a_rule_a_test_and_only_recordings_that_exist(row: Row) -> None:
    module, _, function = row.rule.partition(".")
    assert callable(getattr(importlib.import_module(f"airflow_dispatch.core.classify.{module}"), function))

    source = "\n".join((ROOT / name).read_text() for name in row.files)
    assert row.tests
    for test in row.tests:
        assert f"def {test}(" in source, test

    for name in row.recordings:
        assert len(list(RECORDINGS.glob(f"*/{name}-*.jsonl.gz"))) == 1, name


def path_of(rule: Callable[..., Any]) -> str:
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


def rules_of(title: str) -> list[str]:
    """The rules of a section in their order, each once."""
    return list(dict.fromkeys(row.rule for row in documented() if row.section == title))


@pytest.mark.parametrize(
    ("title", "table", "last"),
    [
        ("State", RULES, "state.everything_else"),
        ("Running", RUNNING, "running.running"),
        ("Pending", PENDING, "pending.pending"),
        ("Changed by somebody else", FOREIGN, "orphans.orphans"),
        ("What else explains a stall", SITUATION, None),
    ],
)
def test_the_tables_of_the_page_are_those_of_the_code(
    title: str, table: Sequence[Callable[..., Any]], last: str | None
) -> None:
    assert rules_of(title) == [*map(path_of, table), *([last] if last else [])]


def words(title: str) -> set[str]:
    return {word for cells in in_page(title).rows for cell in cells for word in ticked(cell)}


def in_page(title: str) -> Section:
    return section(read(PAGE), title)


@pytest.mark.parametrize(
    ("title", "reasons"),
    [
        ("Failed", {*FAILURES, *BY_PODS}),
        ("Pending", {*EVICTIONS, *NEVER_FITS}),
        ("Taken away", {*PREEMPTING}),
        ("Refused by the kubelet", {*NO_ROOM, *SHUTDOWN_REASONS}),
    ],
)
def test_every_reason_that_the_code_knows_is_on_the_page(title: str, reasons: set[str]) -> None:
    assert reasons <= words(title)


def test_kueues_own_deactivations_are_on_the_page() -> None:
    text = in_page("Suspended by somebody else").text
    assert all(f"`{reason}`" in text for reason in BY_KUEUE)


@pytest.mark.parametrize("kind", [names.NODE_LOSS_TAINTS, names.DISRUPTION_TAINTS])
def test_every_taint_that_the_code_knows_is_on_the_page(kind: Sequence[str]) -> None:
    assert all(f"`{key}`" in read(PAGE) for key in kind)

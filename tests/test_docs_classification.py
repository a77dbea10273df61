"""The pages that are made from the code are as they would be made now, and what they say of each row is so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_dispatch.core import names
from airflow_dispatch.core.classify.evicted import REPORTED as EVICTIONS
from airflow_dispatch.core.classify.failed import REPORTED as FAILURES
from tests.support.moments import BETWEEN_MARKS, UNRECORDED, Moment, deciding, moments
from tests.support.pages import page_id, rows
from tests.support.reference import CLASSIFICATION, CONTRACT, marked_tests, regenerated
from tests.support.rows import all_rows

LAST_OF_CLASSIFICATION = 8
"""The sections of the contract after this one say what to do, not what is."""

ROWS = {each.row.id for each in all_rows()}


@pytest.mark.parametrize("page", [CLASSIFICATION, CONTRACT], ids=page_id)
def test_the_page_is_as_the_code_makes_it(page: Path) -> None:
    assert page.read_text() == regenerated(page), "run `make docs`"


def test_every_row_stands_once_in_the_contract_s_page_and_those_of_classification_in_theirs() -> None:
    classification = {row for row in ROWS if int(row.partition("/")[0].partition(".")[0]) <= LAST_OF_CLASSIFICATION}
    for page, expected in ((CONTRACT, ROWS), (CLASSIFICATION, classification)):
        assert Counter(cells[0] for cells in rows(page.read_text())) == Counter(expected)


def test_every_row_has_a_test_and_tests_name_no_other() -> None:
    assert set(marked_tests()) == ROWS


def test_every_row_has_a_recording_or_a_reason_and_not_both() -> None:
    shown = set(moments())
    assert shown | set(BETWEEN_MARKS) | set(UNRECORDED) == ROWS
    assert not shown & set(UNRECORDED)
    assert not shown & set(BETWEEN_MARKS)


@pytest.mark.parametrize(("row", "moment"), BETWEEN_MARKS.items())
def test_the_recording_shows_the_row_between_its_marks(row: str, moment: Moment) -> None:
    assert row in deciding(moment)


@pytest.mark.parametrize("keys", [names.NODE_LOSS_TAINTS, names.DISRUPTION_TAINTS, EVICTIONS, FAILURES])
def test_every_word_of_kubernetes_that_the_code_knows_is_on_the_page(keys: Sequence[str]) -> None:
    page = CLASSIFICATION.read_text()
    assert all(f"`{key}`" in page for key in keys)

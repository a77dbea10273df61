"""A test that says which rows of the contract it shows, does show them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rows import traced


@pytest.fixture(autouse=True)
def rows_decide(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every row that the test is marked with decides something while the test runs, by its declaration."""
    shown = {row for mark in request.node.iter_markers("row") for row in mark.args}
    if not shown:
        yield
        return
    with traced() as trace:
        yield
    missing = shown - trace.ids
    assert not missing, f"did not decide: {sorted(missing)}"
    assert not trace.undeclared

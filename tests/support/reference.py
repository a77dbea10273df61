"""Writes the tables of the reference pages that are made from the code: ``python -m tests.support.reference``.

Between ``<!-- rows: SECTION [MODULE] -->`` and ``<!-- end -->`` a page holds the rows of a section of the contract;
between ``<!-- proofs -->`` and ``<!-- end -->`` each row's function, tests and recording. All else is written by hand.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.support.moments import BETWEEN_MARKS, UNRECORDED, moments
from tests.support.pages import ROOT
from tests.support.rows import Implemented, all_rows

CLASSIFICATION: Final = ROOT / "docs" / "reference" / "classification.md"
CONTRACT: Final = ROOT / "docs" / "reference" / "contract.md"

_TABLE = re.compile(r"(<!-- (rows|proofs)(?:: (\S+))?(?: (\S+))? -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)


def regenerated(page: Path) -> str:
    """The page as it has to be."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{_table(found[2], found[3], found[4])}\n{found[5]}", page.read_text())


def marked_tests() -> dict[str, list[tuple[Path, str]]]:
    """By row, the file and the name of each test that is marked with it."""
    found: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef):
                for row in dict.fromkeys(_marks(function)):
                    found[row].append((path, function.name))
    return found


def _marks(function: ast.FunctionDef) -> Iterator[str]:
    calls = (node for each in function.decorator_list for node in ast.walk(each) if isinstance(node, ast.Call))
    for call in calls:
        given = {"pytest.mark.row": call.args, "showing": call.args[:1]}.get(ast.unparse(call.func), [])
        yield from (str(each.value) for each in given if isinstance(each, ast.Constant))


def _table(what: str, section: str, module: str | None) -> str:
    rows = all_rows()
    if what == "proofs":
        return _proofs(rows)
    chosen = [each for each in rows if each.row.section == section]
    return _rows([each for each in chosen if module is None or each.path.split(".")[-2] == module])


def _rows(rows: Sequence[Implemented]) -> str:
    states = any(each.row.state for each in rows)
    causes = any(each.row.kinds or each.row.cause for each in rows)
    details = any(detail for each in rows for detail in each.row.details)
    head = [
        "row",
        "when",
        *(["state"] if states else []),
        *(["cause"] if causes else []),
        *(["detail" if causes else "note"] if details else []),
    ]
    return _markdown(head, [_cells(each, states=states, causes=causes, details=details) for each in rows])


def _cells(each: Implemented, *, states: bool, causes: bool, details: bool) -> list[str]:
    row = each.row
    cause = row.cause or ", ".join([*row.kinds, *([row.provenance] if row.provenance else [])])
    return [
        row.id,
        row.when.replace("{reasons}", _ticked(row.reasons)),
        *([f"`{row.state}`" if row.state else ""] if states else []),
        *([cause] if causes else []),
        *([_ticked(row.details)] if details else []),
    ]


def _proofs(rows: Sequence[Implemented]) -> str:
    tests = marked_tests()
    return _markdown(
        ["row", "when", "function", "tests", "seen in"],
        [
            [
                each.row.id,
                each.row.when.replace("{reasons}", _ticked(each.row.reasons)),
                f"`{each.path}`",
                _tests(tests.get(each.row.id, [])),
                _recording(each.row.id),
            ]
            for each in rows
        ],
    )


def _tests(tests: Sequence[tuple[Path, str]]) -> str:
    by_file: dict[Path, list[str]] = defaultdict(list)
    for path, name in tests:
        by_file[path].append(name)
    return "; ".join(f"{_link(path.stem, path)}: {_ticked(names)}" for path, names in by_file.items())


def _recording(row: str) -> str:
    if row in UNRECORDED:
        return f"none: {UNRECORDED[row]}"
    moment = BETWEEN_MARKS.get(row) or moments()[row]
    path = ROOT / "tests" / "golden" / moment.mode / f"{moment.scenario}.jsonl.gz"
    when = f"after {moment.at} s" if isinstance(moment.at, float) else f"*{moment.at}*"
    return f"{_link(moment.scenario.partition('-')[0], path)}: {when}"


def _link(text: str, path: Path) -> str:
    return f"[{text}](../../{path.relative_to(ROOT)})"


def _ticked(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words if word)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in lines)


if __name__ == "__main__":
    for each in (CLASSIFICATION, CONTRACT):
        each.write_text(regenerated(each))

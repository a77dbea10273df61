"""Mutation testing of ``core/classify`` and ``core/cessation``: ``python -m tests.support.mutants [MODULE...]``.

mutmut changes one thing of a function at a time and expects a test to fail. It leaves decorated functions alone, so
this works on a copy in which ``@decorator`` is written as an assignment after the function, which means the same.
Given modules, as ``classify.running``, it looks at these only. It prints the mutants that survived, and how many were
killed of each module; it ends with 1 when that is less than 95 % of all.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.pages import ROOT

COPY: Final = ROOT / "build" / "mutants"
ROOMS: Final = ("classify", "cessation")
WANTED: Final = 0.95

_KILLED: Final = ("killed", "timeout")
_NOT_CHOSEN: Final = "not checked"
_CHANGE: Final = re.compile(r"[-+](?![-+])")
_KEPT: Final = ("staticmethod", "classmethod")
_LEFT_OUT: Final = shutil.ignore_patterns(
    *("__pycache__", "localcluster", "golden", "conftest.py", "model", "test_model.py", "test_properties.py")
)
"""Recordings, searches and generated cases take too long for every mutant; the fixture that checks rows sees none."""

_SETTINGS: Final = """\
[mutmut]
source_paths=
    {rooms}
also_copy=
    airflow_dispatch
    tests
pytest_add_cli_args_test_selection=
    tests/core/classify
    tests/core/cessation
pytest_add_cli_args=
    --import-mode=importlib
    -p
    no:cacheprovider

[tool:pytest]
pythonpath = .
markers = row
"""


def prepare() -> None:
    """Makes the copy anew."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "airflow_dispatch", COPY / "airflow_dispatch", ignore=_LEFT_OUT)
    for part in ("core", "support"):
        shutil.copytree(ROOT / "tests" / part, COPY / "tests" / part, ignore=_LEFT_OUT)
    rooms = [f"airflow_dispatch/core/{room}" for room in ROOMS]
    (COPY / "setup.cfg").write_text(_SETTINGS.format(rooms="\n    ".join(rooms)))
    for room in rooms:
        for path in (COPY / room).glob("*.py"):
            tree = _Undecorated().visit(ast.parse(path.read_text()))
            path.write_text(ast.unparse(ast.fix_missing_locations(tree)))


class _Undecorated(ast.NodeTransformer):
    """Writes ``@d def f`` as ``def f`` and ``f = d(f)``."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | list[ast.AST]:
        decorators = node.decorator_list
        if not decorators or ast.unparse(decorators[0]) in _KEPT:
            return node
        node.decorator_list = []
        value: ast.expr = ast.Name(node.name, ast.Load())
        for each in reversed(decorators):
            value = ast.Call(each, [value], [])
        return [node, ast.Assign([ast.Name(node.name, ast.Store())], value)]


def main(modules: Sequence[str]) -> int:
    """Runs mutmut; the exit code."""
    prepare()
    _mutmut("run", "--max-children", "1", *(f"airflow_dispatch.core.{module}.*" for module in modules))
    killed, looked_at = Counter[str](), Counter[str]()
    for line in _mutmut("results", "--all", "true").splitlines():
        mutant, _, outcome = line.strip().rpartition(": ")
        if not mutant or outcome == _NOT_CHOSEN:
            continue
        module = mutant.removeprefix("airflow_dispatch.core.").rpartition(".")[0]
        looked_at[module] += 1
        killed[module] += outcome in _KILLED
        if outcome not in _KILLED:
            print(mutant, outcome)
            print("\n".join(each for each in _mutmut("show", mutant).splitlines() if _CHANGE.match(each)))
    for module in sorted(looked_at):
        print(f"{module}: {killed[module]} of {looked_at[module]}")
    score = killed.total() / max(1, looked_at.total())
    print(f"killed {killed.total()} of {looked_at.total()} ({score:.1%})")
    return 0 if score >= WANTED else 1


def _mutmut(*arguments: str) -> str:
    program = Path(sys.executable).parent / "mutmut"
    return subprocess.run([program, *arguments], cwd=COPY, check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

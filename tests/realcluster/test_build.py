"""Building the control plane: what it says when it can't, and that a second time there is nothing to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.realcluster import build
from tests.support.pages import ROOT


def builds(folder: Path, go: str | None) -> subprocess.CompletedProcess[str]:
    """Runs the build with an empty cache and this script as ``go``, or with none."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    if go is not None:
        (programs / "go").write_text(f"#!/bin/sh\n{go}\n")
        (programs / "go").chmod(0o755)
    return subprocess.run(
        [sys.executable, "-m", "tests.realcluster.build"],
        cwd=ROOT,
        env={"PATH": f"{programs}:/bin", "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_go_it_says_what_is_missing_and_what_works_without(tmp_path: Path) -> None:
    done = builds(tmp_path, None)
    assert done.returncode == 1
    assert "there is no `go` on the PATH" in done.stderr
    assert "`make test`" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "cache").exists()


def test_it_shows_its_progress_and_does_nothing_the_second_time(tmp_path: Path) -> None:
    go = 'while [ "$1" != -o ]; do shift; done; echo program >"$2"'
    first, second = builds(tmp_path, go), builds(tmp_path, "exit 9")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert [line for line in first.stderr.splitlines() if "(1 of 7)" in line or "(7 of 7)" in line] == [
        "real control plane: building etcd (1 of 7)",
        "real control plane: building kueue (7 of 7)",
    ]
    assert second.stderr == ""
    folder = Path(first.stdout.strip())
    assert folder.is_relative_to(tmp_path / "cache")
    assert sorted(path.name for path in folder.iterdir()) == sorted(build.PROGRAMS)
    assert second.stdout == first.stdout


def test_a_build_that_fails_shows_its_last_lines_and_leaves_no_program(tmp_path: Path) -> None:
    done = builds(tmp_path, 'echo "module not found" >&2; exit 1')
    assert done.returncode == 1
    assert "go.etcd.io/etcd/server/v3` ended with exit code 1:\nmodule not found" in done.stderr
    assert list((tmp_path / "cache").rglob("*etcd*")) == []


def test_too_little_disk_is_said_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int

    def usage(path: Any) -> Usage:
        del path
        return Usage(2_500_000_000)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.setattr(build, "go", lambda: os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(build.CannotBuildError, match=r"takes about 6 GB, and \S+ has 2\.5 GB free"):
        build.programs()

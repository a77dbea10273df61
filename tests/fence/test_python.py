"""What only the Python fence does: folders as checkpoints, its place without the package, its cost."""

from __future__ import annotations

import ast
import importlib.resources
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_dispatch import fence

OLDEST_PYTHON = (3, 9)


def test_a_file_is_replaced_when_it_is_whole(tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)
    (tmp_path / "latest.npz").write_text("before")
    with held.saving("latest.npz") as partial:
        assert partial.suffix == ".npz"
        partial.write_text("after")
        assert (tmp_path / "latest.npz").read_text() == "before"
    assert (tmp_path / "latest.npz").read_text() == "after"


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)
    (tmp_path / "latest").write_text("before")
    with pytest.raises(IsADirectoryError), held.saving("latest") as partial:
        partial.parent.write_text("no file")
    assert (tmp_path / "latest").read_text() == "before"
    assert [path.name for path in (tmp_path / fence.FOLDER).iterdir()] == ["epoch-000000000001"]


def test_a_save_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), fence.claim(tmp_path, 1).saving("latest"):
        pass


def test_a_folder_of_shards_is_put_in_one_step(tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)
    with held.saving("step-100") as partial:
        (partial / "deep").mkdir(parents=True)
        (partial / "deep" / "shard-0").write_text("0")
    assert (tmp_path / "step-100/deep/shard-0").read_text() == "0"
    with pytest.raises(OSError, match="not empty"), held.saving("step-100") as partial:
        partial.mkdir()
    assert (tmp_path / "step-100/deep/shard-0").read_text() == "0"


def test_a_save_that_comes_too_late_does_not_begin(tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)
    fence.claim(tmp_path, 2)
    with pytest.raises(fence.FencedOut), held.saving("latest"):
        pytest.fail("it began")


def test_a_writer_that_makes_its_folder_again_is_fenced_out_all_the_same(tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)

    def make_again(partial: Path) -> None:
        fence.claim(tmp_path, 2)
        partial.mkdir(parents=True)

    with pytest.raises(fence.FencedOut), held.saving("step-1") as partial:
        make_again(partial)
    assert not (tmp_path / "step-1").exists()


@pytest.mark.parametrize("at", ["before it writes", "after it has written"])
def test_a_save_that_is_overtaken_is_fenced_out_and_leaves_nothing(at: str, tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)

    def write(partial: Path) -> None:
        if at == "after it has written":
            partial.write_text("old")
        fence.claim(tmp_path, 2)
        partial.write_text("old")

    with pytest.raises(fence.FencedOut) as caught, held.saving("latest") as partial:
        write(partial)
    assert caught.value.holder == "000000000002"
    assert not (tmp_path / "latest").exists()
    assert sorted(path.name for path in (tmp_path / fence.FOLDER).iterdir()) == [
        "epoch-000000000001",
        "epoch-000000000002",
    ]


def test_a_folder_that_was_emptied_is_no_longer_held(tmp_path: Path) -> None:
    held = fence.claim(tmp_path, 1)
    shutil.rmtree(tmp_path / fence.FOLDER)
    with pytest.raises(fence.FenceError), held.saving("latest"):
        pytest.fail("it has no claim")
    with pytest.raises(fence.FenceError):
        held.check()


def test_the_file_works_alone_in_an_interpreter_without_packages(tmp_path: Path) -> None:
    shutil.copy(fence.__file__, tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import fence; fence.claim({str(tmp_path)!r}).check()"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, env={"DISPATCH_EPOCH": "5"})
    assert (tmp_path / fence.FOLDER / "epoch-000000000005").exists()


def test_importing_it_from_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; import airflow_dispatch.fence as _\n"
        "others = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(name for name in others if not name.startswith(('_', 'sitecustomize'))))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, cwd=_ROOT)
    assert done.stdout.strip() == "['airflow_dispatch']"


def test_older_interpreters_of_training_images_understand_it() -> None:
    ast.parse(Path(fence.__file__).read_text(), feature_version=OLDEST_PYTHON)


def test_the_shell_file_is_shipped_in_the_package() -> None:
    assert (importlib.resources.files("airflow_dispatch") / "fence.sh").read_text().startswith("#!/bin/sh\n")


_ROOT = Path(fence.__file__).parent.parent

"""One checkpoint folder, claimed in Python and in ``sh``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dispatch import fence
from tests.support.fences import (
    FENCED_OUT,
    HELD,
    SHELL_FENCE,
    UNUSABLE,
    Execution,
    Language,
    language,
    other,
    state_of,
)

JOB = "01K6NJRFAE13R8H0C3SWZGBJ7R"
OLD = Execution(1000001, f"{JOB}.1.1.1.0")
NEW = Execution(2000001, f"{JOB}.2.2.1.0")
NOBODY = 65534


@language
@other
def test_a_newer_execution_fences_out_the_older(language: Language, other: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, OLD) == HELD
    assert language.save(tmp_path, OLD, "latest", "old") == HELD
    assert other.claim(tmp_path, NEW) == HELD
    assert language.claim(tmp_path, OLD) == FENCED_OUT
    assert language.check(tmp_path, OLD) == FENCED_OUT
    assert language.save(tmp_path, OLD, "latest", "older") == FENCED_OUT
    assert (tmp_path / "latest").read_text() == "old"
    assert other.check(tmp_path, NEW) == HELD
    assert other.save(tmp_path, NEW, "latest", "new") == HELD
    assert (tmp_path / "latest").read_text() == "new"
    assert state_of(tmp_path) == [f"epoch-00000{each.epoch}.{each.token}" for each in (OLD, NEW)]


@language
@other
def test_processes_of_one_execution_share_the_folder(language: Language, other: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, NEW) == HELD
    assert other.claim(tmp_path, NEW) == HELD
    assert language.save(tmp_path, NEW, "rank-0", "0") == HELD
    assert other.save(tmp_path, NEW, "deep/rank-1", "1") == HELD
    assert (tmp_path / "deep/rank-1").read_text() == "1"


@language
def test_epochs_are_compared_as_numbers(language: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, Execution(9)) == HELD
    assert language.claim(tmp_path, Execution(10)) == HELD
    assert language.claim(tmp_path, Execution(9)) == FENCED_OUT
    assert language.claim(tmp_path, Execution(999999999999)) == HELD


@language
def test_two_jobs_of_one_epoch_do_not_share_a_folder(language: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, Execution(1, "A.1.1.1.0")) == HELD
    assert language.claim(tmp_path, Execution(1, "B.1.1.1.0")) == HELD
    assert language.check(tmp_path, Execution(1, "A.1.1.1.0")) == FENCED_OUT


@language
def test_a_folder_that_is_not_there_is_made(language: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path / "a b/c", OLD) == HELD
    assert language.save(tmp_path / "a b/c", OLD, "d e", "saved") == HELD
    assert (tmp_path / "a b/c/d e").read_text() == "saved"


@language
def test_a_claim_that_is_gone_is_not_taken_for_granted(language: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, OLD) == HELD
    (tmp_path / fence.FOLDER / f"epoch-00000{OLD.epoch}.{OLD.token}").unlink()
    assert language.check(tmp_path, OLD) == UNUSABLE
    assert language.save(tmp_path, OLD, "latest", "old") == UNUSABLE
    assert not (tmp_path / "latest").exists()


@language
@pytest.mark.parametrize(
    "name", ["epoch-7", "epoch-00000100000x", "epoch-000001000001.", "epoch-0000010000010", "epoch-", "epoch-*"]
)
def test_a_malformed_claim_stops_everybody(language: Language, name: str, tmp_path: Path) -> None:
    assert language.claim(tmp_path, OLD) == HELD
    (tmp_path / fence.FOLDER / name).touch()
    assert language.check(tmp_path, OLD) == UNUSABLE
    assert language.claim(tmp_path, NEW) == UNUSABLE


@language
def test_other_names_in_the_state_mean_nothing(language: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, OLD) == HELD
    for name in (".nfs000000000001", "README", "worker", ".epoch-000009000001"):
        (tmp_path / fence.FOLDER / name).touch()
    assert language.check(tmp_path, OLD) == HELD
    assert language.claim(tmp_path, NEW) == HELD


@language
def test_a_folder_that_can_t_be_made_is_said(language: Language, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert language.claim(tmp_path / "file", OLD) == UNUSABLE


def test_a_folder_that_may_not_be_written_is_said() -> None:
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    with tempfile.TemporaryDirectory() as folder, SHELL_FENCE.open() as program:
        Path(folder).chmod(0o555)
        with _acting_as(user), pytest.raises(fence.FenceError, match="can't be claimed"):
            fence.claim(folder, OLD.epoch)
        command = ["sh", "-s", "--", "claim", folder]
        done = subprocess.run(command, stdin=program, env=OLD.environment, user=user, capture_output=True, check=False)
        assert done.returncode == UNUSABLE


@contextlib.contextmanager
def _acting_as(user: int) -> Iterator[None]:
    before = os.geteuid()
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(before)


@language
@other
def test_what_an_overtaken_save_had_begun_is_removed(language: Language, other: Language, tmp_path: Path) -> None:
    assert language.claim(tmp_path, OLD) == HELD
    for name in (f"work-00000{OLD.epoch}.{OLD.token}@1", "work-000000000001@2"):
        (tmp_path / fence.FOLDER / name / "deep").mkdir(parents=True)
        (tmp_path / fence.FOLDER / name / "deep" / "shard").touch()
    own = f"work-00000{NEW.epoch}.{NEW.token}@3"
    (tmp_path / fence.FOLDER / own).mkdir()
    assert other.claim(tmp_path, NEW) == HELD
    assert [name for name in state_of(tmp_path) if not name.startswith("epoch-")] == [own]


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1000000000000", "٣"])
def test_an_epoch_that_is_no_number_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISPATCH_EPOCH", text)
    with pytest.raises(fence.FenceError, match="is no claim"):
        fence.claim(tmp_path)
    assert subprocess.run(["sh", SHELL_FENCE, "claim", tmp_path], check=False).returncode == 78
    assert "not a decimal number" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [(), ("claim",), ("save", "f"), ("check", "f", "x"), ("lock", "f")])
def test_the_shell_says_how_it_is_used(arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert subprocess.run(["sh", SHELL_FENCE, *arguments], env=OLD.environment, check=False).returncode == 64
    assert "usage:" in capfd.readouterr().err


def test_the_refusal_says_who_holds_the_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fence.claim(tmp_path, NEW.epoch, NEW.token)
    said = (
        f"{tmp_path} is held by epoch 2000001 ({NEW.token}); epoch 1000001 ({OLD.token}) may not write there any more"
    )
    with pytest.raises(fence.FencedOut) as caught:
        fence.claim(tmp_path, OLD.epoch, OLD.token)
    assert str(caught.value) == said
    subprocess.run(["sh", SHELL_FENCE, "claim", tmp_path], env=OLD.environment, check=False)
    assert capfd.readouterr().err == f"dispatch: {said}\n"


def test_the_shell_saves_a_copy_of_a_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("copied")
    subprocess.run(["sh", SHELL_FENCE, "claim", tmp_path], env=OLD.environment, check=True)
    subprocess.run(["sh", SHELL_FENCE, "save", tmp_path, "target", source], env=OLD.environment, check=True)
    assert (tmp_path / "target").read_text() == source.read_text() == "copied"


def test_the_shell_replaces_nothing_with_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    subprocess.run(["sh", SHELL_FENCE, "claim", tmp_path], env=OLD.environment, check=True)
    command: list[str | Path] = ["sh", SHELL_FENCE, "save", tmp_path, "target", tmp_path / "missing"]
    assert subprocess.run(command, env=OLD.environment, capture_output=True, check=False).returncode == UNUSABLE
    assert (tmp_path / "target").read_text() == "kept"
    assert len(state_of(tmp_path)) == 1

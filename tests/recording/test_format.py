"""Recordings that are cut off, odd or no recordings; moments and clocks."""

from __future__ import annotations

import gzip
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.recording.format import parse
from tests.support.recordings import path_of

HEAD = '{"namespace": "default"}\n'
WHOLE = gzip.decompress(path_of("plain", "p01-complete").read_bytes())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "line 1: no first line of a recording: JSON is malformed"),
        (b'{"t": 1}\n', "line 1: no first line of a recording: Object missing required field `namespace`"),
        (f"{HEAD}\n\nhello\n".encode(), "line 4: JSON is malformed"),
        (f'{HEAD}{{"t": "x"}}\n'.encode(), "line 2: Expected `float`, got `str` - at `$.t`"),
        (f'{HEAD}{{"t": 1, "event": "CHANGED"}}\n'.encode(), "line 2: Invalid enum value 'CHANGED' - at `$.event`"),
        (f'{HEAD}{{"t": 1, "event": "ADDED"}}\n'.encode(), "line 2: "),
        (f'{HEAD}{{"t": 1, "event": "ADDED", "object": 5}}\n'.encode(), "line 2: Expected `object`, got `int`"),
        (f'{HEAD}{{"t": 1, "event": "ADDED", "object": '.encode() + b"[" * 100_000, "line 2: "),
        (WHOLE[:-7], "the file is cut off there: head -n "),
    ],
)
def test_what_is_no_recording_is_said_with_its_line(
    content: bytes, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recording"
    path.write_bytes(content)
    assert main(["replay", str(path)]) == Exit.USAGE
    printed, complaints = capsys.readouterr()
    assert printed == ""
    assert complaints.startswith(f"airflow-dispatch: {path}: ")
    assert complaint in complaints
    assert len(complaints.splitlines()) == 1


def test_what_is_left_of_a_recording_that_was_cut_off_replays_as_it_is_advised() -> None:
    lines = WHOLE.splitlines(keepends=True)
    with pytest.raises(InvalidFile, match=f"line {len(lines)}: .*: head -n {len(lines) - 1} keeps what is before"):
        parse(WHOLE[:-7])
    assert len(parse(b"".join(lines[:-1])).lines) == len(lines) - 2


def test_a_moment_is_a_mark_or_a_number_or_the_end() -> None:
    recording = parse(f'{HEAD}{{"t": 1, "mark": "one"}}\n{{"t": 2.5, "mark": "7"}}\n{{"t": 2, "act": "x"}}\n'.encode())
    assert [recording.moment(each) for each in (None, "one", "7", "3.5")] == [2.5, 1.0, 2.5, 3.5]
    with pytest.raises(InvalidFile, match=r"'two' is neither a number .*: 'one' \(1 s\), '7' \(2.5 s\)"):
        recording.moment("two")


def test_a_mark_that_stands_twice_is_asked_for_in_seconds() -> None:
    recording = parse(f'{HEAD}{{"t": 1, "mark": "a"}}\n{{"t": 2, "mark": "a"}}\n'.encode())
    with pytest.raises(InvalidFile, match="stands there 2 times: give one of the seconds 1, 2"):
        recording.moment("a")


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e300"])
def test_a_number_that_is_no_moment_is_refused(number: str) -> None:
    with pytest.raises(InvalidFile, match="is neither a number of seconds nor a mark"):
        parse(WHOLE).moment(number)


def test_the_clock_is_the_recorders_or_else_follows_what_was_created() -> None:
    written = {"namespace": "default", "started": "2026-01-01T00:00:00Z"}
    assert parse(json.dumps(written).encode()).clock(5) == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    made = {"kind": "TrainJob", "metadata": {"creationTimestamp": "2026-01-01T00:00:10Z"}}
    odd = {"kind": "TrainJob", "metadata": {"creationTimestamp": 5}}
    lines = [{"t": 10, "event": "ADDED", "object": made}, {"t": 20, "event": "ADDED", "object": odd}]
    text = HEAD + "\n".join(map(json.dumps, lines))
    assert parse(text.encode()).clock(5) == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_each_change_is_told_once_with_its_moment_and_ends_as_the_replay_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(path_of("plain", "p02-exit-code"))
    assert main(["replay", file, "--all", "--output", "json"]) == Exit.DONE
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["replay", file, "--output", "json"]) == Exit.DONE
    (end,) = map(json.loads, capsys.readouterr().out.splitlines())
    seen = [{**each, "seen_at": None} for each in told]
    assert seen[-1] == {**end, "seen_at": None}
    assert all(one != other for one, other in itertools.pairwise(seen))

    assert main(["replay", file, "--all"]) == Exit.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(f"    13.6 s  {end['ref']}  ended: non-zero-exit: pod ")

"""``airflow-dispatch classify``: dumps of kubectl, as they should be and as they come."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_dispatch.cli import main
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.recording.dump import classify_dump
from airflow_dispatch.recording.format import parse
from tests.support.builders import NAME
from tests.support.odd import JSON
from tests.support.recordings import Expectation, expectations, path_of, recording

AT = "2026-11-29T22:41:00Z"
REF = f"default/{NAME}"


def of(kind: str, name: str = NAME, **fields: Any) -> dict[str, Any]:
    """One object of a dump."""
    group = {"TrainJob": "trainer.kubeflow.org/v1alpha1", "JobSet": "jobset.x-k8s.io/v1alpha2"}.get(kind, "v1")
    metadata = {"name": name, "namespace": "default", "uid": f"uid of {name}", **fields.pop("metadata", {})}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **fields}


def pod(**fields: Any) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/jobset-name": NAME}
    return of("Pod", "rank-0", metadata={"labels": labels}, **fields)


def written(directory: Path, content: object) -> str:
    path = directory / "dump.json"
    path.write_text(json.dumps(content))
    return str(path)


def listed(directory: Path, *items: object) -> str:
    return written(directory, {"apiVersion": "v1", "kind": "List", "items": items})


def classified(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What is printed, and nothing on standard error."""
    assert main(["classify", *arguments, "--at", AT, "--output", "json"]) == Exit.DONE
    printed, complaints = capsys.readouterr()
    assert complaints == ""
    return [json.loads(line) for line in printed.splitlines()]


# ---------------------------------------------------------------- as the contract says


def live_at(expected: Expectation) -> list[dict[str, Any]] | None:
    """The objects of a recording at a moment; None when a pod or an end had gone by then, which a dump can't show."""
    played = recording(expected.mode, expected.scenario)
    objects: dict[tuple[str, str], dict[str, Any]] = {}
    for event, item in played.events(played.time_of(expected.mark)):
        key = (item["kind"], item["metadata"]["name"])
        if event != "DELETED":
            objects[key] = item
        elif item["kind"] in ("Pod", "JobSet"):
            return None
        else:
            objects.pop(key, None)
    return list(objects.values())


DUMPED = [
    each for each in (*expectations("plain"), *expectations("kueue")) if each.ref is None and live_at(each) is not None
]


@pytest.mark.parametrize("expected", DUMPED, ids=str)
def test_a_dump_says_what_a_watching_hub_says_while_nothing_has_gone(
    expected: Expectation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = recording(expected.mode, expected.scenario)
    file = str(path_of(expected.mode, expected.scenario))
    assert main(["replay", file, "--until", expected.mark, "--output", "json"]) == Exit.DONE
    replayed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    found = classify_dump(Path(listed(tmp_path, *(live_at(expected) or ()))).read_bytes(), clock_of(expected))

    assert [json.loads(each.to_json()) for each in found.observations] == replayed
    assert found.notes == []
    assert f"{played.head['namespace']}/{played.name}" in [each.ref for each in found.observations]


def clock_of(expected: Expectation) -> datetime:
    whole = parse(gzip.decompress(path_of(expected.mode, expected.scenario).read_bytes()))
    return whole.clock(whole.moment(expected.mark))


# ---------------------------------------------------------------- odd objects


def test_an_odd_trainjob_is_unknown_and_says_which_field_is_odd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (seen,) = classified(capsys, listed(tmp_path, of("TrainJob", status={"conditions": "none"})))
    assert (seen["ref"], seen["cause"]["kind"], seen["cause"]["provenance"]) == (REF, "unknown", "")
    assert f"TrainJob {NAME} can't be read in full: " in seen["cause"]["detail"]
    assert "`$.status.conditions`" in seen["cause"]["detail"]


def test_an_odd_pod_still_counts_as_one_that_may_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = of("TrainJob", spec={"suspend": True}, metadata={"annotations": {"dispatch.phpboyscout.uk/opened": "true"}})
    odd = pod(spec={"nodeName": "node-1"}, status={"phase": 7})
    odd["metadata"]["labels"]["site"] = 5
    (seen,) = classified(capsys, listed(tmp_path, held, odd))
    assert "remaining pods: rank-0 on node-1 (not readable)" in seen["cause"]["detail"]
    assert "Pod rank-0 can't be read in full: " in seen["cause"]["detail"]
    assert seen["cause"]["kind"] == "unknown"


def test_a_node_that_is_not_on_the_list_is_gone_but_without_any_node_none_is_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = of("TrainJob", spec={"suspend": True}, metadata={"annotations": {"dispatch.phpboyscout.uk/opened": "true"}})
    runs = pod(spec={"nodeName": "node-1"}, status={"phase": "Running"})
    other = of("Node", "node-2")
    (with_nodes,) = classified(capsys, listed(tmp_path, held, runs, other))
    assert "rank-0 on node-1 (gone)" in with_nodes["cause"]["detail"]
    (without,) = classified(capsys, listed(tmp_path, held, runs))
    assert "rank-0 on node-1 (not readable)" in without["cause"]["detail"]


def test_items_that_are_no_objects_are_named_by_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = listed(tmp_path, 5, of("TrainJob"), {"kind": "Pod", "apiVersion": "v1"}, None)
    assert main(["classify", file]) == Exit.DONE
    printed, complaints = capsys.readouterr()
    assert printed.startswith(REF)
    assert [line.partition(": ")[2] for line in complaints.splitlines()] == [
        f"{file}: item 1 is left out: Expected `object`, got `int`",
        f"{file}: item 3 is left out: a Pod without a name",
        f"{file}: item 4 is left out: Expected `object`, got `null`",
    ]


def test_the_workloads_of_another_group_are_not_kueues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"kueue.x-k8s.io/job-uid": f"uid of {NAME}"}
    other = {**of("Workload", "w", metadata={"labels": labels}), "apiVersion": "scheduling.k8s.io/v1alpha1"}
    kueues = {**other, "apiVersion": "kueue.x-k8s.io/v1beta2"}
    (plain,) = classified(capsys, listed(tmp_path, of("TrainJob"), other))
    (queued,) = classified(capsys, listed(tmp_path, of("TrainJob"), kueues))
    assert (plain["state"], queued["state"]) == ("running", "pending")


def test_each_namespace_is_read_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, there = of("TrainJob"), of("TrainJob", metadata={"namespace": "other"})
    seen = classified(capsys, listed(tmp_path, here, there))
    assert [each["ref"] for each in seen] == [REF, f"other/{NAME}"]
    (one,) = classified(capsys, listed(tmp_path, here, there), "--ref", f"other/{NAME}")
    assert one["ref"] == f"other/{NAME}"


def test_a_list_of_one_kind_needs_no_kind_on_each_item(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {key: value for key, value in of("TrainJob").items() if key not in ("kind", "apiVersion")}
    (seen,) = classified(capsys, written(tmp_path, {"kind": "TrainJobList", "items": [bare]}))
    assert seen["ref"] == REF


SEEDS = [of("TrainJob"), of("JobSet"), of("Job", "job"), pod(), of("Node", "node"), of("Event", "event")]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(SEEDS), st.dictionaries(st.sampled_from(["metadata", "spec", "status", "kind"]), JSON)
        )
    )
)
def test_no_item_whatever_it_is_ends_in_an_error(changed: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    items = [{**seed, **odd} for seed, odd in changed]
    text = json.dumps({"kind": "List", "items": items})
    for seen in classify_dump(text.encode(), datetime(2026, 1, 1, tzinfo=UTC)).observations:
        seen.to_json()


# ---------------------------------------------------------------- files that are no dump


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty"),
        (b"apiVersion: v1\nkind: List\n", "not JSON, or cut off"),
        (b'{"kind": "List", "items": [{"kind": "Tra', "not JSON, or cut off"),
        (b'{"kind": "List", "items": []} {}', "not JSON, or cut off"),
        (b"[]", "no List of objects"),
        (b'{"kind": "List", "items": {}}', "no List of objects"),
        (b'{"kind": "TrainJob", "metadata": {}}', "a TrainJob, not a List"),
        (b'{"items": [' + b"[" * 100_000, "not JSON, or cut off"),
        (b'{"kind": "\xff\xfe"}', "no text"),
        (gzip.compress(b'{"kind": "List", "items": []}', mtime=0)[:-9], "the gzip file is cut off or damaged"),
    ],
)
def test_what_is_no_dump_is_said_in_one_line(
    content: bytes, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(content)
    assert main(["classify", str(path)]) == Exit.USAGE
    printed, complaints = capsys.readouterr()
    assert printed == ""
    assert complaints.startswith(f"airflow-dispatch: {path}: {complaint}")
    assert len(complaints.splitlines()) == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", str(tmp_path / "none")]) == Exit.USAGE
    assert f"{tmp_path / 'none'}: No such file or directory" in capsys.readouterr().err


def test_a_reference_that_is_not_in_the_dump_is_answered_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", listed(tmp_path, of("TrainJob")), "--ref", "default/none"]) == Exit.NO
    assert f"there is no default/none; objects of dispatch's: {REF}" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_a_shell_made_of_kubectls_output_is_read_from_standard_input(
    encoding: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.dumps({"kind": "List", "items": [of("TrainJob")]}).encode(encoding)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    (seen,) = classified(capsys, "-")
    assert seen["ref"] == REF

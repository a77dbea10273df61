"""What is remembered of vanished pods, and that nothing in a ConfigMap can break it (contract, section 12)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_dispatch.core import ledger, names
from airflow_dispatch.core.ledger import MAX_ENTRIES, OVERFLOW, Confirmation, Entry, Ledger
from airflow_dispatch.core.snapshot import Machine
from tests.support.builders import JOB_ID, NAME, NAMESPACE, node, pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIRMED = Confirmation(who="ana", why="the machine is off", at=NOW)


def entry(name: str = "a", **fields: Any) -> Entry:
    given: dict[str, Any] = {"train_job": NAME, "pod": name, "node": "node-0", "node_uid": "n", "boot_id": "b"}
    return Entry(**{**given, **fields})


def written(*entries: Entry) -> dict[str, Any]:
    """The ConfigMap that holds them, each under the UID ``uid-<pod>``."""
    data = ledger.remember(None, {f"uid-{each.pod}": each for each in entries}, NOW)
    return {"data": data}


def read(config_map: Any) -> Ledger:
    return ledger.read(config_map, job_id=JOB_ID, namespace=NAMESPACE)


def test_a_pod_is_remembered_with_the_machine_where_it_was_first_seen_running() -> None:
    captured = pod("a", admission=3).on("node-0").running().captured(node("node-0"))
    captured = msgspec.structs.replace(captured, machine=Machine("uid", "boot"))
    found = ledger.entry_of(captured, NAME)
    assert found == Entry(train_job=NAME, pod="a", node="node-0", node_uid="uid", boot_id="boot", admission=3)


def test_a_pod_that_was_bound_to_no_node_ran_nowhere() -> None:
    assert ledger.entry_of(pod("a").captured(), NAME) is None


def test_what_is_written_is_read_again() -> None:
    config_map = written(entry(admission=2))
    assert json.loads(config_map["data"]["uid-a"]) == {
        "trainJob": NAME,
        "pod": "a",
        "node": "node-0",
        "nodeUID": "n",
        "bootID": "b",
        "admission": 2,
        "vanishedAt": "2026-01-01T00:00:00Z",
    }
    found = read(config_map)
    assert found.entries == {"uid-a": entry(admission=2, vanished_at=NOW)}
    (vanished,) = found.of(NAME)
    assert (vanished.pod.metadata.name, vanished.pod.metadata.uid, vanished.machine) == ("a", "uid-a", ("n", "b"))
    assert vanished.pod.metadata.annotation(names.ANNOTATION_ADMISSION) == "2"
    assert found.of("dj-another") == ()


def test_an_entry_that_is_there_is_left_as_it_is() -> None:
    config_map = written(entry())
    assert ledger.remember(config_map, {"uid-a": entry(boot_id="later")}, NOW) is None
    more = ledger.remember(config_map, {"uid-a": entry(boot_id="later"), "uid-b": entry("b")}, NOW)
    assert more is not None
    assert more["uid-a"] == config_map["data"]["uid-a"]
    assert read({"data": more}).entries["uid-b"].pod == "b"


def full(**fields: Any) -> dict[str, Any]:
    return written(*(entry(f"p{number}", **fields) for number in range(MAX_ENTRIES)))


def test_a_full_ledger_makes_room_by_what_was_confirmed() -> None:
    data, _ = ledger.confirm(full(), CONFIRMED)
    added = ledger.remember({"data": data}, {"uid-new": entry("new")}, NOW)
    assert added is not None
    assert len(added) == MAX_ENTRIES
    assert set(data) - set(added) == {"uid-p0"}
    assert read({"data": added}).open.keys() == {"uid-new"}


def test_what_finds_no_room_is_stood_for_by_one_entry_that_blocks_until_it_is_confirmed() -> None:
    config_map = full()
    data = ledger.remember(config_map, {"uid-new": entry("new")}, NOW)
    assert data is not None
    assert data.keys() - config_map["data"].keys() == {OVERFLOW}
    (problem,) = read({"data": data}).problems
    assert problem.startswith(f"entry overflow of ConfigMap {NAMESPACE}/dj-{JOB_ID.lower()}-pods (more pods have")
    assert ledger.remember({"data": data}, {"uid-new": entry("new")}, NOW) is None
    confirmed, _ = ledger.confirm({"data": {OVERFLOW: data[OVERFLOW]}}, CONFIRMED)
    assert read({"data": confirmed}).problems == ()
    again = ledger.remember({"data": config_map["data"] | confirmed}, {"uid-other": entry("other")}, NOW)
    assert again is not None
    assert again[OVERFLOW] == data[OVERFLOW]


def test_a_full_ledger_fits_into_a_configmap() -> None:
    long = "x" * 253
    config_map = full(node=long, node_uid="u" * 36, boot_id="b" * 36, admission=999_999)
    data, _ = ledger.confirm(config_map, Confirmation(who="é" * 999, why="é" * 9999, at=NOW))
    longest = max(len(key) + len(text.encode()) for key, text in data.items())
    assert MAX_ENTRIES * (longest + len(long) + 36) < 1024 * 1024  # a pod's name may be as long as its Node's


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it can't be read"),
        ("nonsense", "it can't be read"),
        ("[]", "it can't be read"),
        ('{"pod": 7}', "it can't be read"),
        ('{"x": ' + "[" * 100_000, "it can't be read"),
        ('{"trainJob": "dj-x-s1", "pod": "a", "node": "n"}', "'dj-x-s1', which is no submission of this job"),
        (f'{{"trainJob": "{NAME}", "pod": "a", "node": "../pods"}}', "names '../pods', which is no Node's name"),
        (f'{{"trainJob": "{NAME}", "pod": "", "node": "n"}}', "names '', which is no pod's name"),
        (f'{{"trainJob": "{NAME}", "pod": "a", "node": "n", "vanishedAt": "2026-01-01"}}', "it can't be read"),
    ],
)
def test_an_entry_that_was_edited_into_nonsense_is_named_with_what_to_do(text: str, why: str) -> None:
    config_map = written(entry()) | {}
    config_map["data"]["odd"] = text
    found = read(config_map)
    assert found.entries.keys() == {"uid-a"}
    (problem,) = found.problems
    assert problem.startswith(f"entry odd of ConfigMap {NAMESPACE}/dj-{JOB_ID.lower()}-pods (")
    assert why in problem
    assert problem.endswith(f"once its process is known to have ended: airflow-dispatch confirm-ceased {JOB_ID})")
    data, done = ledger.confirm(config_map, CONFIRMED)
    assert done == ("a on node-0", "entry odd")
    assert read({"data": data}).problems == ()
    assert json.loads(data["odd"])["unreadable"] == text[:256]


@pytest.mark.parametrize("config_map", [{"data": 7}, {"binaryData": {"data": "AA=="}}, {"data": {"data": None}}])
def test_a_configmap_of_an_odd_shape_blocks_too(config_map: Any) -> None:
    (problem,) = read(config_map).problems
    assert problem.startswith("entry data of ConfigMap ")


def test_of_many_problems_the_rest_is_counted() -> None:
    problems = read({"data": {f"odd-{number}": "" for number in range(20)}}).problems
    assert len(problems) == 9
    assert problems[-1] == f"12 more entries of ConfigMap {NAMESPACE}/dj-{JOB_ID.lower()}-pods"


def test_a_confirmation_keeps_the_entry_and_says_who_why_and_when() -> None:
    data, done = ledger.confirm(written(entry("a"), entry("b")), CONFIRMED)
    assert done == ("a on node-0", "b on node-0")
    found = read({"data": data})
    assert found.entries["uid-a"] == entry("a", vanished_at=NOW, confirmed=CONFIRMED)
    assert (found.open, found.of(NAME), found.node_names) == ({}, (), set())
    assert found.confirmed_of(NAME) == {"uid-a", "uid-b"}
    assert found.confirmed_of("dj-another") == frozenset()


def test_an_entry_of_another_job_is_settled_by_its_confirmation_as_well() -> None:
    other = entry(train_job="dj-01k6njrfae13r8h0c3swzgbj7s-s1")
    config_map = written(other)
    assert read(config_map).problems
    data, done = ledger.confirm(config_map, CONFIRMED)
    assert done == ("a on node-0",)
    assert (read({"data": data}).problems, read({"data": data}).open) == ((), {})


def test_the_first_confirmation_stays_and_the_same_again_changes_nothing() -> None:
    data, done = ledger.confirm(written(entry("a")), CONFIRMED)
    assert ledger.confirm({"data": data}, CONFIRMED) == (data, done)
    later = Confirmation(who="bob", why="I too", at=NOW)
    assert ledger.confirm({"data": data}, later) == (data, ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
TEXTS = st.text() | JSON.map(json.dumps)


@given(st.fixed_dictionaries({}, optional={"data": st.dictionaries(st.text(), TEXTS) | JSON, "binaryData": JSON}))
def test_nothing_that_a_configmap_holds_is_raised_or_passed_over(config_map: dict[str, Any]) -> None:
    found = read(config_map)
    parts = [part for part in config_map.values() if isinstance(part, dict)]
    assert set().union(*parts) - found.entries.keys() - found.unreadable.keys() == set()
    data, _ = ledger.confirm(config_map, CONFIRMED)
    again = read({"data": data})
    assert (again.problems, again.open) == ((), {})
    ledger.remember(config_map, {"uid-a": entry()}, NOW)

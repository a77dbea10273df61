"""The comparison itself notices what it is to notice, and nothing else."""

from __future__ import annotations

from typing import Any

from tests.support.comparison import Line, differences


def trainjob(event: str = "MODIFIED", **fields: Any) -> Line:
    metadata = {"name": "j", "uid": "11111111-1111-1111-1111-111111111111", "resourceVersion": "1"}
    return {"t": 0, "event": event, "object": {"kind": "TrainJob", "metadata": metadata, **fields}}


def answer(body: dict[str, Any], code: int = 422) -> Line:
    return {"t": 0, "act": "try", "request": {}, "response": {"code": code, "body": body}}


def test_changes_written_together_or_one_by_one_are_alike() -> None:
    together = [trainjob("ADDED", a=1, b=1), trainjob(a=2, b=2)]
    apart = [trainjob("ADDED", a=1, b=1), trainjob(a=2, b=1), trainjob(a=2, b=2)]
    assert differences(together, apart) == []


def test_changes_in_opposite_orders_differ() -> None:
    first = [trainjob("ADDED", a="1", b="1"), trainjob(a="2", b="1"), trainjob(a="2", b="2")]
    second = [trainjob("ADDED", a="1", b="1"), trainjob(a="1", b="2"), trainjob(a="2", b="2")]
    (found,) = differences(first, second)
    assert found == 'TrainJob j, number 1: a="2" comes before b="2", on the real one after it'


def test_a_value_on_the_way_differs_but_not_a_count_that_rises_by_more_at_once() -> None:
    (found,) = differences([trainjob(a="1"), trainjob(a="2"), trainjob(a="3")], [trainjob(a="1"), trainjob(a="3")])
    assert found == 'TrainJob j, number 1: a: ["1", "2", "3"], on the real one ["1", "3"]'
    assert differences([trainjob(a=0), trainjob(a=1), trainjob(a=2)], [trainjob(a=0), trainjob(a=2)]) == []
    assert differences([trainjob(a=0), trainjob(a=1), trainjob(a=0)], [trainjob(a=0)]) != []


def test_the_order_of_conditions_counts() -> None:
    one, other = ({"type": kind, "status": "True"} for kind in ("Ready", "Suspended"))
    (found,) = differences([trainjob(conditions=[one, other])], [trainjob(conditions=[other, one])])
    assert "conditions[]" in found


def test_an_object_that_stays_where_the_other_goes_differs_and_one_that_is_not_there() -> None:
    (found,) = differences([trainjob()], [trainjob(), trainjob("DELETED")])
    assert found == 'TrainJob j, number 1: : "(absent)", on the real one ["(absent)", "(gone)"]'
    assert differences([], [trainjob()]) == ["TrainJob j, number 1: only on the real cluster"]
    assert differences([], [trainjob()], left_out=["TrainJob .*: only on the real cluster"]) == []


def test_refusals_are_compared_whole_but_for_uids_and_times() -> None:
    refused = {"kind": "Status", "status": "Failure", "message": "no: 11111111-1111-1111-1111-111111111111"}
    assert differences([answer(refused)], [answer({**refused, "message": refused["message"].replace("1", "2")})]) == []
    (found,) = differences([answer(refused)], [answer({**refused, "reason": "Invalid"})])
    assert found == """answer to 'try': body.reason: "(absent)", on the real one "Invalid\""""
    assert differences([answer({}, 200)], [answer({}, 201)]) != []

from __future__ import annotations

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.apiserver.selectors import Selection, label_selector, match_labels
from airflow_dispatch.localcluster.resources import CONFIGMAPS, EVENTS, NODES, PODS

LABELS = {"app": "x", "example.org/tier": "1", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "app=x",
        "app==x",
        "app!=y",
        "missing!=y",
        "app in (x,y)",
        "app notin (y, z)",
        "missing notin (y)",
        "app",
        "!missing",
        "example.org/tier=1,app in (x)",
        "empty=",
        " app = x , !missing ",
    ],
)
def test_what_matches(text: str) -> None:
    assert label_selector(text)(LABELS)


@pytest.mark.parametrize("text", ["app=y", "app!=x", "missing=x", "app in (y)", "app notin (x)", "missing", "!app"])
def test_what_does_not_match(text: str) -> None:
    assert not label_selector(text)(LABELS)


def test_nonsense_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match="unable to parse requirement") as refused:
        label_selector("a=b=c")
    assert refused.value.code == 400


def test_fields_that_may_be_selected_by() -> None:
    pod = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    assert Selection(PODS, "ml", "", "metadata.name=p,spec.nodeName=n,status.phase!=Failed")(pod)
    assert not Selection(PODS, "other")(pod)
    assert not Selection(PODS, None, "", "spec.nodeName=")(pod)


def test_a_missing_field_is_the_empty_text() -> None:
    assert Selection(PODS, None, "", "spec.nodeName=")({"metadata": {"name": "p"}, "spec": {}})
    assert Selection(NODES, None, "", "spec.unschedulable=false")({"metadata": {"name": "n"}})


def test_events_are_selected_by_what_they_are_about() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Killing"}
    assert Selection(EVENTS, None, "", "involvedObject.name=p,reason=Killing,involvedObject.kind=Pod")(event)


def test_other_fields_are_refused() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: data\.a"):
        Selection(CONFIGMAPS, None, "", "data.a=b")


def test_match_labels() -> None:
    assert match_labels({"matchLabels": {"app": "x"}}, LABELS)
    assert not match_labels({"matchLabels": {"app": "y"}}, LABELS)

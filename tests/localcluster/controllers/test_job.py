"""The Job controller: pods, counts, conditions."""

from __future__ import annotations

from typing import Any

from airflow_dispatch.localcluster.controllers.jobpods import TRACKING
from airflow_dispatch.localcluster.resources import JOBS, PODS
from tests.support.bed import NAMESPACE, Bed

GANG: dict[str, Any] = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0}
SAFE: dict[str, Any] = {**GANG, "podReplacementPolicy": "Failed"}


def test_indexed_pods_know_their_index() -> None:
    bed = Bed()
    bed.job(**GANG)
    pods = bed.pods()
    assert [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods] == ["0", "1"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["job-0", "job-1"]
    assert all(pod["metadata"]["name"].startswith(pod["spec"]["hostname"] + "-") for pod in pods)
    assert all(pod["metadata"]["finalizers"] == [TRACKING] for pod in pods)


def test_one_pod_that_is_to_run_once_has_no_index() -> None:
    bed = Bed()
    bed.job()
    (pod,) = bed.pods()
    assert "hostname" not in pod["spec"]
    bed.report(pod, "Succeeded")
    assert bed.get(JOBS, "job")["status"]["succeeded"] == 1
    assert bed.conditions(JOBS, "job") == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"),
        ("Complete", "True", "CompletionsReached"),
    ]


def test_completed_indexes_are_listed_and_lose_the_finalizer() -> None:
    bed = Bed()
    bed.job(**GANG)
    bed.report(bed.pods()[1], "Succeeded")
    status = bed.get(JOBS, "job")["status"]
    assert (status["completedIndexes"], status["succeeded"], status["active"]) == ("1", 1, 1)
    assert "finalizers" not in bed.pods()[1]["metadata"]
    bed.report(bed.pods()[0], "Succeeded")
    assert bed.get(JOBS, "job")["status"]["completedIndexes"] == "0,1"
    assert ("Complete", "True", "CompletionsReached") in bed.conditions(JOBS, "job")


def test_failed_waits_for_what_still_terminates() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.job(**SAFE)
    bed.run_all()
    bed.report(bed.pods()[0], "Failed", 3)
    assert bed.conditions(JOBS, "job") == [("FailureTarget", "True", "BackoffLimitExceeded")]
    status = bed.get(JOBS, "job")["status"]
    assert (status["terminating"], status["failed"]) == (1, 2)
    bed.confirm(bed.pods()[1])
    assert bed.conditions(JOBS, "job")[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_a_failed_pod_is_named_before_it_is_let_go_and_counted_after() -> None:
    bed = Bed()
    bed.job(**{**SAFE, "completions": 1, "parallelism": 1})
    (pod,) = bed.pods()
    uid = pod["metadata"]["uid"]
    seen: list[tuple[Any, Any, bool]] = []

    def note(resource: Any, _: str, new: Any, old: Any) -> None:
        if resource == JOBS and new is not None and old is not None:
            tracked = TRACKING in bed.get(PODS, pod["metadata"]["name"])["metadata"].get("finalizers", ())
            seen.append((new["status"]["uncountedTerminatedPods"], new["status"].get("failed"), tracked))

    bed.registry.listen(note)
    bed.report(pod, "Failed", 1)
    assert seen[:2] == [({"failed": [uid]}, None, True), ({}, 1, False)]


def test_a_suspended_job_deletes_its_pods_and_does_not_count_them() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.job(**SAFE)
    bed.run_all()
    bed.change(JOBS, "job", suspend=True)
    assert all("deletionTimestamp" in pod["metadata"] for pod in bed.pods())
    assert bed.get(JOBS, "job")["status"]["terminating"] == 2
    assert "active" not in bed.get(JOBS, "job")["status"]
    for pod in bed.pods():
        bed.confirm(pod, "Succeeded")
    status = bed.get(JOBS, "job")["status"]
    assert not {"failed", "succeeded"} & set(status)
    assert bed.conditions(JOBS, "job") == [("Suspended", "True", "JobSuspended")]


def test_a_resumed_job_waits_for_its_old_pods_when_the_policy_says_so() -> None:
    for policy, pods_at_once in (("Failed", 2), ("TerminatingOrFailed", 4)):
        bed = Bed()
        bed.node("node-0")
        bed.job(**{**GANG, "podReplacementPolicy": policy})
        bed.run_all()
        bed.change(JOBS, "job", suspend=True)
        bed.change(JOBS, "job", suspend=False)
        assert len(bed.pods()) == pods_at_once
        for pod in bed.pods():
            if "deletionTimestamp" in pod["metadata"]:
                bed.confirm(pod)
        assert len(bed.pods()) == 2
        assert not any("deletionTimestamp" in pod["metadata"] for pod in bed.pods())


def test_a_failed_pod_is_replaced_after_ten_seconds() -> None:
    bed = Bed()
    bed.job(**{**GANG, "backoffLimit": 6})
    bed.report(bed.pods()[0], "Failed", 1)
    bed.advance(9)
    assert len(bed.pods()) == 2
    bed.advance(2)
    assert len(bed.pods()) == 3


def test_restarts_in_place_count_towards_the_limit() -> None:
    bed = Bed()
    bed.job(backoffLimit=2, pod={"restartPolicy": "OnFailure"})
    (pod,) = bed.pods()
    pod["status"]["containerStatuses"] = [{"name": "node", "image": "i", "imageID": "", "restartCount": 2}]
    bed.registry.update(PODS, NAMESPACE, pod["metadata"]["name"], pod, subresource="status")
    bed.advance()
    assert bed.conditions(JOBS, "job")[0] == ("FailureTarget", "True", "BackoffLimitExceeded")


def test_a_job_fails_when_its_time_is_up() -> None:
    bed = Bed()
    bed.job(activeDeadlineSeconds=5)
    bed.advance(4)
    assert bed.conditions(JOBS, "job") == []
    bed.advance(2)
    assert ("FailureTarget", "True", "DeadlineExceeded") in bed.conditions(JOBS, "job")


def test_without_completions_one_success_ends_it_when_the_others_are_done() -> None:
    bed = Bed()
    bed.job(parallelism=2)
    first, second = bed.pods()
    bed.report(first, "Succeeded")
    assert bed.conditions(JOBS, "job") == []
    assert len(bed.pods()) == 2
    assert "deletionTimestamp" not in bed.get(PODS, second["metadata"]["name"])["metadata"]
    bed.report(second, "Succeeded")
    assert bed.conditions(JOBS, "job")[-1] == ("Complete", "True", "CompletionsReached")


def test_a_deleted_pod_that_no_node_has_is_counted_as_failed() -> None:
    bed = Bed()
    bed.job(**{**SAFE, "completions": 1, "parallelism": 1})
    (pod,) = bed.pods()
    bed.registry.delete(PODS, NAMESPACE, pod["metadata"]["name"])
    bed.advance(5)
    assert bed.pods() == []
    assert bed.conditions(JOBS, "job")[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_pods_of_a_deleted_job_are_not_held_by_the_finalizer() -> None:
    bed = Bed()
    bed.job(**GANG)
    bed.registry.delete(JOBS, NAMESPACE, "job", propagation="Background")
    bed.advance()
    assert bed.pods() == []

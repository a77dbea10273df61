"""The JobSet controller: restarts, suspension, time to live."""

from __future__ import annotations

import pytest

from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, SERVICES
from tests.support.bed import NAMESPACE, Bed

ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


def _failed(bed: Bed) -> None:
    """Rank 0 fails, and the other one is confirmed to have stopped."""
    bed.run_all()
    bed.report(next(pod for pod in bed.pods() if pod["status"]["phase"] == "Running"), "Failed", 1)
    _confirm(bed)


def _confirm(bed: Bed) -> None:
    while stopping := [pod for pod in bed.pods() if "deletionTimestamp" in pod["metadata"]]:
        bed.confirm(stopping[0])


def test_it_makes_jobs_and_a_headless_service() -> None:
    bed = Bed()
    bed.jobset(replicas=2)
    assert [job["metadata"]["name"] for job in bed.registry.list(JOBS, NAMESPACE).items] == ["set-node-0", "set-node-1"]
    service = bed.get(SERVICES, "set")["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert all(pod["spec"]["subdomain"] == "set" for pod in bed.pods())


def test_a_failed_job_fails_the_set_and_stops_the_others() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.jobset(replicas=2)
    _failed(bed)
    assert bed.conditions(JOBSETS, "set") == [("Failed", "True", "FailedJobs")]
    jobs = [job["metadata"]["name"] for job in bed.registry.list(JOBS, NAMESPACE).items]
    assert len(jobs) == 1


def test_a_restart_waits_for_the_pods_of_the_attempt_before() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.jobset(replicas=2, ranks=1, failurePolicy={"maxRestarts": 1})
    bed.run_all()
    bed.report(bed.pods()[0], "Failed", 1)
    status = bed.get(JOBSETS, "set")["status"]
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
    stuck = [pod for pod in bed.pods() if "deletionTimestamp" in pod["metadata"]]
    assert [pod["metadata"]["labels"][ATTEMPT] for pod in stuck] == ["0"]
    assert bed.conditions(JOBSETS, "set") == [("RestartingJobSet", "True", "DefaultFailurePolicy")]
    _confirm(bed)
    bed.run_all()
    assert [pod["metadata"]["labels"][ATTEMPT] for pod in bed.pods()] == ["1", "1"]
    assert bed.conditions(JOBSETS, "set") == [("RestartingJobSet", "False", "JobsReady")]


def test_with_no_restart_left_it_fails() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.jobset(failurePolicy={"maxRestarts": 1})
    _failed(bed)
    _failed(bed)
    assert bed.conditions(JOBSETS, "set") == [
        ("RestartingJobSet", "False", "JobSetFailed"),
        ("Failed", "True", "ReachedMaxRestarts"),
    ]
    failed = bed.get(JOBSETS, "set")["status"]["conditions"][-1]
    assert failed["message"] == ("jobset failed due to reaching max number of restarts (first failed job: set-node-0)")


@pytest.mark.parametrize(
    ("action", "condition"),
    [
        ("FailJobSet", ("Failed", "True", "FailJobSetFailurePolicyAction")),
        ("RestartJobSet", ("RestartingJobSet", "True", "FailurePolicy_failurePolicyRule0")),
        ("RestartJobSetAndIgnoreMaxRestarts", ("RestartingJobSet", "True", "FailurePolicy_failurePolicyRule0")),
    ],
)
def test_the_first_rule_that_matches_decides(action: str, condition: tuple[str, str, str]) -> None:
    bed = Bed()
    bed.node("node-0")
    rule = {"action": action, "onJobFailureReasons": ["BackoffLimitExceeded"]}
    bed.jobset(failurePolicy={"maxRestarts": 3, "rules": [rule, {"action": "FailJobSet"}]})
    _failed(bed)
    assert bed.conditions(JOBSETS, "set") == [condition]
    counted = bed.get(JOBSETS, "set")["status"].get("restartsCountTowardsMax", 0)
    assert counted == (1 if action == "RestartJobSet" else 0)


def test_a_restart_while_suspended_makes_suspended_jobs() -> None:
    bed = Bed()
    bed.node("node-0")
    bed.jobset(failurePolicy={"maxRestarts": 1})
    bed.run_all()
    bed.report(bed.pods()[0], "Failed", 1)
    bed.change(JOBSETS, "set", suspend=True)
    _confirm(bed)
    job = bed.get(JOBS, "set-node-0")
    assert (job["metadata"]["labels"][ATTEMPT], job["spec"]["suspend"]) == ("1", True)
    assert bed.conditions(JOBSETS, "set") == [
        ("Suspended", "True", "SuspendedJobs"),
        ("RestartingJobSet", "False", "JobSetSuspended"),
    ]


def test_resuming_merges_metadata_and_keeps_the_job() -> None:
    bed = Bed()
    bed.jobset(suspend=True)
    before = bed.get(JOBS, "set-node-0")
    jobset = bed.get(JOBSETS, "set")
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"annotations": {"a": "2"}}
    template["spec"]["nodeSelector"] = {"zone": "z"}
    bed.change(JOBSETS, "set", replicatedJobs=jobset["spec"]["replicatedJobs"], suspend=False)
    after = bed.get(JOBS, "set-node-0")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    annotations = after["spec"]["template"]["metadata"]["annotations"]
    assert annotations["a"] == "2"
    assert annotations[ATTEMPT] == "0"
    assert after["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "z"}
    assert bed.conditions(JOBSETS, "set") == [("Suspended", "False", "ResumeJobs")]


@pytest.mark.parametrize("suspended", [False, True])
def test_what_runs_may_not_change_even_while_suspended(suspended: bool) -> None:
    bed = Bed()
    bed.jobset(suspend=suspended)
    jobset = bed.get(JOBSETS, "set")
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = "example.invalid/other:1"
    with pytest.raises(ApiError, match="field is immutable") as refused:
        bed.change(JOBSETS, "set", replicatedJobs=jobset["spec"]["replicatedJobs"])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.details is not None
    assert refused.value.details["kind"] == "JobSet"


def test_a_finished_set_goes_when_its_time_to_live_is_over() -> None:
    bed = Bed()
    bed.jobset(ttlSecondsAfterFinished=10)
    for pod in bed.pods():
        bed.report(pod, "Succeeded")
    assert bed.conditions(JOBSETS, "set") == [("Completed", "True", "AllJobsCompleted")]
    bed.advance(9)
    assert bed.exists(JOBSETS, "set")
    bed.advance(2)
    assert not bed.exists(JOBSETS, "set")
    assert bed.pods() == []

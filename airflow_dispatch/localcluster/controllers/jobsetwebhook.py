"""What JobSet's webhooks and the batch API fill in and refuse: defaults of JobSets and Jobs, immutable templates."""

from __future__ import annotations

from airflow_dispatch.localcluster.apiserver.errors import ApiError, invalid
from airflow_dispatch.localcluster.apiserver.gojson import go_json
from airflow_dispatch.localcluster.apiserver.objects import Object, clone
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.resources import JOBS, JOBSETS, PODS

__all__ = ["register_jobset_webhook"]

_MUTABLE = ("labels", "annotations")
_MUTABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


def register_jobset_webhook(registry: Registry) -> None:
    """Registers defaults and refusals of JobSets, the defaults of Jobs, and the label that JobSet puts on its pods."""
    registry.admission.add(JOBSETS, mutate=_default_jobset, validate=_validate_jobset)
    registry.admission.add(JOBS, mutate=_default_job)
    registry.admission.add(PODS, mutate=_label_pod)


def _default_jobset(jobset: Object, old: Object | None, operation: str) -> None:
    del old
    if operation != "CREATE":
        return
    spec = jobset.setdefault("spec", {})
    spec.setdefault("network", {}).setdefault("enableDNSHostnames", True)
    spec["network"].setdefault("publishNotReadyAddresses", True)
    spec.setdefault("successPolicy", {}).setdefault("operator", "All")
    spec.setdefault("startupPolicy", {}).setdefault("startupPolicyOrder", "AnyOrder")
    policy = spec.get("failurePolicy")
    if policy is not None:
        policy.setdefault("restartStrategy", "Recreate")
        for index, rule in enumerate(policy.get("rules") or ()):
            rule.setdefault("name", f"failurePolicyRule{index}")
    for replicated in spec.get("replicatedJobs") or ():
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
        job = replicated["template"].setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        job["template"].setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")


def _validate_jobset(jobset: Object, old: Object | None, operation: str) -> None:
    if operation != "UPDATE" or old is None:
        return
    new_jobs, old_jobs = jobset["spec"].get("replicatedJobs"), old["spec"].get("replicatedJobs")
    if jobset["spec"].get("suspend") or old["spec"].get("suspend"):
        new_jobs, old_jobs = _fixed(new_jobs), _fixed(old_jobs)
    if new_jobs != old_jobs:
        shown = go_json(jobset["spec"].get("replicatedJobs"))
        cause = ("FieldValueInvalid", "spec.replicatedJobs", f"Invalid value: {shown}: field is immutable")
        refusal = invalid(JOBSETS, jobset["metadata"]["name"], [cause])
        message = f'admission webhook "vjobset.kb.io" denied the request: {refusal.message}'
        raise ApiError(refusal.code, refusal.reason, message, refusal.details)


def _fixed(replicated_jobs: list[Object] | None) -> list[Object]:
    """The part that may not change while a JobSet is suspended before or after."""
    fixed: list[Object] = clone(replicated_jobs or [])
    for replicated in fixed:
        template = replicated["template"]["spec"]["template"]
        for field in _MUTABLE:
            template.get("metadata", {}).pop(field, None)
        if not template.get("metadata"):
            template.pop("metadata", None)
        for field in _MUTABLE_SPEC:
            template["spec"].pop(field, None)
    return fixed


def _default_job(job: Object, old: Object | None, operation: str) -> None:
    del old
    if operation != "CREATE":
        return
    spec, metadata = job.setdefault("spec", {}), job["metadata"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    if not spec["manualSelector"]:
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for prefix in ("batch.kubernetes.io/", ""):
            labels[f"{prefix}controller-uid"] = metadata["uid"]
            labels[f"{prefix}job-name"] = metadata["name"]


def _label_pod(pod: Object, old: Object | None, operation: str) -> None:
    del old
    labels = pod["metadata"].get("labels") or {}
    if operation == "CREATE" and "jobset.sigs.k8s.io/jobset-name" in labels:
        labels["jobset.sigs.k8s.io/priority"] = str(pod["spec"].get("priority", 0))

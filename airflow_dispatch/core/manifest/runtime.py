"""The copy of a runtime that a TrainJob runs on, and whether that runtime is safe (contract, section 9)."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import Refused

__all__ = ["copy_of", "hardened", "owned_by", "trainer_job", "unsafe_fields"]

_SAFE: Final = {
    "template.spec.backoffLimit": 0,
    "template.spec.podReplacementPolicy": "Failed",
    "template.spec.template.spec.restartPolicy": "Never",
}
_ABSENT: Final = ("template.spec.ttlSecondsAfterFinished",)


def trainer_job(runtime: Mapping[str, Any]) -> dict[str, Any]:
    """The replicated job that trains; raises :class:`Refused` when the runtime has none with a container ``node``."""
    name = runtime["metadata"]["name"]
    for replicated in _jobset_spec(runtime).get("replicatedJobs") or ():
        labels = (replicated.get("template", {}).get("metadata") or {}).get("labels") or {}
        if labels.get(names.LABEL_ANCESTOR_STEP) != names.ANCESTOR_STEP_TRAINER:
            continue
        containers = _at(replicated, "template.spec.template.spec.containers") or ()
        if not any(container.get("name") == names.TRAINER_CONTAINER for container in containers):
            raise Refused(f"runtime {name}: its trainer job has no container {names.TRAINER_CONTAINER!r}")
        found: dict[str, Any] = replicated
        return found
    raise Refused(
        f"runtime {name} has no replicated job labelled {names.LABEL_ANCESTOR_STEP}={names.ANCESTOR_STEP_TRAINER}",
    )


def unsafe_fields(runtime: Mapping[str, Any]) -> list[str]:
    """What lets Kubernetes itself start a process beside one that still runs, as ``<field>: <value>, not <safe>``.

    Empty for a safe runtime.
    """
    trainer = trainer_job(runtime)
    found = []
    for path, safe in _SAFE.items():
        value = _at(trainer, path)
        if value != safe:
            found.append(f"{path}: {_show(value)}, not {_show(safe)}")
    found += [f"{path}: {_show(_at(trainer, path))}, not unset" for path in _ABSENT if _at(trainer, path) is not None]
    jobset = _jobset_spec(runtime)
    if jobset.get("ttlSecondsAfterFinished") is not None:
        found.append(f"ttlSecondsAfterFinished: {jobset['ttlSecondsAfterFinished']}, not unset")
    for rule in (jobset.get("failurePolicy") or {}).get("rules") or ():
        if str(rule.get("action", "")).startswith("RestartJob") and not str(rule["action"]).startswith("RestartJobSet"):
            found.append(f"failurePolicy rule {rule.get('name', '?')}: {rule['action']} restarts single Jobs")
    return found


def hardened(runtime: Mapping[str, Any]) -> dict[str, Any]:
    """The safe twin of a runtime: the same, with the safe values where :func:`unsafe_fields` finds others."""
    safe = copy.deepcopy(dict(runtime))
    trainer = trainer_job(safe)
    for path, value in _SAFE.items():
        _set(trainer, path, value)
    trainer["template"]["spec"].pop("ttlSecondsAfterFinished", None)
    jobset = _jobset_spec(safe)
    jobset.pop("ttlSecondsAfterFinished", None)
    policy = jobset.get("failurePolicy")
    if policy and policy.get("rules"):
        policy["rules"] = [
            {**rule, "action": rule["action"].replace("RestartJob", "RestartJobSet")}
            if rule["action"] in ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
            else rule
            for rule in policy["rules"]
        ]
    return safe


def copy_of(runtime: Mapping[str, Any], job_id: str, submission: int, *, harden: bool = False) -> dict[str, Any]:
    """The copy of a runtime for one TrainJob: of its name, spec and labels verbatim, without an owner as yet.

    With ``harden`` its spec is the safe twin's, and an annotation lists what that changed; without, another lists what
    is unsafe.
    """
    metadata = runtime["metadata"]
    source = f"{runtime['kind']}/{metadata['name']}@{metadata['resourceVersion']}"
    annotations = {names.ANNOTATION_RUNTIME_SOURCE: source}
    unsafe = unsafe_fields(runtime)
    if unsafe:
        key = names.ANNOTATION_RUNTIME_HARDENED if harden else names.ANNOTATION_RUNTIME_UNSAFE
        annotations[key] = json.dumps(unsafe)
    namesake = names.object_name(job_id, submission)
    return {
        "apiVersion": names.API_VERSION_TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {
            "name": namesake,
            "labels": {
                **(metadata.get("labels") or {}),
                names.LABEL_JOB_ID: job_id,
                names.LABEL_SUBMISSION: str(submission),
            },
            "annotations": annotations,
        },
        "spec": copy.deepcopy((hardened(runtime) if unsafe and harden else runtime)["spec"]),
    }


def owned_by(name: str, uid: str) -> list[dict[str, Any]]:
    """The owner references of a runtime copy: its TrainJob, which may go first."""
    return [
        {
            "apiVersion": names.API_VERSION_TRAINER,
            "kind": "TrainJob",
            "name": name,
            "uid": uid,
            "controller": False,
            "blockOwnerDeletion": False,
        },
    ]


def _jobset_spec(runtime: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = ((runtime.get("spec") or {}).get("template") or {}).get("spec") or {}
    return spec


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = (value or {}).get(key)
    return value


def _set(target: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        target = target.setdefault(key, {})
    target[last] = value


def _show(value: Any) -> str:
    return "unset" if value is None else str(value)

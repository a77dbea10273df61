"""What Trainer's API and webhooks fill in and refuse, in their own words."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from airflow_dispatch.localcluster.apiserver import errors
from airflow_dispatch.localcluster.apiserver.gojson import go_json
from airflow_dispatch.localcluster.apiserver.objects import Object, timestamp
from airflow_dispatch.localcluster.apiserver.registry import Registry
from airflow_dispatch.localcluster.clock import Clock
from airflow_dispatch.localcluster.controllers.common import find
from airflow_dispatch.localcluster.controllers.trainer import runtime_of
from airflow_dispatch.localcluster.controllers.trainerbuild import ANCESTOR
from airflow_dispatch.localcluster.resources import (
    CLUSTER_TRAINING_RUNTIMES,
    JOBSETS,
    TRAINING_RUNTIMES,
    TRAINJOBS,
    Resource,
)

__all__ = ["register_trainer_webhook"]

_TRAINJOB_WEBHOOK: Final = "validator.trainjob.trainer.kubeflow.org"
_RESERVED: Final = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
_MANAGED: Final = ("dataset-initializer", "model-initializer", "node")
_RUNTIMES: Final = (TRAINING_RUNTIMES.kind, CLUSTER_TRAINING_RUNTIMES.kind)
_DNS_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DOMAIN_PATH: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[^/]+")
_TOO_MANY: Final = "must have at most {} items"


def register_trainer_webhook(registry: Registry, clock: Clock) -> None:
    """Registers defaults and refusals of TrainJobs and runtimes."""
    registry.admission.add(
        TRAINJOBS,
        mutate=functools.partial(_default, clock),
        rules=_rules,
        validate=functools.partial(_validate, registry),
    )
    for resource in (TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES):
        registry.admission.add(
            resource, mutate=_default_runtime, validate=functools.partial(_validate_runtime, resource)
        )


def _default(clock: Clock, trainjob: Object, old: Object | None, operation: str) -> None:
    del operation
    spec = trainjob.setdefault("spec", {})
    spec.setdefault("suspend", False)
    spec.setdefault("managedBy", "trainer.kubeflow.org/trainjob-controller")
    reference = spec.setdefault("runtimeRef", {})
    reference.setdefault("apiGroup", "trainer.kubeflow.org")
    reference.setdefault("kind", "ClusterTrainingRuntime")
    before = {entry.get("manager"): entry for entry in (old or {}).get("spec", {}).get("runtimePatches") or ()}
    for entry in spec.get("runtimePatches") or ():
        known = before.get(entry.get("manager"))
        if known is not None and _timeless(known) == _timeless(entry):
            if known.get("time"):
                entry["time"] = known["time"]
        elif known is not None or not entry.get("time"):
            entry["time"] = timestamp(clock.now())


def _timeless(entry: Object) -> Object:
    return {key: value for key, value in entry.items() if key != "time"}


def _validate(registry: Registry, trainjob: Object, old: Object | None, operation: str) -> None:
    del operation
    deny: Callable[[str], errors.ApiError] = functools.partial(errors.denied_by_webhook, _TRAINJOB_WEBHOOK)
    spec = trainjob["spec"]
    reference = spec["runtimeRef"]
    kind, group = reference["kind"], reference["apiGroup"]
    if group != TRAINJOBS.group or kind not in _RUNTIMES:
        raise deny(f"unsupported runtime: {kind}.{group}")
    runtime = runtime_of(registry, trainjob)
    if runtime is None:
        shown = {"name": reference["name"], "apiGroup": group, "kind": kind}
        raise deny(
            f"spec.runtimeRef: Invalid value: {_json(shown)}: "
            f'{kind}.{group} "{reference["name"]}" not found: specified {kind[0].lower()}{kind[1:]} must be created '
            "before the TrainJob is created",
        )
    if "torch" in ((runtime["spec"].get("mlPolicy")) or {}):
        env = (spec.get("trainer") or {}).get("env") or []
        taken = [entry["name"] for entry in env if entry["name"] in _RESERVED]
        if taken:
            raise deny(
                f"spec.trainer.env: Invalid value: {go_json(env)}: must not have reserved envs, "
                f"invalid envs configured: [{' '.join(taken)}]",
            )
    _check_patches(registry, trainjob, old, deny)


def _check_patches(
    registry: Registry, trainjob: Object, old: Object | None, deny: Callable[[str], errors.ApiError]
) -> None:
    patches = trainjob["spec"].get("runtimePatches") or []
    for entry in patches:
        if not _DOMAIN_PATH.fullmatch(entry["manager"]):
            raise deny(
                f'spec.runtimePatches.manager: Invalid value: "{entry["manager"]}": must be a domain-prefixed path '
                '(such as "acme.io/foo")',
            )
        if any(container.get("env") for container in _patched_containers(entry) if container["name"] in _MANAGED):
            raise deny(
                f"spec.runtimePatches: Invalid value: {go_json(patches)}: must not have envs for the "
                f"{', '.join(_MANAGED)} containers",
            )
    if old is None or patches == (old["spec"].get("runtimePatches") or []):
        return
    if not trainjob["spec"].get("suspend") and not old["spec"].get("suspend"):
        raise deny(
            "spec.runtimePatches: Forbidden: RuntimePatches can only be modified when the TrainJob is suspended "
            "before or after the update",
        )
    metadata = trainjob["metadata"]
    jobset = find(registry, JOBSETS, (metadata["namespace"], metadata["name"]))
    for entry in (jobset or {}).get("status", {}).get("replicatedJobsStatus") or ():
        if entry.get("active", 0) > 0:
            raise deny(
                "spec.runtimePatches: Forbidden: RuntimePatches cannot be modified when the JobSet's ReplicatedJob "
                f"{entry['name']} is still active",
            )


def _patched_containers(entry: Object) -> Iterable[Object]:
    template = (entry.get("trainingRuntimeSpec") or {}).get("template") or {}
    for replicated in (template.get("spec") or {}).get("replicatedJobs") or ():
        pod = (((replicated.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from pod.get("containers") or ()
        yield from pod.get("initContainers") or ()


def _rules(trainjob: Object, old: Object | None) -> list[errors.Cause]:
    """The rules of the CRD that clients meet."""
    spec, name = trainjob["spec"], trainjob["metadata"]["name"]
    trainer = spec.get("trainer") or {}
    causes: list[errors.Cause] = []
    if not _DNS_LABEL.fullmatch(name):
        causes.append(
            ("FieldValueInvalid", "<nil>", "Invalid value: metadata.name must match RFC 1035 DNS label format")
        )
    if len(name) > 63:  # noqa: PLR2004
        causes.append(("FieldValueInvalid", "<nil>", "Invalid value: metadata.name must be no more than 63 characters"))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        message = f"Invalid value: {deadline}: spec.activeDeadlineSeconds in body should be greater than or equal to 1"
        causes.append(("FieldValueInvalid", "spec.activeDeadlineSeconds", message))
    for field, items, most in (
        ("spec.runtimePatches", spec.get("runtimePatches"), 16),
        ("spec.trainer.args", trainer.get("args"), 128),
        ("spec.trainer.command", trainer.get("command"), 128),
        ("spec.trainer.env", trainer.get("env"), 128),
    ):
        if items and len(items) > most:
            causes.append(("FieldValueTooMany", field, f"Too many: {len(items)}: {_TOO_MANY.format(most)}"))
    if len(trainer.get("image") or "") > 500:  # noqa: PLR2004
        causes.append(("FieldValueTooLong", "spec.trainer.image", "Too long: may not be more than 500 bytes"))
    structural = {"FieldValueTooMany", "FieldValueTooLong"}
    if any(reason in structural for reason, _, _ in causes):
        message = (
            "Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
        causes.append(("FieldValueInvalid", "<nil>", message))
    causes += _duplicates("spec.runtimePatches", spec.get("runtimePatches"), "manager")
    causes += _duplicates("spec.trainer.env", trainer.get("env"), "name")
    return causes + _changed(trainjob, old)


def _duplicates(field: str, entries: list[Object] | None, key: str) -> list[errors.Cause]:
    seen: set[Any] = set()
    found = []
    for index, entry in enumerate(entries or ()):
        if entry.get(key) in seen:
            message = f"Duplicate value: {_json({key: entry.get(key)})}"
            found.append(("FieldValueDuplicate", f"{field}[{index}]", message))
        seen.add(entry.get(key))
    return found


def _changed(trainjob: Object, old: Object | None) -> list[errors.Cause]:
    """What may not change once it is made."""
    found = []
    for field in ("trainer", "runtimeRef", "initializer", "managedBy") if old is not None else ():
        new_value, old_value = trainjob["spec"].get(field), (old or {})["spec"].get(field)
        if new_value != old_value:
            shown = f"{_json(new_value)}: " if isinstance(new_value, str) else ""
            found.append(("FieldValueInvalid", f"spec.{field}", f"Invalid value: {shown}field is immutable"))
    return found


def _default_runtime(runtime: Object, old: Object | None, operation: str) -> None:
    """The defaults of the JobSet schema that both kinds of runtime embed."""
    del old, operation
    jobset = ((runtime.get("spec") or {}).get("template") or {}).get("spec") or {}
    if jobset.get("failurePolicy") is not None:
        jobset["failurePolicy"].setdefault("restartStrategy", "Recreate")
    for replicated in jobset.get("replicatedJobs") or ():
        replicated.setdefault("groupName", "default")
        replicated.setdefault("replicas", 1)


def _validate_runtime(resource: Resource, runtime: Object, old: Object | None, operation: str) -> None:
    del old
    if operation != "CREATE":
        return
    kind = resource.kind.lower()
    jobset = ((runtime["spec"].get("template")) or {}).get("spec") or {}
    for index, replicated in enumerate(jobset.get("replicatedJobs") or ()):
        step = ((replicated["template"].get("metadata") or {}).get("labels") or {}).get(ANCESTOR)
        if step is None:
            continue
        path = f"spec.template.spec.replicatedJobs[{index}]"
        deny = functools.partial(errors.denied_by_webhook, f"validator.{kind}.trainer.kubeflow.org")
        if replicated.get("replicas", 1) != 1:
            raise deny(f"{path}.replicas: Invalid value: {replicated['replicas']}: always must be 1")
        wanted = "node" if step == "trainer" else step
        containers = replicated["template"]["spec"]["template"]["spec"].get("containers") or []
        if not any(container["name"] == wanted for container in containers):
            raise deny(
                f"{path}.template.spec.template.spec.containers: Invalid value: {go_json(containers)}: must contain "
                f"the required container for the ancestor: {step}",
            )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))

"""``preflight``: would a job run here? One report of everything that is missing; nothing is written."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from airflow_dispatch.adapter.starting import source_runtime
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.errors import DispatchError
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.kube import paths
from airflow_dispatch.kube.paths import Resource

__all__ = ["Finding", "preflight"]

_PROBE_JOB_ID: Final = "00000000000000000000000000"
_NEEDED: Final[tuple[tuple[Resource, str, tuple[str, ...]], ...]] = (
    (paths.TRAINJOBS, "", ("get", "list", "watch", "create", "update", "delete")),
    (paths.RUNTIMES, "", ("get", "list", "watch", "create", "update", "delete")),
    (paths.JOBSETS, "", ("list", "watch")),
    (paths.JOBS, "", ("list", "watch")),
    (paths.PODS, "", ("list", "watch")),
    (paths.PODS, "log", ("get",)),
    (paths.EVENTS, "", ("list", "watch")),
    (paths.CLUSTER_RUNTIMES, "", ("get",)),
    (paths.NODES, "", ("get",)),
    (paths.CONFIGMAPS, "", ("get", "create", "update")),
)


class Finding(NamedTuple):
    """What is missing, and what to do about it."""

    problem: str
    fix: str


async def preflight(target: Target, runtime: str) -> list[Finding]:
    """Permissions, the runtime and its safety, and a server-side dry run of the real shape; empty when all is well.

    Raises :class:`Unreachable` when the cluster does not answer.
    """
    findings = await _permissions(target)
    try:
        source = await source_runtime(target, runtime)
        trainer = manifest.trainer_job(source)
    except DispatchError as error:
        return [*findings, Finding(str(error), "name another runtime, or have an administrator install this one")]
    if target.settings.unsafe_runtime == "refuse":
        findings += [
            Finding(f"runtime {runtime} is unsafe: {field}", "set the safe value, or unsafe_runtime to 'harden'")
            for field in manifest.unsafe_fields(source)
        ]
    try:
        await target.client.create(paths.TRAINJOBS, target.namespace, _probe(source, trainer["name"]), dry_run=True)
    except DispatchError as error:
        findings.append(Finding(f"a job would be refused: {error}", "see what the message names"))
    return findings


async def _permissions(target: Target) -> list[Finding]:
    asked = [(resource, part, verb) for resource, part, verbs in _NEEDED for verb in verbs]
    answers = await asyncio.gather(
        *(
            target.client.can_i(verb, resource, target.namespace if resource.namespaced else None, part)
            for resource, part, verb in asked
        )
    )
    return [
        Finding(f"no permission to {verb} {_named(resource, part)}", "bind a role that allows it")
        for (resource, part, verb), allowed in zip(asked, answers, strict=True)
        if not allowed
    ]


def _named(resource: Resource, part: str) -> str:
    plural = f"{resource.plural}/{part}" if part else resource.plural
    return f"{plural}.{resource.group}" if resource.group else plural


def _probe(source: dict[str, Any], replicated_job: str) -> dict[str, Any]:
    """A TrainJob as ``start`` makes it, on the source runtime, with an image and a node that do not exist."""
    job = TrainingJob.validated(
        job_id=_PROBE_JOB_ID, argv=["true"], runtime=source["metadata"]["name"], image=names.PROBE_IMAGE
    )
    body = manifest.trainjob(job, 1, 1, replicated_job=replicated_job)
    body["spec"]["runtimeRef"] = {
        "apiGroup": names.GROUP_TRAINER,
        "kind": source["kind"],
        "name": source["metadata"]["name"],
    }
    template = body["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    pod = template["template"]["spec"]["template"]
    pod.setdefault("spec", {})["nodeSelector"] = {names.PROBE_NODE_SELECTOR: "never"}
    return body

"""``preflight``: would a job run here? One report of everything that is missing; nothing is written (section 10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Final, NamedTuple

from airflow_dispatch.adapter.installation import look_at_installation
from airflow_dispatch.adapter.permissions import NEEDS, QUEUE_NEEDS, Need
from airflow_dispatch.adapter.report import Finding
from airflow_dispatch.adapter.starting import runtime_names, source_runtime
from airflow_dispatch.adapter.target import Target
from airflow_dispatch.core import manifest, names
from airflow_dispatch.core.errors import DispatchError, Refused, Unreachable
from airflow_dispatch.core.job import TrainingJob
from airflow_dispatch.kube import paths

__all__ = ["Asked", "preflight"]

_PROBE_JOB_ID: Final = "00000000000000000000000000"
_PROBE_SECONDS: Final = 3600
_ROLE_GUIDE: Final = "docs/guides/permissions.md has the whole role"


class Asked(NamedTuple):
    """What is looked at: a runtime by name, else all; the needs of one role, else of both; with Kueue or without."""

    runtime: str | None = None
    role: str | None = None
    kueue: bool = False


async def preflight(target: Target, asked: Asked) -> list[Finding]:
    """What is installed, permissions, runtimes and their safety, a server-side dry run; empty when all is well.

    Raises :class:`Unreachable` when the cluster does not answer.
    """
    findings = await look_at_installation(target.client, kueue=asked.kueue)
    findings += await _permissions(target, asked)
    if asked.role == "triggerer":
        return findings  # it starts nothing, so it may not even try
    runtimes, source = await _runtimes(target, asked.runtime)
    findings += runtimes
    if source is not None:
        findings += await _dry_run(target, source)
    return findings


# ---------------------------------------------------------------- permissions


async def _permissions(target: Target, asked: Asked) -> list[Finding]:
    needs = (*NEEDS, *(QUEUE_NEEDS if asked.kueue else ()))
    questions = [(need, verb) for need in needs for verb in need.verbs(asked.role)]
    try:
        answers = await asyncio.gather(*(_may(target, need, verb) for need, verb in questions))
    except Refused as error:
        return [
            Finding(
                f"permissions can't be asked for: {error}",
                "each of them shows only when a job needs it",
                "bind the ClusterRole system:basic-user, as Kubernetes itself does",
            )
        ]
    return [_denied(target, need, verb) for (need, verb), may in zip(questions, answers, strict=True) if not may]


def _may(target: Target, need: Need, verb: str) -> Awaitable[bool]:
    namespace = target.namespace if need.resource.namespaced else None
    return target.client.can_i(verb, need.resource, namespace, need.part)


def _denied(target: Target, need: Need, verb: str) -> Finding:
    where = f" in namespace {target.namespace}" if need.resource.namespaced else ""
    role = "Role" if need.resource.namespaced else "ClusterRole"
    return Finding(
        f"no permission to {verb} {need.name}{where}", need.why, f"add it to a {role} that is bound: {_ROLE_GUIDE}"
    )


# ---------------------------------------------------------------- runtimes


async def _runtimes(target: Target, name: str | None) -> tuple[list[Finding], dict[str, Any] | None]:
    """What is wrong with a runtime, and the runtime itself when a job can be tried on it.

    Without a name any will do: then it matters only whether there is one that can be used.
    """
    if name is not None:
        return await _runtime(target, name)
    try:
        known = await runtime_names(target)
    except Refused as error:
        return [_unusable(str(error), "allow it, or name a runtime")], None
    looked_at = [await _runtime(target, each) for each in known]
    usable = next((source for findings, source in looked_at if source is not None and not findings), None)
    if usable is not None:
        return [], usable
    if not known:
        return [_unusable("there is no training runtime", "have an administrator install one")], None
    tried = next((source for _, source in looked_at if source is not None), None)
    return [finding for findings, _ in looked_at for finding in findings], tried


async def _runtime(target: Target, name: str) -> tuple[list[Finding], dict[str, Any] | None]:
    try:
        source = await source_runtime(target, name)
    except Unreachable:
        raise
    except DispatchError as error:
        return [_unusable(str(error), "name another runtime, or have an administrator install this one")], None
    try:
        unsafe = manifest.unsafe_fields(source)
    except Refused as error:
        fix = f"label its replicated job {names.LABEL_ANCESTOR_STEP}={names.ANCESTOR_STEP_TRAINER} and name the "
        return [_unusable(str(error), f"{fix}container that trains {names.TRAINER_CONTAINER!r}")], None
    if not unsafe or target.settings.unsafe_runtime != "refuse":
        return [], source
    finding = Finding(
        f"runtime {name} is unsafe: {'; '.join(unsafe)}",
        "Kubernetes itself could start a second execution beside one that still runs",
        f"apply what airflow-dispatch harden-runtime {name} prints and use that, or set unsafe_runtime to 'harden'",
    )
    return [finding], source


def _unusable(problem: str, fix: str) -> Finding:
    return Finding(problem, "a job runs on a copy of a runtime, and its trainer job is what is started", fix)


# ---------------------------------------------------------------- dry run


async def _dry_run(target: Target, source: dict[str, Any]) -> list[Finding]:
    """Has the server take a runtime copy and a TrainJob of the real shape, without keeping them."""
    bodies = ((paths.RUNTIMES, manifest.copy_of(source, _PROBE_JOB_ID, 1)), (paths.TRAINJOBS, _probe(source)))
    findings = []
    for resource, body in bodies:
        try:
            await target.client.create(resource, target.namespace, body, dry_run=True)
        except Refused as error:
            findings.append(
                Finding(
                    f"a {resource.kind} like a job's would be refused: {error}",
                    "it was sent as a dry run, as start would send it",
                    "see what the message names: a permission, a quota, a policy, or a version that is not supported",
                )
            )
    return findings


def _probe(source: dict[str, Any]) -> dict[str, Any]:
    """A TrainJob as ``start`` makes it, on the source runtime, with an image and a node that do not exist."""
    metadata = source["metadata"]
    job = TrainingJob.validated(
        job_id=_PROBE_JOB_ID,
        argv=["true"],
        runtime=metadata["name"],
        image=names.PROBE_IMAGE,
        time_limit=_PROBE_SECONDS,
    )
    body = manifest.trainjob(job, 1, 1, replicated_job=manifest.trainer_job(source)["name"])
    body["spec"]["runtimeRef"] = {"apiGroup": names.GROUP_TRAINER, "kind": source["kind"], "name": metadata["name"]}
    for pod in _pod_templates(body["spec"]["runtimePatches"]):
        pod.setdefault("spec", {})["nodeSelector"] = {names.PROBE_NODE_SELECTOR: "never"}
    return body


def _pod_templates(patches: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        replicated["template"]["spec"]["template"]
        for patch in patches
        for replicated in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    ]

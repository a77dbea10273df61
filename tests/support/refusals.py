"""Plays what the webhooks and the API server were recorded to refuse, on whichever cluster there is."""

from __future__ import annotations

import json
from typing import Any, Final

from airflow_dispatch.localcluster.kubelet import PYTHON_IMAGE
from airflow_dispatch.localcluster.resources import JOBSETS, PODS, TRAINING_RUNTIMES, TRAINJOBS
from tests.support.recordings import recording
from tests.support.stage import Stage

__all__ = ["play_refusals"]

_RECORDED_IMAGE: Final = "example.invalid/train:1"
_RECORDED_ARGUMENTS: Final = '["python", "train.py"]'
_ARGUMENTS: Final = '["sleep", "600"]'
_STALE: Final = "stale resourceVersion"
_CONFLICT: Final = 409


async def play_refusals(stage: Stage) -> None:
    """The acts of the recording, each when its mark has come; what came too late in the recording is not played."""
    played = recording("plain", "p28-webhook-refusals")
    uids: dict[str, str] = {}
    for line in played.lines:
        if "mark" in line:
            await _reach(stage, line["mark"])
        elif "act" in line and (line["response"]["code"] != _CONFLICT or not _came_too_late(line)):
            await _act(stage, line, uids)
            _learn(stage, played, uids)


def _came_too_late(line: dict[str, Any]) -> bool:
    return "has been modified" in line["response"]["body"]["message"] and line["act"] != _STALE


async def _reach(stage: Stage, mark: str) -> None:
    if mark == "--- while running":
        await stage.until(mark, lambda: _phases(stage) == ["Running"] * 2)
    elif mark == "--- held, drained":
        await stage.until(mark, lambda: not stage.objects(PODS))
    await stage.still()


def _phases(stage: Stage) -> list[str]:
    return [pod["status"]["phase"] for pod in stage.objects(PODS)]


async def _act(stage: Stage, line: dict[str, Any], uids: dict[str, str]) -> None:
    request = line["request"]
    path = request["path"].replace("/namespaces/default/", f"/namespaces/{stage.namespace}/")
    body = _translated(request.get("body"), stage.namespace, uids)
    metadata = body.get("metadata") or {} if isinstance(body, dict) else {}
    if "resourceVersion" in metadata and line["act"] != _STALE:
        metadata["resourceVersion"] = await stage.version_of(path)
    content_type = request.get("contentType") or "application/json"
    await stage.act(line["act"], request["method"], path, body, content_type=content_type, params=request.get("params"))
    if "dryRun" not in (request.get("params") or {}):
        await stage.still()


def _translated(body: Any, namespace: str, uids: dict[str, str]) -> Any:
    """The recorded body with our namespace, our UIDs, and a container that runs here."""
    text = json.dumps(body).replace('"namespace": "default"', f'"namespace": "{namespace}"')
    for theirs, ours in ((_RECORDED_IMAGE, PYTHON_IMAGE), (_RECORDED_ARGUMENTS, _ARGUMENTS), *uids.items()):
        text = text.replace(theirs, ours)
    return json.loads(text)


def _learn(stage: Stage, played: Any, uids: dict[str, str]) -> None:
    """Which recorded UID stands for which of ours."""
    for _, obj in played.events(float("inf")):
        for resource in (TRAINJOBS, JOBSETS, TRAINING_RUNTIMES):
            for here in stage.objects(resource):
                if (obj["kind"], obj["metadata"]["name"]) == (resource.kind, here["metadata"]["name"]):
                    uids[obj["metadata"]["uid"]] = here["metadata"]["uid"]

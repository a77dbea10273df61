"""What a cluster has of a job, as lines that are the same for two jobs that had the same life."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from airflow_dispatch.core import names

__all__ = ["picture"]

_DIFFERENT: Final = (
    (r"v1:[0-9a-f]{64}", "DIGEST"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"[0-9a-f]{40}", "HASH"),
    (r"[0-7][0-9a-hjkmnp-tv-zA-HJKMNP-TV-Z]{25}", "JOB"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME"),
    (r"-node-0-0-[a-z0-9]{5}", "-node-0-0-POD"),
    (r"(JOB-s|s=|JOB\.)\d+", r"\1N"),
    (r'(/submission": |"DISPATCH_(?:SUBMISSION|K8S_EPOCH_PREFIX)",\s+"value": )"\d+"', r'\1"N"'),
)
"""What is another in each run; N too, which counts the runtime copy that a stopped start has left."""


def picture(
    objects: Iterable[tuple[str, Iterable[dict[str, Any]]]], pods: Iterable[dict[str, Any]], hidden: str = ""
) -> list[str]:
    """Objects by plural: names, labels, annotations, owners, generations, conditions, specs; pods: what they are of.

    ``hidden`` is a text of this run that the other has not.
    """
    found: list[Any] = []
    for plural, items in objects:
        for item in items:
            metadata = item["metadata"]
            annotations = dict(metadata.get("annotations") or {})
            annotations.pop(names.ANNOTATION_JOBSET_UID, None)  # written by whoever sees the JobSet first
            owners = [(owner["kind"], owner["name"]) for owner in metadata.get("ownerReferences") or ()]
            conditions = (item.get("status") or {}).get("conditions") or ()
            states = sorted((each["type"], each["status"], each["reason"]) for each in conditions)
            parts = (metadata.get("labels"), annotations, owners, metadata.get("generation"), states)
            found.append((plural, metadata["name"], *parts, item["spec"]))
    found += [(pod["status"]["phase"], pod["metadata"]["labels"], pod["metadata"]["annotations"]) for pod in pods]
    text = json.dumps(found, sort_keys=True, indent=1)
    for pattern, word in _DIFFERENT:
        text = re.sub(pattern, word, text)
    return (text.replace(hidden, "HIDDEN") if hidden else text).splitlines()

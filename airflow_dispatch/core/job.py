"""What a user asks for, validated before anything is sent (contract, section 9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Self

import msgspec

from airflow_dispatch.core import names
from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.identity import parse_job_id

__all__ = ["UNSAFE_RUNTIME", "Credential", "Publish", "TrainingJob", "check_metadata"]

UNSAFE_RUNTIME: Final = ("refuse", "harden", "allow")

_MAX_NODES: Final = 2**31 - 1
_MAX_ARGUMENTS: Final = 128
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_QUANTITY = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")
_TRAINER_ENV: Final = frozenset(
    ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
)
"""Trainer sets these itself, and its webhook refuses them in a job for torch runtimes."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret mounted read-only for the trainer; the Secret need not exist."""

    secret: str
    mount_path: str


class Publish(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle mounted at ``/opt/dispatch``: an image as a volume, or filled by an init container of the runtime."""

    image: str | None = None
    init_container: str | None = None


class TrainingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A training job; make it with :meth:`validated`.

    ``num_nodes`` ranks of one pod each, None for the runtime's number. ``resources_per_node`` maps resource names to
    quantities, requested and limited alike, or has the keys ``requests`` and ``limits``. ``time_limit`` is in whole
    seconds of running. ``queue`` and ``priority`` are Kueue's LocalQueue and WorkloadPriorityClass.
    """

    job_id: str
    argv: tuple[str, ...]
    runtime: str
    image: str | None = None
    num_nodes: int | None = None
    num_proc_per_node: int | None = None
    resources_per_node: dict[str, dict[str, str]] = {}
    env: dict[str, str] = {}
    work_dir: str | None = None
    time_limit: int | None = None
    credentials: tuple[Credential, ...] = ()
    publish: Publish | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    queue: str | None = None
    priority: str | None = None
    unsafe_runtime: str | None = None

    @classmethod
    def validated(
        cls,
        *,
        job_id: str,
        argv: Sequence[str],
        runtime: str,
        image: str | None = None,
        num_nodes: int | None = None,
        num_proc_per_node: int | None = None,
        resources_per_node: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        work_dir: str | None = None,
        time_limit: timedelta | float | None = None,
        credentials: Sequence[Credential] = (),
        publish: Publish | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        queue: str | None = None,
        priority: str | None = None,
        unsafe_runtime: str | None = None,
    ) -> Self:
        """A job that can be sent; raises :class:`InvalidJob`, which names the field, the value and what is allowed."""
        for field, name in (("runtime", runtime), ("queue", queue), ("priority", priority)):
            if name is not None and not (isinstance(name, str) and len(name) <= 253 and _DNS_NAME.fullmatch(name)):  # noqa: PLR2004
                raise InvalidJob(f"{field} {name!r} is no object name: lower-case letters, digits, '-' and '.'")
        if unsafe_runtime is not None and unsafe_runtime not in UNSAFE_RUNTIME:
            raise InvalidJob(f"unsafe_runtime {unsafe_runtime!r} is not one of {', '.join(UNSAFE_RUNTIME)}")
        if image is not None and not (isinstance(image, str) and 0 < len(image) <= 500 and not re.search(r"\s", image)):  # noqa: PLR2004
            raise InvalidJob(f"image {image!r} is no image reference of at most 500 characters")
        return cls(
            job_id=parse_job_id(job_id),
            argv=_argv(argv),
            runtime=runtime,
            image=image,
            num_nodes=_count("num_nodes", num_nodes),
            num_proc_per_node=_count("num_proc_per_node", num_proc_per_node),
            resources_per_node=_resources(resources_per_node or {}),
            env=_env(env or {}),
            work_dir=_work_dir(work_dir),
            time_limit=_seconds(time_limit),
            credentials=_credentials(credentials),
            publish=_publish(publish),
            labels=check_metadata("labels", labels or {}),
            annotations=check_metadata("annotations", annotations or {}),
            queue=queue,
            priority=priority,
            unsafe_runtime=unsafe_runtime,
        )


def check_metadata(field: str, values: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of a user or a site; raises :class:`InvalidJob`, for reserved prefixes too."""
    for key, value in values.items():
        if any(str(key).startswith(prefix) for prefix in names.RESERVED_PREFIXES):
            raise InvalidJob(f"{field} {key!r}: keys under {', '.join(names.RESERVED_PREFIXES)} are reserved")
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise InvalidJob(f"{field} {key!r} is no key: an optional DNS prefix and '/', then at most 63 characters")
        if not isinstance(value, str):
            raise InvalidJob(f"{field} {key!r}: {value!r} is no text")
        if field == "labels" and not _LABEL_VALUE.fullmatch(value):
            raise InvalidJob(f"labels {key!r}: {value!r} is no label value: at most 63 letters, digits, '-', '_', '.'")
    return dict(values)


def _argv(argv: Any) -> tuple[str, ...]:
    if isinstance(argv, str | bytes) or not isinstance(argv, Sequence):
        raise InvalidJob(f"argv {argv!r} is no list: give program and arguments apart, such as ['python', 'train.py']")
    if not 0 < len(argv) <= _MAX_ARGUMENTS:
        raise InvalidJob(f"argv has {len(argv)} items; 1 to {_MAX_ARGUMENTS} are allowed")
    for item in argv:
        if not isinstance(item, str):
            raise InvalidJob(f"argv has {item!r}, which is no text: write numbers in quotes")
    return tuple(argv)


def _count(field: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_NODES:
        raise InvalidJob(f"{field} {value!r} is not a whole number of at least 1")
    return value


def _resources(resources: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    nested = {"requests", "limits"} & set(resources)
    if nested and set(resources) - {"requests", "limits"}:
        raise InvalidJob("resources_per_node mixes 'requests' and 'limits' with resource names: use one form")
    parts = resources if nested else {"requests": resources, "limits": resources}
    checked: dict[str, dict[str, str]] = {}
    for part, quantities in parts.items():
        if not isinstance(quantities, Mapping):
            raise InvalidJob(f"resources_per_node {part} {quantities!r} is no mapping of resource names to quantities")
        for name, quantity in quantities.items():
            if not isinstance(name, str) or not _KEY.fullmatch(name):
                raise InvalidJob(f"resources_per_node {name!r} is no resource name, such as cpu or nvidia.com/gpu")
            if isinstance(quantity, bool) or not _QUANTITY.fullmatch(str(quantity)):
                raise InvalidJob(
                    f"resources_per_node {name!r}: {quantity!r} is no quantity, such as 4, 500m, 16Gi or 1.5",
                )
        if quantities:
            checked[part] = {name: str(quantity) for name, quantity in quantities.items()}
    return checked


def _env(env: Mapping[str, Any]) -> dict[str, str]:
    for name, value in env.items():
        if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
            raise InvalidJob(f"env {name!r} is no name of a variable: letters, digits and '_', no digit first")
        if name.startswith(names.ENV_PREFIX):
            raise InvalidJob(f"env {name!r}: names under {names.ENV_PREFIX} are dispatch's own")
        if name in _TRAINER_ENV:
            raise InvalidJob(f"env {name!r} is set by Trainer: use num_nodes and num_proc_per_node")
        if not isinstance(value, str):
            raise InvalidJob(f"env {name!r}: {value!r} is no text: write it in quotes")
    return dict(env)


def _work_dir(path: Any) -> str | None:
    if path is None:
        return None
    if not isinstance(path, str) or not path.startswith("/"):
        raise InvalidJob(f"work_dir {path!r} is no absolute path")
    return path


def _seconds(limit: Any) -> int | None:
    if limit is None:
        return None
    seconds = limit.total_seconds() if isinstance(limit, timedelta) else limit
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 1:
        raise InvalidJob(f"time_limit {limit!r} is no timedelta or number of at least one second")
    return int(seconds)


def _credentials(credentials: Sequence[Credential]) -> tuple[Credential, ...]:
    seen: set[str] = set()
    for credential in credentials:
        path = credential.mount_path.rstrip("/")
        if not path.startswith("/"):
            raise InvalidJob(f"credentials {credential.secret!r}: mount path {path!r} is not absolute")
        if (
            path == names.PUBLISH_DEST
            or path.startswith(names.PUBLISH_DEST + "/")
            or names.PUBLISH_DEST.startswith(path + "/")
        ):
            raise InvalidJob(f"credentials {credential.secret!r}: {path!r} overlaps {names.PUBLISH_DEST}")
        if path in seen:
            raise InvalidJob(f"credentials: {path!r} is mounted twice")
        if not _DNS_NAME.fullmatch(credential.secret):
            raise InvalidJob(f"credentials {credential.secret!r} is no Secret's name")
        seen.add(path)
    return tuple(credentials)


def _publish(publish: Publish | None) -> Publish | None:
    if publish is not None and (publish.image is None) == (publish.init_container is None):
        raise InvalidJob("publish needs either an image or an init container")
    return publish

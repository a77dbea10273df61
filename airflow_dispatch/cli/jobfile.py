"""A job as a file: the fields of :class:`~airflow_dispatch.core.job.TrainingJob` in YAML or JSON."""

from __future__ import annotations

import difflib
import json
from collections.abc import Hashable, Mapping
from typing import Any, Final

import yaml

from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.core.job import Credential, Publish, TrainingJob

__all__ = ["parse_job"]

_TYPES: Final[Mapping[str, tuple[type[Any], str]]] = {
    "job_id": (str, "text"),
    "argv": (list, "a list"),
    "runtime": (str, "text"),
    "image": (str, "text"),
    "num_nodes": (int, "a whole number"),
    "num_proc_per_node": (int, "a whole number"),
    "resources_per_node": (dict, "a mapping"),
    "env": (dict, "a mapping"),
    "work_dir": (str, "text"),
    "time_limit": (int, "a whole number of seconds"),
    "credentials": (list, "a list of mappings"),
    "publish": (dict, "a mapping"),
    "labels": (dict, "a mapping"),
    "annotations": (dict, "a mapping"),
    "queue": (str, "text"),
    "priority": (str, "text"),
    "unsafe_runtime": (str, "text"),
}
"""Every key and what stands there; what is in it :meth:`TrainingJob.validated` looks at."""

_REQUIRED: Final = ("argv", "runtime")


def parse_job(text: bytes, new_job_id: str) -> TrainingJob:
    """The job of a file; ``new_job_id`` is taken when it names none.

    Raises :class:`InvalidJob`, which names the key and what is allowed.
    """
    fields = _mapping("the file", _load(text))
    _check_keys("", fields, tuple(_TYPES))
    missing = [key for key in _REQUIRED if fields.get(key) is None]
    if missing:
        raise InvalidJob(f"{' and '.join(missing)} must be given")
    given = {key: value for key, value in fields.items() if value is not None}
    for key, value in given.items():
        wanted, words = _TYPES[key]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InvalidJob(f"{key} must be {words}, not {value!r}")
    given.setdefault("job_id", new_job_id)
    if "credentials" in given:
        given["credentials"] = [_credential(number, each) for number, each in enumerate(given["credentials"])]
    if "publish" in given:
        given["publish"] = Publish(**_texts("publish", given["publish"], ("image", "init_container")))
    return TrainingJob.validated(**given)


def _credential(number: int, given: Any) -> Credential:
    where = f"credentials[{number}]"
    found = _texts(where, given, ("secret", "mount_path"))
    if len(found) != 2:  # noqa: PLR2004 - both
        raise InvalidJob(f"{where} needs secret and mount_path")
    return Credential(**found)


def _texts(where: str, given: Any, allowed: tuple[str, ...]) -> dict[str, str]:
    found = _mapping(where, given)
    _check_keys(f"{where}.", found, allowed)
    for key, value in found.items():
        if not isinstance(value, str):
            raise InvalidJob(f"{where}.{key} must be text, not {value!r}")
    return found


def _mapping(where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidJob(f"{where} must be a mapping of keys to values, not {_short(given)}")
    return given


def _check_keys(prefix: str, given: Mapping[Any, Any], allowed: tuple[str, ...]) -> None:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, 1)
            meant = f", did you mean {near[0]}?" if near else ""
            raise InvalidJob(f"{prefix}{key} is no key here{meant}; keys are {', '.join(allowed)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004 - a line


def _load(text: bytes) -> Any:
    """JSON when it begins like it, since YAML takes no tabs; else YAML, of which JSON is a part but for that."""
    try:
        if text.lstrip().startswith(b"{"):
            return json.loads(text, object_pairs_hook=_without_duplicates)
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidJob):
            raise
        raise InvalidJob(f"neither YAML nor JSON: {' '.join(str(error).split())}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidJob(f"{key} is given twice")
        found[key] = value
    return found


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key that stands twice in one mapping, of which YAML's would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise InvalidJob(f"{key.value} is given twice (line {key.start_mark.line + 1})")
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

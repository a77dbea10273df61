"""Makes `core_schema.json` from the models of the official client: `python -m tests.support.core_schema`.

The models are generated from Kubernetes' published OpenAPI description; only names and types of fields are taken.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from kubernetes.client import models

__all__ = ["generate", "model_of"]

ROOTS = (
    "Namespace",
    "Pod",
    "Node",
    "Event",
    "Secret",
    "ConfigMap",
    "Service",
    "ServiceAccount",
    "Lease",
    "PriorityClass",
    "Job",
    "JobTemplateSpec",
    "Condition",
)
SCALARS = {"str": "str", "int": "int", "bool": "bool", "float": "float", "object": "object", "datetime": "str"}

Types = dict[str, dict[str, str]]


def model_of(name: str) -> type | None:
    """The client's class of a type, or None when it has none."""
    return getattr(models, f"V1{name}", None) or getattr(models, f"CoreV1{name}", None)


def generate() -> Types:
    """Every type that the served core kinds reach."""
    found: Types = {}
    for root in ROOTS:
        _add(root, found)
    # The server never shows who set a field; clients may send it back all the same.
    found["ObjectMeta"]["managedFields"] = "object"
    del found["ManagedFieldsEntry"]
    return found


def _add(name: str, found: Types) -> None:
    if name in found:
        return
    model = model_of(name)
    assert model is not None, name
    fields = found[name] = {}
    for attribute, kind in model.openapi_types.items():  # type: ignore[attr-defined]
        fields[model.attribute_map[attribute]] = _type(kind, found)  # type: ignore[attr-defined]


def _type(kind: str, found: Types) -> str:
    if part := re.fullmatch(r"list\[(.*)\]", kind):
        return "[]" + _type(part[1], found)
    if part := re.fullmatch(r"dict[\[(]str, (.*)[\])]", kind):
        return "{}" + _type(part[1], found)
    if kind in SCALARS:
        return SCALARS[kind]
    name = kind.removeprefix("Core").removeprefix("V1")
    _add(name, found)
    return name


def main() -> None:
    types = generate()
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(types[name])}" for name in sorted(types))
    package = files("airflow_dispatch.localcluster.apiserver")
    Path(str(package.joinpath("core_schema.json"))).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What the API server refuses about an object by itself, before and after webhooks have seen it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from airflow_dispatch.localcluster.apiserver.errors import Cause, bad_request, invalid
from airflow_dispatch.localcluster.apiserver.objects import Object
from airflow_dispatch.localcluster.apiserver.schema import type_errors, unknown_fields
from airflow_dispatch.localcluster.resources import JOBS, LEASES, NAMESPACES, PODS, SERVICES, Resource

__all__ = ["check_envelope", "check_fields", "check_object", "needs_version"]

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,62})?[A-Za-z0-9]"
)
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_POD_MAY_CHANGE: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")


def check_fields(resource: Resource, obj: Object, mode: str) -> None:
    """Refuses fields that the kind does not have when the mode is ``Strict``; the other modes let them pass.

    Raises:
        ApiError: 400 with every unknown field, or for a mode that does not exist.
    """
    if mode not in ("", "Ignore", "Warn", "Strict"):
        raise bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: "Ignore", "Warn", "Strict"')
    if mode != "Strict":
        return
    unknown = ", ".join(f'unknown field "{path}"' for path in sorted(unknown_fields(resource, obj)))
    if not unknown:
        return
    raise bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"strict decoding error: {unknown}"
    )


def check_envelope(resource: Resource, namespace: str | None, obj: Object, name: str = "") -> None:
    """Compares what the object says about itself with where it was sent.

    Raises:
        ApiError: 400 for another kind, version, namespace or name than the request's.
    """
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request(f"{resource.kind}.metadata: expected an object")
    for key, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        found = obj.setdefault(key, expected)
        if found != expected:
            raise bad_request(f"the {key} in the data ({found}) does not match the expected {key} ({expected})")
    if resource.namespaced and namespace and metadata.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if name and metadata.get("name") not in (None, "", name):
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")


def needs_version(resource: Resource) -> bool:
    """Whether an update must carry the resourceVersion it was made from."""
    return resource.custom or resource == LEASES


def check_object(resource: Resource, obj: Object, old: Object | None, more: Sequence[Cause] = ()) -> None:
    """The rules of the kind, once all defaults are in place; ``more`` is what a custom kind's own rules have found.

    Raises:
        ApiError: 400 for a value of a wrong type in a core kind, else 422 with every cause.
    """
    wrong = type_errors(resource, obj)
    if wrong and not resource.custom:
        path, wanted, found = wrong[0]
        go = {"string": "string", "integer": "int32", "boolean": "bool", "number": "float64"}.get(wanted, wanted)
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: cannot '
            f"unmarshal {found} into Go struct field {resource.kind}.{path} of type {go}"
        )
    causes: list[Cause] = [
        (
            "FieldValueTypeInvalid",
            path,
            f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"',
        )
        for path, wanted, found in wrong
    ]
    causes += _metadata_causes(resource, obj)
    if resource in (PODS, JOBS):
        causes += _template_causes(resource, obj)
    if resource == PODS and old is not None:
        causes += _pod_update_causes(obj, old)
    causes += more
    if causes:
        raise invalid(resource, obj["metadata"].get("name", ""), causes)


def _metadata_causes(resource: Resource, obj: Object) -> list[Cause]:
    metadata = obj["metadata"]
    name = metadata["name"]
    causes: list[Cause] = []
    pattern, words = (_LABEL, _LABEL_WORDS) if resource in (NAMESPACES, SERVICES) else (_SUBDOMAIN, _SUBDOMAIN_WORDS)
    limit = _LABEL_LENGTH if pattern is _LABEL else _SUBDOMAIN_LENGTH
    if len(name) > limit:
        message = f'Invalid value: "{name}": must be no more than {limit} characters'
        causes.append(("FieldValueInvalid", "metadata.name", message))
    elif not pattern.fullmatch(name):
        causes.append(("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {words}'))
    for key, value in (metadata.get("labels") or {}).items():
        if not _LABEL_KEY.fullmatch(key):
            message = f"Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.'"
            causes.append(("FieldValueInvalid", "metadata.labels", message))
        elif isinstance(value, str) and len(value) > _LABEL_LENGTH:
            message = f'Invalid value: "{value}": must be no more than {_LABEL_LENGTH} characters'
            causes.append(("FieldValueInvalid", "metadata.labels", message))
        elif isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
            message = f'Invalid value: "{value}": {_LABEL_VALUE_WORDS}'
            causes.append(("FieldValueInvalid", "metadata.labels", message))
    return causes


def _template_causes(resource: Resource, obj: Object) -> list[Cause]:
    policies: tuple[str, ...] = ("Always", "Never", "OnFailure")
    spec, path = obj.get("spec", {}), "spec"
    if resource == JOBS:
        spec, path, policies = spec.get("template", {}).get("spec", {}), "spec.template.spec", ("OnFailure", "Never")
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(("FieldValueRequired", f"{path}.containers", "Required value"))
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            causes += _container_causes(f"{path}.{field}[{index}]", container, names, volumes)
    policy = spec.get("restartPolicy", "Always")
    if policy not in policies:
        supported = ", ".join(f'"{entry}"' for entry in policies)
        message = f'Unsupported value: "{policy}": supported values: {supported}'
        causes.append(("FieldValueNotSupported", f"{path}.restartPolicy", message))
    return causes


def _container_causes(path: str, container: Object, names: set[str], volumes: set[str | None]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(("FieldValueRequired", f"{path}.name", "Required value"))
    elif name in names:
        causes.append(("FieldValueDuplicate", f"{path}.name", f'Duplicate value: "{name}"'))
    elif not _LABEL.fullmatch(name):
        causes.append(("FieldValueInvalid", f"{path}.name", f'Invalid value: "{name}": {_LABEL_WORDS}'))
    names.add(name)
    if not container.get("image"):
        causes.append(("FieldValueRequired", f"{path}.image", "Required value"))
    return causes + _mount_causes(path, container, volumes)


def _mount_causes(path: str, container: Object, volumes: set[str | None]) -> list[Cause]:
    return [
        ("FieldValueNotFound", f"{path}.volumeMounts[{index}].name", f'Not found: "{mount.get("name", "")}"')
        for index, mount in enumerate(container.get("volumeMounts") or [])
        if mount.get("name") not in volumes
    ]


def _pod_update_causes(pod: Object, old: Object) -> list[Cause]:
    """A pod's spec is fixed but for its images and a few fields; its Node is set by binding alone."""
    if _fixed(pod["spec"]) == _fixed(old["spec"]):
        return []
    message = (
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [("FieldValueForbidden", "spec", message)]


def _fixed(spec: Object) -> Object:
    kept = {key: value for key, value in spec.items() if key not in _POD_MAY_CHANGE}
    for field in ("containers", "initContainers"):
        kept[field] = [{**container, "image": ""} for container in spec.get(field) or []]
    return kept

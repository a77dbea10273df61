"""Which Nodes a pod may go onto by their labels: ``nodeSelector`` and required node affinity."""

from __future__ import annotations

from airflow_dispatch.localcluster.apiserver.objects import Object

__all__ = ["selects"]


def selects(pod: Object, node: Object) -> bool:
    """The Node has all labels of the pod's ``nodeSelector`` and meets one term of its required affinity."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_meets(term, labels, fields) for term in required.get("nodeSelectorTerms") or ())


def _meets(term: Object, labels: dict[str, str], fields: dict[str, str]) -> bool:
    """All of a term's requirements hold; an empty term selects nothing."""
    expressions, matched = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not matched:
        return False
    return all(_holds(each, labels) for each in expressions) and all(_holds(each, fields) for each in matched)


def _holds(requirement: Object, values: dict[str, str]) -> bool:
    operator: str = requirement["operator"]
    value, wanted = values.get(requirement["key"]), list(map(str, requirement.get("values") or ()))
    if operator in ("Gt", "Lt"):
        if value is None or not value.lstrip("-").isdigit():
            return False
        return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return (value in wanted) == (operator == "In")

"""CRDs and webhook configurations, read from the controllers' own modules and pointed at loopback."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.realcluster.build import module_folder

TRAINER = "github.com/kubeflow/trainer/v2"
JOBSET = "sigs.k8s.io/jobset"
KUEUE = "sigs.k8s.io/kueue"

_KUEUE_KINDS = ("clusterqueue", "resourceflavor", "workload", "trainjob", "cohort", "job", "jobset")
_KUEUE_WEBHOOKS = {f"{letter}{kind}.kb.io" for letter in "mv" for kind in _KUEUE_KINDS}
_KUEUE_CONVERSION = re.compile(r"^- path: patches/webhook_in_(\w+)\.yaml", re.MULTILINE)


def custom_resources(authority_data: str, kueue_webhook: int | None) -> Iterator[dict[str, Any]]:
    """All CRDs; Kueue's too when the port of its webhook is given, since some of its kinds convert through it."""
    converted: set[str] = set()
    folders = [
        module_folder(TRAINER) / "manifests/base/crds",
        module_folder(JOBSET) / "config/components/crd/bases",
    ]
    if kueue_webhook is not None:
        crd = module_folder(KUEUE) / "config/components/crd"
        folders.append(crd / "bases")
        converted = {
            f"{plural}.kueue.x-k8s.io" for plural in _KUEUE_CONVERSION.findall((crd / "kustomization.yaml").read_text())
        }
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            if path.name == "kustomization.yaml":
                continue
            document = _load(path)[0]
            document.pop("status", None)
            document["metadata"].pop("creationTimestamp", None)
            if document["metadata"]["name"] in converted:
                document["spec"]["conversion"] = {
                    "strategy": "Webhook",
                    "webhook": {
                        "conversionReviewVersions": ["v1"],
                        "clientConfig": {
                            "url": f"https://127.0.0.1:{kueue_webhook}/convert",
                            "caBundle": authority_data,
                        },
                    },
                }
            yield document


def webhooks(authority_data: str, ports: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The webhook configurations of ``jobset``, ``trainer`` and ``kueue``, as far as ``ports`` names them.

    Mutating webhooks run in the order of their configurations' names, so those are the shipped ones. The selectors are
    those that the projects' kustomizations add to the generated manifests.
    """
    sources = {
        "jobset": (JOBSET, "config/components/webhook/manifests.yaml"),
        "trainer": (TRAINER, "manifests/base/webhook/manifests.yaml"),
        "kueue": (KUEUE, "config/components/webhook/manifests.yaml"),
    }
    for owner, port in ports.items():
        module, manifest = sources[owner]
        for document in _load(module_folder(module) / manifest):
            mutating = document["kind"] == "MutatingWebhookConfiguration"
            shipped = ("defaulter." if mutating else "validator.") + "trainer.kubeflow.org"
            document["metadata"] = {
                "name": shipped if owner == "trainer" else f"{owner}-{document['metadata']['name']}"
            }
            document["webhooks"] = [
                _on_loopback(owner, mutating, webhook, port, authority_data)
                for webhook in document["webhooks"]
                if owner != "kueue" or webhook["name"] in _KUEUE_WEBHOOKS
            ]
            yield document


def _on_loopback(owner: str, mutating: bool, webhook: dict[str, Any], port: int, authority_data: str) -> dict[str, Any]:
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority_data}
    name = webhook["name"]
    if owner == "jobset" and name in ("mpod.kb.io", "vpod.kb.io"):
        webhook["objectSelector"] = _expression("jobset.sigs.k8s.io/jobset-name", "Exists")
    elif owner == "trainer" and not mutating and "trainingruntime" in name:
        webhook["objectSelector"] = _expression("trainer.kubeflow.org/webhook-validation", "NotIn", "disabled")
    elif owner == "kueue" and re.match(r"[mv](job|jobset|trainjob)\.", name):
        webhook["namespaceSelector"] = _expression(
            "kubernetes.io/metadata.name", "NotIn", "kube-system", "kueue-system"
        )
    return webhook


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def _load(path: Path) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(path.read_text(), loader) if document]

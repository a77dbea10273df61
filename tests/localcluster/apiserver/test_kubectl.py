"""kubectl, when it is on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_dispatch.localcluster.resources import NODES
from tests.support.apiserver import Live

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: p, labels: {{app: {label}}}}}
spec: {{containers: [{{name: main, image: "example.invalid/app:1"}}]}}
"""
TRAINJOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: t}}
spec: {{runtimeRef: {{name: r}}, trainer: {{{field}: 2}}}}
"""


class Kubectl:
    """Runs kubectl with a kubeconfig and a home of its own."""

    def __init__(self, kubeconfig: str, home: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": kubeconfig, "HOME": str(home)}

    def run(self, *arguments: str, stdin: str = "", kubeconfig: str = "") -> tuple[int, str, str]:
        environment = {**self._environment, **({"KUBECONFIG": kubeconfig} if kubeconfig else {})}
        done = subprocess.run(
            [str(KUBECTL), *arguments],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        code, out, err = self.run(*arguments, stdin=stdin)
        assert code == 0, err
        return out


@pytest.fixture
def kubectl(live: Live, tmp_path: Path) -> Kubectl:
    return Kubectl(live.kubeconfig, tmp_path)


def test_apply_get_describe_label_patch_logs_wait_delete(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=POD.format(label="a")) == "pod/p created\n"
    assert kubectl("apply", "-f", "-", stdin=POD.format(label="a")) == "pod/p unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=POD.format(label="b")) == "pod/p configured\n"
    header, row = kubectl("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["p", "0/1", "Pending", "0"]
    assert "example.invalid/app:1" in kubectl("describe", "pod", "p")
    kubectl("label", "pod", "p", "team=ml")
    kubectl("patch", "pod", "p", "-p", '{"metadata":{"annotations":{"a":"b"}}}')
    template = "{.metadata.labels.app}{.metadata.labels.team}{.metadata.annotations.a}"
    assert kubectl("get", "pod", "p", "-o", f"jsonpath={template}") == "bmlb"
    assert kubectl("logs", "p", "--tail=1") == "main 2\n"
    assert kubectl("logs", "p", "-f").endswith("main 3 of p\n")
    kubectl("wait", "pod/p", "--for=jsonpath={.status.phase}=Pending", "--timeout=20s")
    kubectl("delete", "pod", "p")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_custom_kinds_with_strict_fields(kubectl: Kubectl) -> None:
    code, _, err = kubectl.run("create", "-f", "-", stdin=TRAINJOB.format(field="nonsense"))
    assert code == 1
    assert 'strict decoding error: unknown field "spec.trainer.nonsense"' in err
    kubectl("apply", "--server-side", "-f", "-", stdin=TRAINJOB.format(field="numNodes"))
    assert kubectl("get", "trainjobs", "-o", "jsonpath={.items[*].spec.trainer.numNodes}") == "2"
    kubectl("delete", "trainjob", "t", "--wait=true")


def test_nodes_are_tainted_and_cordoned(kubectl: Kubectl, live: Live) -> None:
    live.call(lambda: live.registry.create(NODES, None, {"metadata": {"name": "node-0"}}))
    taint = "node.kubernetes.io/out-of-service=nodeshutdown"
    kubectl("taint", "node", "node-0", f"{taint}:NoExecute")
    kubectl("cordon", "node-0")
    taints = live.call(lambda: live.registry.get(NODES, None, "node-0"))["spec"]["taints"]
    wanted = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    assert wanted in taints
    kubectl("taint", "node", "node-0", f"{taint}:NoExecute-")
    assert "SchedulingDisabled" in kubectl("get", "nodes")


def test_what_kubectl_writes_as_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "ml")
    kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "ml")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b", "-n", "ml")
    assert kubectl("get", "configmap", "c", "-n", "ml", "-o", "jsonpath={.data.a}") == "b"
    assert kubectl("get", "secret", "s", "-n", "ml", "-o", "jsonpath={.data.a}") == "Yg=="
    kubectl("delete", "namespace", "ml", "--timeout=30s")
    assert "ml" not in kubectl("get", "namespaces", "-o", "name")


def test_permissions(kubectl: Kubectl, live: Live) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    limited = str(live.call(lambda: live.server.add_user("ana", rules)))
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl.run("auth", "can-i", "create", "pods", kubeconfig=limited)[:2] == (1, "no\n")
    assert kubectl.run("auth", "can-i", "list", "pods", kubeconfig=limited)[:2] == (0, "yes\n")
    assert "ana" in kubectl.run("auth", "whoami", kubeconfig=limited)[1]
    code, _, err = kubectl.run("get", "nodes", kubeconfig=limited)
    assert code == 1
    assert 'User "ana" cannot list resource "nodes" in API group "" at the cluster scope' in err

"""``DisruptionTarget=True``: who took the pod away (contract, section 6.3, first table)."""

from __future__ import annotations

from typing import Final

from airflow_dispatch.core.classify.conditions import stamp, words_of
from airflow_dispatch.core.classify.nodes import out_of_service, ready, taint
from airflow_dispatch.core.classify.pods import PodView
from airflow_dispatch.core.classify.verdict import Verdict
from airflow_dispatch.core.objects import Condition
from airflow_dispatch.core.observation import CauseKind
from airflow_dispatch.core.rows import Row, implements
from airflow_dispatch.core.snapshot import NodeAbsence, Site

PREEMPTING: Final = ("PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByDeviceTaintManager")
TAINT_MANAGER: Final = "DeletionByTaintManager"
POD_GC: Final = "DeletionByPodGC"
KUBELET: Final = "TerminationByKubelet"
SHUTDOWN_REASONS: Final = ("NodeShutdown", "Terminated")
MEMORY_PRESSURE: Final = "low on resource: memory"


@implements(
    Row("6.3", "preempting", "{reasons}", (CauseKind.PREEMPTED,), None, ("<words>",), PREEMPTING),
    Row(
        "6.3",
        "taint-node-lost",
        "{reasons}; the Node is gone, not Ready, has a node-loss taint, or was so until later",
        (CauseKind.NODE_LOST,),
        details=(
            "<words>; node <node> is gone",
            "<words>; node <node> tainted <key>",
            "<words>; node <node> Ready=<status>",
            "<words>; node <node> was lost until <t>",
        ),
        reasons=(TAINT_MANAGER,),
    ),
    Row(
        "6.3",
        "taint-preempted",
        "{reasons}; the Node can be read, and none of that",
        (CauseKind.PREEMPTED,),
        details=("<words>; no node-loss taint on node <node>",),
        reasons=(TAINT_MANAGER,),
    ),
    Row(
        "6.3",
        "taint-unknown",
        "{reasons}; the Node can't be read",
        (CauseKind.UNKNOWN,),
        details=("<words>; node <node> is not readable", "<words>"),
        reasons=(TAINT_MANAGER,),
    ),
    Row(
        "6.3",
        "gc-node-lost",
        "{reasons}; the Node is gone or out of service",
        (CauseKind.NODE_LOST,),
        details=("<words>; node <node> is gone", "<words>; node <node> is out of service"),
        reasons=(POD_GC,),
    ),
    Row("6.3", "gc-unknown", "{reasons}, otherwise", (CauseKind.UNKNOWN,), None, ("<words>",), (POD_GC,)),
    Row(
        "6.3",
        "kubelet-shutdown",
        "{reasons}; the Node shuts down",
        (CauseKind.NODE_LOST,),
        details=("<words>",),
        reasons=(KUBELET,),
    ),
    Row(
        "6.3",
        "kubelet-memory",
        "{reasons}; the Node is low on memory",
        (CauseKind.OUT_OF_MEMORY,),
        details=("<words>",),
        reasons=(KUBELET,),
    ),
    Row("6.3", "kubelet-other", "{reasons}, otherwise", (CauseKind.PREEMPTED,), None, ("<words>",), (KUBELET,)),
    Row("6.3", "disruption-unknown", "any other reason", (CauseKind.UNKNOWN,), None, ("<words>",)),
)
def judge(view: PodView, condition: Condition, site: Site) -> Verdict:
    """What a pod's DisruptionTarget condition says."""
    reason, words = condition.reason or "", words_of(condition)
    if reason in PREEMPTING:
        return Verdict(CauseKind.PREEMPTED, words)
    if reason == TAINT_MANAGER:
        return _by_taint_manager(view, condition, words, site)
    if reason == POD_GC:
        return _by_pod_garbage_collection(view, words)
    if reason == KUBELET:
        return _by_kubelet(view, condition, words)
    return Verdict(CauseKind.UNKNOWN, words)


def _by_taint_manager(view: PodView, condition: Condition, words: str, site: Site) -> Verdict:
    """A NoExecute taint took it: that of a lost Node, or another one, which someone or something set on purpose."""
    node, name = view.node, view.node_name
    if node is None or node is NodeAbsence.NOT_READABLE:
        return Verdict(CauseKind.UNKNOWN, f"{words}; node {name} is not readable" if name else words)
    if isinstance(node, NodeAbsence):
        return Verdict(CauseKind.NODE_LOST, f"{words}; node {name} is gone")
    lost = taint(node, site.all_node_loss_taints)
    if lost is not None:
        return Verdict(CauseKind.NODE_LOST, f"{words}; node {name} tainted {lost.key}")
    state = ready(node)
    if state is not None and state.status != "True":
        return Verdict(CauseKind.NODE_LOST, f"{words}; node {name} Ready={state.status}")
    since = state.last_transition_time if state is not None else None
    if since is not None and condition.last_transition_time is not None and since > condition.last_transition_time:
        return Verdict(CauseKind.NODE_LOST, f"{words}; node {name} was lost until {stamp(since)}")
    return Verdict(CauseKind.PREEMPTED, f"{words}; no node-loss taint on node {name}")


def _by_pod_garbage_collection(view: PodView, words: str) -> Verdict:
    if view.node is NodeAbsence.GONE:
        return Verdict(CauseKind.NODE_LOST, f"{words}; node {view.node_name} is gone")
    if view.node is not None and not isinstance(view.node, NodeAbsence) and out_of_service(view.node):
        return Verdict(CauseKind.NODE_LOST, f"{words}; node {view.node_name} is out of service")
    return Verdict(CauseKind.UNKNOWN, words)


def _by_kubelet(view: PodView, condition: Condition, words: str) -> Verdict:
    status = view.pod.status
    pod_reason = (status.reason if status is not None else None) or ""
    pod_message = (status.message if status is not None else None) or ""
    message = condition.message or ""
    if pod_reason in SHUTDOWN_REASONS or "node shutdown" in message.lower():
        return Verdict(CauseKind.NODE_LOST, words)
    if MEMORY_PRESSURE in message or MEMORY_PRESSURE in pod_message:
        return Verdict(CauseKind.OUT_OF_MEMORY, words)
    return Verdict(CauseKind.PREEMPTED, words)

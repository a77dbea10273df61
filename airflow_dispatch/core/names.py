"""Every label, annotation, environment variable and object name, once.

Keys under ``dispatch.phpboyscout.uk/`` are ours. The others belong to Kubernetes, JobSet, Trainer or Kueue and are
only read, but for the three Kueue keys that a queued job must carry.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "dispatch.phpboyscout.uk/"

# On TrainJobs, runtime copies and pods.
LABEL_JOB_ID: Final = PREFIX + "job-id"
LABEL_SUBMISSION: Final = PREFIX + "submission"

# On TrainJobs.
ANNOTATION_COMMENT: Final = PREFIX + "comment"
ANNOTATION_OPENED: Final = PREFIX + "opened"
ANNOTATION_ADMISSION_FLOOR: Final = PREFIX + "admission-floor"
ANNOTATION_JOBSET_UID: Final = PREFIX + "jobset-uid"
ANNOTATION_SPEC_DIGEST: Final = PREFIX + "spec-digest"
ANNOTATION_ORIGIN: Final = PREFIX + "origin"
ANNOTATION_VERDICT: Final = PREFIX + "verdict"
ANNOTATION_REPORTED: Final = PREFIX + "reported"

# On the held object: the TrainJob in plain mode, the Workload in Kueue mode.
ANNOTATION_HOLD_INSTANCE: Final = PREFIX + "hold-instance"
ANNOTATION_HOLD_SINCE: Final = PREFIX + "hold-since"
ANNOTATION_HOLD_WHO: Final = PREFIX + "hold-who"
ANNOTATION_HOLD_UNTIL: Final = PREFIX + "hold-until"
ANNOTATION_HOLD_REASON: Final = PREFIX + "hold-reason"

# On pods, through the runtime patch.
ANNOTATION_ADMISSION: Final = PREFIX + "admission"

# On runtime copies.
ANNOTATION_RUNTIME_SOURCE: Final = PREFIX + "runtime-source"
ANNOTATION_RUNTIME_HARDENED: Final = PREFIX + "runtime-hardened"
ANNOTATION_RUNTIME_UNSAFE: Final = PREFIX + "runtime-unsafe"

# Who we are.
FIELD_MANAGER: Final = PREFIX + "adapter"
PATCH_MANAGER: Final = FIELD_MANAGER
GATE: Final = PREFIX + "gate"

# The preflight probe.
PROBE_IMAGE: Final = "dispatch.invalid/never:probe"
PROBE_NODE_SELECTOR: Final = PREFIX + "probe"

# Environment of the trainer container.
ENV_PREFIX: Final = "DISPATCH_"
ENV_JOB_ID: Final = "DISPATCH_JOB_ID"
ENV_SUBMISSION: Final = "DISPATCH_SUBMISSION"
ENV_EPOCH: Final = "DISPATCH_EPOCH"
ENV_ATTEMPT: Final = "DISPATCH_ATTEMPT"
ENV_INPUT_EPOCH_PREFIX: Final = "DISPATCH_K8S_EPOCH_PREFIX"
ENV_INPUT_TOKEN_PREFIX: Final = "DISPATCH_K8S_TOKEN_PREFIX"  # noqa: S105 (a variable's name)
ENV_INPUT_ADMISSION: Final = "DISPATCH_K8S_ADMISSION"
ENV_INPUT_RESTART: Final = "DISPATCH_K8S_RESTART"
ENV_INPUT_WORKDIR: Final = "DISPATCH_K8S_WORKDIR"
ENV_PUBLISH_DEST: Final = "DISPATCH_PUBLISH_DEST"

# Volumes of the trainer container.
VOLUME_CREDENTIAL_PREFIX: Final = "dispatch-credential-"
VOLUME_PUBLISH: Final = "dispatch-publish"
PUBLISH_DEST: Final = "/opt/dispatch"

# The trainer container, and the replicated job's label, in every Trainer runtime.
TRAINER_CONTAINER: Final = "node"
LABEL_ANCESTOR_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
ANCESTOR_STEP_TRAINER: Final = "trainer"

# Read from others.
LABEL_JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
LABEL_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
LABEL_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
LABEL_JOB_NAME: Final = "batch.kubernetes.io/job-name"
LABEL_KUEUE_JOB_UID: Final = "kueue.x-k8s.io/job-uid"

# Written for Kueue.
LABEL_KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
LABEL_KUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
ANNOTATION_KUEUE_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"

# Taints.
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
NODE_LOSS_TAINTS: Final = (TAINT_UNREACHABLE, TAINT_NOT_READY, TAINT_OUT_OF_SERVICE)
DISRUPTION_TAINTS: Final = ("karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler")

# Keys that a site's own labels and annotations may not begin with.
RESERVED_PREFIXES: Final = (PREFIX, "kueue.x-k8s.io/", "trainer.kubeflow.org/", "jobset.sigs.k8s.io/")

# API groups.
GROUP_TRAINER: Final = "trainer.kubeflow.org"
API_VERSION_TRAINER: Final = "trainer.kubeflow.org/v1alpha1"
API_VERSION_JOBSET: Final = "jobset.x-k8s.io/v1alpha2"


def object_name(job_id: str, submission: int) -> str:
    """The name of TrainJob, JobSet and runtime copy: ``dj-<lowercase JobID>-s<N>``, at most 37 characters."""
    return f"dj-{job_id.lower()}-s{submission}"


def ledger_name(job_id: str) -> str:
    """The name of the ConfigMap that remembers a job's vanished pods: ``dj-<lowercase JobID>-pods``."""
    return f"dj-{job_id.lower()}-pods"

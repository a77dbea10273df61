"""Runs multi-node training jobs on Kubernetes as Kubeflow TrainJobs, and says why they ended."""

__version__ = "0.1.0"

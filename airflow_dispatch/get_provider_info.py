"""What Airflow reads about this package: its modules, and the configuration options it adds.

There are no ``connection-types``: the ``kubernetes`` connection, which names the cluster, belongs to the cncf provider.
"""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Kubeflow TrainJob"


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, in the shape of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-dispatch",
        "name": "Dispatch",
        "description": "Runs multi-node training jobs on Kubernetes as Kubeflow TrainJobs, and says why they ended.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://www.kubeflow.org/docs/components/trainer/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_dispatch.operators.trainjob"]},
        ],
        "sensors": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_dispatch.sensors.trainjob"]},
        ],
        "hooks": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_dispatch.hooks.dispatch"]},
        ],
        "triggers": [
            {"integration-name": _INTEGRATION, "python-modules": ["airflow_dispatch.triggers.trainjob"]},
        ],
        "config": {
            "dispatch": {
                "description": "How Airflow's tasks become TrainJobs.",
                "options": {
                    "deployment": {
                        "description": (
                            "The name of this Airflow deployment, part of every JobID. Two deployments whose tasks run "
                            "in one Kubernetes namespace (staging and production, say) must have different names, else "
                            "they would adopt each other's jobs. A connection's ``dispatch_deployment`` extra goes "
                            "first; without either, ``[api] base_url`` is used. Changing it makes running jobs unknown "
                            "to their tasks.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "production",
                        "default": None,
                    },
                },
            },
        },
    }

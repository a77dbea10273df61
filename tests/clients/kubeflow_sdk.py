"""A training function through the Kubeflow SDK, as its own documentation does it; run by the SDK's interpreter.

Takes the path of a kubeconfig and the name of an image, and prints one JSON object of what the SDK made of the cluster.
"""

from __future__ import annotations

import json
import sys

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient


def train(word: str) -> None:
    """What each rank runs: the SDK sends its source, so it imports what it needs."""
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    sys.stdout.write(f"{word} from rank {os.environ['PET_NODE_RANK']} of {os.environ['PET_NNODES']}\n")


def main() -> None:
    """Lists runtimes, trains, waits, reads the log, and deletes."""
    kubeconfig, image = sys.argv[1:]
    client = TrainerClient(KubernetesBackendConfig(config_file=kubeconfig, namespace="default"))
    runtimes = sorted(runtime.name for runtime in client.list_runtimes())
    trainer = CustomTrainer(func=train, func_args={"word": "hello"}, image=image, num_nodes=2)
    name = client.train(runtime=client.get_runtime("torch-distributed"), trainer=trainer)
    listed = [job.name for job in client.list_jobs()]
    client.wait_for_job_status(name, status={"Complete"}, timeout=60, polling_interval=1)
    got = client.get_job(name)
    log = list(client.get_job_logs(name))
    client.delete_job(name)
    shown = {
        "runtimes": runtimes,
        "listed": listed == [name],
        "status": got.status,
        "steps": sorted((step.name, step.status) for step in got.steps),
        "log": log,
        "left": [job.name for job in client.list_jobs()],
    }
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main()

"""``make demo``: starts everything, runs the example DAG, shows its log as it grows, and says how it ended."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.airflow import USER, Airflow
from demo.services import ServiceError, start_cluster

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".demo"
DAG_ID, TASK_ID = "train_digits", "train"
RUN_SECONDS = 300
ENDED = ("success", "failed", "skipped", "removed", "upstream_failed")


def main() -> int:
    """Runs the demo; 0 only when the job has really succeeded."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with everything() as airflow:
            succeeded = show(airflow)
            if options.keep:
                keep(airflow)
    except ServiceError as error:
        say(f"\n{error}")
        return 1
    except KeyboardInterrupt:
        say("\nstopped")
        return 1
    return 0 if succeeded else 1


@contextlib.contextmanager
def everything() -> Iterator[Airflow]:
    """A local cluster of three nodes and an Airflow that knows it; both end with the block."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(mode=0o700)
    with contextlib.ExitStack() as stack:
        started = time.monotonic()
        cluster, state = start_cluster(FOLDER)
        stack.callback(cluster.stop)
        say(f"local cluster: 3 nodes at {state['url']} ({time.monotonic() - started:.0f} s)")
        connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": state["kubeconfig"]}}
        airflow = Airflow(FOLDER / "airflow", ROOT / "example_dags", {"kubernetes_default": connection})
        stack.callback(airflow.stop)
        started = time.monotonic()
        airflow.start()
        pids = ", ".join(f"{name} {service.pid}" for name, service in airflow.services.items())
        say(f"Airflow: {airflow.url} ({time.monotonic() - started:.0f} s; pids: cluster {cluster.pid}, {pids})")
        yield airflow


def show(airflow: Airflow) -> bool:
    """Runs the example DAG and prints its task's log as it grows; true when the training completed."""
    conf = {"checkpoints": str(FOLDER / "checkpoints")}
    run_id = airflow.run(DAG_ID, conf)
    say(f"\n{DAG_ID}: {airflow.task_url(DAG_ID, run_id, TASK_ID)}\n")
    printed: set[tuple[str, str]] = set()
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        task = airflow.task(DAG_ID, run_id, TASK_ID)
        for entry in airflow.log(DAG_ID, run_id, TASK_ID, max(1, task.get("try_number") or 1)):
            show_entry(entry, printed)
        if task["state"] in ENDED:
            break
        if time.monotonic() > deadline:
            say(f"the task is {task['state']} after {RUN_SECONDS} s")
            return False
        time.sleep(0.5)
    say(f"\ntask {TASK_ID}: {task['state']} after {task['duration'] or 0:.0f} s")
    if task["state"] != "success":
        return False
    outcome = airflow.xcom(DAG_ID, run_id, TASK_ID)
    cause = outcome["cause"]
    say(f"outcome: {outcome['ref']} {outcome['state']}: {cause['kind']}: {cause['detail']}")
    return bool(outcome["state"] == "ended" and cause["kind"] == "completed")


def show_entry(entry: dict[str, Any], printed: set[tuple[str, str]]) -> None:
    """Prints a log entry once, when it is the provider's own or a warning."""
    stamp, event = str(entry.get("timestamp") or ""), str(entry.get("event", ""))
    key = stamp, event
    if key in printed or not event:
        return
    printed.add(key)
    level = str(entry.get("level", "info"))
    if "airflow_dispatch" in str(entry.get("logger", "")) or level in ("warning", "error", "critical"):
        say(f"  {stamp[11:19]}  {'' if level == 'info' else level.upper() + ' '}{event}")


def keep(airflow: Airflow) -> None:
    """Says where everything is, and waits for Ctrl-C."""
    say(f"\nUI {airflow.url}  user {USER}  password {airflow.password}")
    say(f"faults: airflow-dispatch local node lose node-1 --state {FOLDER / 'cluster.json'}")
    say("Ctrl-C stops everything")
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


def say(text: str) -> None:
    """Prints at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""``make demo``: starts everything, runs the example DAG, shows its log as it grows, and says how it ended."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kubernetes import client, config

from demo.airflow import USER, Airflow
from demo.services import ROOT, ServiceError, start_cluster

FOLDER = ROOT / ".demo"
DAGS, TASK_ID = ("train_digits", "rank_exits_with_3"), "train"
RUN_SECONDS = 300
ENDED = ("success", "failed", "skipped", "removed", "upstream_failed")
ENDING_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Demo(NamedTuple):
    """What runs, and where."""

    folder: Path
    airflow: Airflow
    kubeconfig: Path


def main() -> int:
    """Runs the demo; 0 only when the job has really succeeded."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    parser.add_argument("--dag", choices=DAGS, default=DAGS[0], help="the example DAG to run (default %(default)s)")
    parser.add_argument("--real", action="store_true", help="on the real control plane, which is built from source")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where everything is kept; emptied first")
    options = parser.parse_args()
    for number in ENDING_SIGNALS - {signal.SIGINT}:
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        with everything(options.folder.resolve(), real=options.real) as demo:
            succeeded = show(demo, options.dag)
            if options.keep:
                keep(demo)
    except ServiceError as error:
        say(f"\n{error}")
        return 1
    except KeyboardInterrupt:
        say("\nstopped")
        return 1
    return 0 if succeeded else 1


@contextlib.contextmanager
def everything(folder: Path, *, real: bool) -> Iterator[Demo]:
    """A cluster of three nodes and an Airflow that knows it; both end with the block."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(emptied(folder))
        try:
            started = time.monotonic()
            cluster, state = start_cluster(folder, real=real)
            stack.callback(cluster.stop)
            say(f"{cluster.name}: 3 nodes at {state['url']} ({time.monotonic() - started:.0f} s)")
            connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": state["kubeconfig"]}}
            airflow = Airflow(folder / "airflow", ROOT / "example_dags", {"kubernetes_default": connection})
            stack.callback(airflow.stop)
            started = time.monotonic()
            airflow.start()
            pids = ", ".join(f"{name} {service.pid}" for name, service in airflow.services.items())
            say(f"Airflow: {airflow.url} ({time.monotonic() - started:.0f} s; pids: cluster {cluster.pid}, {pids})")
            yield Demo(folder, airflow, Path(state["kubeconfig"]))
        finally:
            # A second Ctrl-C must not leave half of it running; every service is given a bounded time to end.
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)


@contextlib.contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """A folder with nothing in it, ours until the block ends: a demo that still runs there keeps it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ServiceError(f"a demo is running in {folder}: end it first") from error
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        yield
    finally:
        os.close(held)


def show(demo: Demo, dag_id: str) -> bool:
    """Runs an example DAG and prints its task's log as it grows; true when the training completed."""
    airflow = demo.airflow
    run_id = airflow.run(dag_id, {"checkpoints": str(demo.folder / "checkpoints")})
    say(f"\n{dag_id}: {airflow.task_url(dag_id, run_id, TASK_ID)}\n")
    printed: set[tuple[str, str]] = set()
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        task = airflow.task(dag_id, run_id, TASK_ID)
        for entry in airflow.log(dag_id, run_id, TASK_ID, max(1, task.get("try_number") or 1)):
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
    outcome = airflow.xcom(dag_id, run_id, TASK_ID)
    cause = outcome["cause"]
    say(f"outcome: {outcome['ref']} {outcome['state']}: {cause['kind']}: {cause['detail']}")
    return cause["kind"] == "completed" and is_complete(demo.kubeconfig, outcome["ref"])


def is_complete(kubeconfig: Path, ref: str) -> bool:
    """Whether the TrainJob ``<namespace>/<name>`` says itself that it is Complete, whatever the task made of it."""
    namespace, _, name = ref.partition("/")
    with config.new_client_from_config(str(kubeconfig)) as connection:
        api = client.CustomObjectsApi(connection)
        found = api.get_namespaced_custom_object("trainer.kubeflow.org", "v1alpha1", namespace, "trainjobs", name)
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


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


def keep(demo: Demo) -> None:
    """Says where everything is, and waits for Ctrl-C."""
    say(f"\nUI {demo.airflow.url}  user {USER}  password {demo.airflow.password}")
    say(f"faults: airflow-dispatch local node lose node-1 --state {demo.folder / 'cluster.json'}")
    say("Ctrl-C stops everything")
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    signal.sigwait(ENDING_SIGNALS)


def say(text: str) -> None:
    """Prints at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

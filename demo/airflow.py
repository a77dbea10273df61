"""An Airflow of separate services on loopback: SQLite, LocalExecutor, and its REST API."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from demo.services import Service, ServiceError, free_port, wait_for

__all__ = ["Airflow"]

USER = "admin"
_PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_HEALTHY = {"metadatabase", "scheduler", "triggerer", "dag_processor"}


class Airflow:
    """One Airflow in a folder of its own.

    ``connections`` maps connection ids to their JSON, ``settings`` adds to Airflow's own, as in
    ``{"TRIGGERER__JOB_HEARTBEAT_SEC": "1"}``. ``services`` are the running parts by name.
    """

    def __init__(
        self,
        home: Path,
        dags: Path,
        connections: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.password = secrets.token_urlsafe(12)
        self.services: dict[str, Service] = {}
        self._bin = Path(sys.executable).parent
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        home.mkdir(parents=True, exist_ok=True)
        self.environment = self._environment(dags, connections, settings or {})
        self._client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        passwords = home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({USER: self.password}))

    # ------------------------------------------------------------ services

    def start(self) -> None:
        """Makes the database and starts all parts; returns when all are healthy and the DAGs are known."""
        migrated = subprocess.run(  # noqa: S603 (our own command)
            [self._bin / "airflow", "db", "migrate"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if migrated.returncode:
            raise ServiceError(f"airflow db migrate failed:\n{migrated.stdout[-2000:]}")
        for part in _PARTS:
            self.start_part(part)
        wait_for("Airflow", self._healthy, list(self.services.values()), 120)
        answer = self._client.post("/auth/token", json={"username": USER, "password": self.password})
        answer.raise_for_status()
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def start_part(
        self, part: str, *, name: str | None = None, environment: Mapping[str, str] | None = None
    ) -> Service:
        """Starts one of Airflow's parts, under another name when there is to be a second one."""
        name = name or part
        command = [str(self._bin / "airflow"), part]
        log = self.home / f"{name}.log"
        service = Service(name, command, log, {**self.environment, **(environment or {})})
        self.services[name] = service
        return service

    def stop_part(self, name: str) -> None:
        """Asks one of the parts to end, and waits for it."""
        self.services.pop(name).stop()

    def kill_part(self, name: str) -> None:
        """Ends one of the parts and all its processes at once, as the loss of its machine would."""
        self.services.pop(name).kill()

    def stop(self) -> None:
        """Stops all parts, the last started first, without waiting for one before the next is asked."""
        services = list(reversed(self.services.values()))
        for service in services:
            service.terminate()
        for service in services:
            service.stop()
        self._client.close()

    # ------------------------------------------------------------ the REST API

    def run(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Starts a Dag run and returns its id."""
        wait_for(f"DAG {dag_id}", lambda: self._known(dag_id), list(self.services.values()), 90)
        body = {"logical_date": None, "conf": dict(conf or {})}
        answer = self._request("POST", f"/dags/{dag_id}/dagRuns", json=body)
        run_id: str = answer["dag_run_id"]
        return run_id

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """A task instance."""
        return self._request("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}")

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> list[dict[str, Any]]:
        """The entries of a try's log as far as it goes, each with ``event`` and mostly ``timestamp``, ``level``."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/logs/{try_number}"
        answer = self._request("GET", path, missing={"content": []}, params={"full_content": "true"})
        content = answer.get("content", [])
        return [entry for entry in content if isinstance(entry, dict)]

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """An XCom's value."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._request("GET", path, params={"deserialize": "true"})["value"]

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Marks a task instance, as a person does in the UI."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}"
        self._request("PATCH", path, json={"new_state": state})

    def task_url(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The page of a task instance in the UI."""
        return f"{self.url}/dags/{dag_id}/runs/{quote(run_id, safe='')}/tasks/{task_id}"

    # ------------------------------------------------------------ the inside

    def _environment(
        self, dags: Path, connections: Mapping[str, Mapping[str, Any]], extra: Mapping[str, str]
    ) -> dict[str, str]:
        settings = {
            "CORE__DAGS_FOLDER": str(dags),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self._port),
            "API__WORKERS": "1",
            "API__BASE_URL": self.url,
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "USAGE_DATA_COLLECTION__ENABLED": "False",
            **extra,
        }
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "KUBE"))}
        return {
            **kept,
            "AIRFLOW_HOME": str(self.home),
            "PATH": f"{self._bin}:{kept.get('PATH', '')}",
            **{f"AIRFLOW__{key}": value for key, value in settings.items()},
            **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()},
        }

    def _healthy(self) -> bool:
        try:
            answer = self._client.get("/api/v2/monitor/health")
        except httpx.HTTPError:
            return False
        if answer.status_code != httpx.codes.OK:
            return False
        return all((answer.json().get(part) or {}).get("status") == "healthy" for part in _HEALTHY)

    def _known(self, dag_id: str) -> bool:
        answer = self._client.get(f"/api/v2/dags/{dag_id}")
        return answer.status_code == httpx.codes.OK

    def _request(
        self, method: str, path: str, *, missing: dict[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """One call; ``missing`` is the answer to a 404.

        SQLite under four services answers one call of some sixty with a 500, which is asked again.
        """
        for attempt in range(5):
            answer = self._client.request(method, f"/api/v2{path}", **options)
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                break
            time.sleep(0.5 * attempt)
        if answer.status_code == httpx.codes.NOT_FOUND and missing is not None:
            return missing
        if answer.is_error:
            raise ServiceError(f"{method} {path}: HTTP {answer.status_code}: {answer.text[:500]}")
        body: dict[str, Any] = answer.json()
        return body

"""The state file of ``airflow-dispatch local up``: how other commands, and other programs, find the running cluster."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_dispatch.cli.exits import Exit, Failure

__all__ = ["LocalState", "default_state_file"]


def default_state_file() -> Path:
    """``$XDG_STATE_HOME/airflow-dispatch/local.json``, below ``~/.local/state`` when that is not set."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "airflow-dispatch" / "local.json"


@dataclass(frozen=True)
class LocalState:
    """A running cluster.

    Attributes:
        pid: The process that is the cluster.
        url: Its API server.
        kubeconfig: The administrator's kubeconfig.
        control: The URL of its control endpoint.
        token: What the control endpoint asks for.
    """

    pid: int
    url: str
    kubeconfig: str
    control: str
    token: str

    @property
    def alive(self) -> bool:
        """Whether that process still is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def write(self, path: Path) -> None:
        """Writes the file in one step, readable by its owner alone (mode 0600)."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(self), file)
        Path(temporary).replace(path)

    def remove(self, path: Path) -> None:
        """Takes the file away."""
        path.unlink(missing_ok=True)

    @classmethod
    def find(cls, path: Path) -> LocalState | None:
        """The state of the running cluster, or None when the file is missing, is none, or outlived its cluster."""
        try:
            return cls.read(path)
        except Failure:
            return None

    @classmethod
    def read(cls, path: Path) -> LocalState:
        """The state of the running cluster.

        Raises:
            Failure: There is none.
        """
        try:
            state = cls(**json.loads(path.read_text()))
        except FileNotFoundError as error:
            message = f"no local cluster is running ({path} does not exist); start one with: airflow-dispatch local up"
            raise Failure(message, Exit.UNREACHABLE) from error
        except (ValueError, TypeError) as error:
            raise Failure(f"{path} is no state file: {error}", Exit.UNREACHABLE) from error
        if not state.alive:
            message = f"the local cluster of {path} has ended; start one with: airflow-dispatch local up"
            raise Failure(message, Exit.UNREACHABLE)
        return state

"""The example training script, whose checkpoint folder a newer execution has claimed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from airflow_dispatch import fence
from tests.support.fences import FENCED_OUT, HELD, Execution

SCRIPT = Path(fence.__file__).parent.parent / "example_dags" / "training" / "train_digits.py"
COMMAND = [sys.executable, str(SCRIPT), "--pause", "0", "--epochs"]


def train(folder: Path, execution: Execution, epochs: int) -> subprocess.CompletedProcess[str]:
    environment = execution.environment | {"CHECKPOINTS": str(folder)}
    return subprocess.run([*COMMAND, str(epochs)], env=environment, capture_output=True, text=True, check=False)


def test_the_newest_execution_resumes_and_an_older_one_stops(tmp_path: Path) -> None:
    assert train(tmp_path, Execution(1000001), 1).returncode == HELD
    newest = train(tmp_path, Execution(2000001), 2)
    assert newest.returncode == HELD
    assert "resuming after epoch 1" in newest.stdout
    older = train(tmp_path, Execution(1000002), 3)
    assert older.returncode == FENCED_OUT
    assert "is held by epoch 2000001" in older.stderr

"""Builds the real control plane's programs from their Go modules, once for each state of ``go.sum``.

The programs go to a folder of the user's cache named after the digest of ``go.sum``, never into the repository.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).with_name("go")
NEEDED_BYTES: Final = 6 * 1024**3
"""Modules 0.8 GB, Go's build cache 3.4 GB, programs 0.5 GB, and some room."""

_VERSION = "k8s.io/component-base/version"
_LDFLAGS = f"-s -w -X {_VERSION}.gitVersion=v1.36.3 -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36"

PROGRAMS: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "jobset": "sigs.k8s.io/jobset",
    "trainer-controller-manager": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
    "kueue": "sigs.k8s.io/kueue/cmd/kueue",
}


class CannotBuildError(Exception):
    """Says what is missing and what to do about it."""


def cache_folder() -> Path:
    """Where the programs of this ``go.sum`` are kept."""
    digest = hashlib.sha256((MODULE / "go.sum").read_bytes()).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "airflow-dispatch" / "realcluster" / digest


def go() -> str:
    """The ``go`` command; raises :class:`CannotBuildError` when there is none."""
    found = shutil.which("go")
    if found is None:
        raise CannotBuildError(
            "The real control plane is built from source, and there is no `go` on the PATH. "
            "Install Go 1.26 or newer, or run `make test`, which needs none.",
        )
    return found


def module_folder(module: str) -> Path:
    """The folder of a module's source in Go's module cache, at the version that ``go.mod`` pins."""
    output = subprocess.run(
        [go(), "list", "-m", "-f", "{{.Dir}}", module],
        cwd=MODULE,
        env=_environment(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not output:
        raise CannotBuildError(f"Go's module cache has no source of {module}; run `python -m tests.realcluster.build`.")
    return Path(output)


def programs() -> Path:
    """The folder with all programs, built first if need be; progress goes to standard error."""
    folder = cache_folder()
    missing = [name for name in PROGRAMS if not (folder / name).exists()]
    if not missing:
        return folder
    command = go()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise CannotBuildError(
            f"Building the control plane takes about {NEEDED_BYTES / 1e9:.0f} GB, "
            f"and {folder} has {free / 1e9:.1f} GB free.",
        )
    for number, name in enumerate(missing, start=1):
        started = time.monotonic()
        _say(f"building {name} ({number} of {len(missing)})")
        partial = folder / f".{name}.{os.getpid()}"
        _run([command, "build", "-ldflags", _LDFLAGS, "-o", str(partial), PROGRAMS[name]])
        partial.rename(folder / name)
        _say(f"built {name} in {time.monotonic() - started:.0f} s")
    return folder


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=readonly", "GOTOOLCHAIN": "local"}


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        cwd=MODULE,
        env=_environment(),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise CannotBuildError(f"`{' '.join(command)}` ended with exit code {done.returncode}:\n{tail}")


def _say(text: str) -> None:
    sys.stderr.write(f"real control plane: {text}\n")
    sys.stderr.flush()


def main() -> int:
    """Builds what is missing and prints the folder."""
    try:
        folder = programs()
    except CannotBuildError as error:
        _say(str(error))
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

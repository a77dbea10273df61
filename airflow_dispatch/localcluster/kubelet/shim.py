"""The supervising process of one container; a program of its own, of the standard library alone.

It stands between the cluster's process and the container's, as a container runtime's shim does, so that

- the container gets a mount namespace with its own ``/etc/hosts`` and volumes, and its own host name;
- everything it starts, also what left its process group, is found again and killed (the shim adopts orphans);
- nothing outlives the cluster's process: when the pipe from it closes, however it ended, the shim kills the rest.

Protocol: one line of JSON on standard input describes the container; afterwards each line there is a command,
``term`` or ``kill``, and the end of the pipe means ``kill``. On standard output it reports one JSON object a line:
``{"started": pid}``, then ``{"exit": code}`` or ``{"signal": number}``; or ``{"error": text, "reason": reason}`` alone.
The container's output goes to the shim's standard error. ``--probe`` tells by its exit code whether mount namespaces
are permitted on this machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 0x1
_MS_REMOUNT = 0x20
_KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() if kind else None, ctypes.c_ulong(flags), None
    )
    _check(result, f"mount {source} on {target}")


def _enter_namespaces() -> None:
    """Its own mounts and host name; without privileges by way of a user namespace in which we stay who we are."""
    uid, gid = os.geteuid(), os.getegid()
    flags = _CLONE_NEWNS | _CLONE_NEWUTS
    if uid != 0:
        flags |= _CLONE_NEWUSER
    _check(_libc.unshare(flags), "unshare")
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


class _Root:
    """A root folder for one container: this machine's files with volumes laid over them.

    The machine's own folders are never written to: where a mount's target does not exist, the nearest folder that does
    is replaced by a mirror, an empty folder in memory that shows the same entries and can take one more.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._ours: set[str] = set()
        self._volumes: list[str] = []
        self._mirror("/", path)

    def mount(self, source: str, target: str, *, read_only: bool) -> None:
        """Shows ``source`` at ``target``."""
        place = self._place(target, folder=Path(source).is_dir())
        _mount(source, place, None, _MS_BIND | _MS_REC)
        if read_only:
            # In a user namespace a remount may drop none of the restrictions that the source came with.
            kept = os.statvfs(place).f_flag & _KEPT_FLAGS
            _mount(source, place, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)
        self._volumes.append(place)

    def _mirror(self, source: str, target: str) -> None:
        _mount("tmpfs", target, "tmpfs", 0)
        self._ours.add(target)
        for original in Path(source).iterdir():
            copy = Path(target, original.name)
            if original.is_symlink():
                copy.symlink_to(original.readlink())
                continue
            if original.is_dir():
                copy.mkdir()
            else:
                copy.touch()
            _mount(str(original), str(copy), None, _MS_BIND | _MS_REC)

    def _may_write(self, shown: str) -> bool:
        in_volume = any(shown == volume or shown.startswith(volume + "/") for volume in self._volumes)
        return in_volume or shown in self._ours

    def _place(self, target: str, *, folder: bool) -> str:
        """The path that stands for ``target``, made when it does not exist."""
        real = Path("/")
        shown = Path(self._path)
        parts = Path(os.path.realpath(target)).parts[1:]
        for depth, part in enumerate(parts, start=1):
            if not (shown / part).exists():
                if not self._may_write(str(shown)):
                    self._mirror(str(real), str(shown))
                if depth == len(parts) and not folder:
                    (shown / part).touch()
                else:
                    (shown / part).mkdir()
                    self._ours.add(str(shown / part))
            real, shown = real / part, shown / part
        return str(shown)


def _isolate(spec: dict[str, Any]) -> None:
    """Gives this process, and so the container, its own root, volumes, hosts file and host name."""
    _enter_namespaces()
    hostname = spec["hostname"].encode()
    _check(_libc.sethostname(hostname, len(hostname)), "sethostname")
    root = _Root(spec["root"])
    for entry in sorted(spec["mounts"], key=lambda entry: str(entry["target"])):
        root.mount(entry["source"], entry["target"], read_only=entry["read_only"])
    os.chroot(spec["root"])
    os.chdir("/")


def _descendants() -> list[int]:
    """Every process below this one."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(process.name))
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _kill_rest() -> None:
    """Ends whatever is left of the container, also what made a session of its own."""
    while True:
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _report(**fields: Any) -> None:
    os.write(1, json.dumps(fields).encode() + b"\n")


def _exec(spec: dict[str, Any], failures: int) -> NoReturn:
    """In the container's first process: becomes its program, or says through ``failures`` why not."""
    try:
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.chdir(spec["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 - no shell is wanted
    except OSError as error:
        program = spec["argv"][0]
        what = (
            f'exec: "{program}": executable file not found in $PATH'
            if isinstance(error, FileNotFoundError) and error.filename != spec["cwd"]
            else str(error)
        )
        os.write(failures, what.encode())
    os._exit(127)


def _start(spec: dict[str, Any]) -> int:
    """Forks the container's first process; its pid."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        _exec(spec, writable)
    os.close(writable)
    failure = b""
    while portion := os.read(readable, 4096):
        failure += portion
    os.close(readable)
    if failure:
        os.waitpid(pid, 0)
        _report(error=failure.decode(), reason="StartError")
        sys.exit(0)
    _report(started=pid)
    return pid


def _reap(main: int) -> int | None:
    """Collects children that ended; the wait status of the container's first process when it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == main:
            return status
        if pid == 0:
            return None


def _supervise(main: int, wake: int, commands: bytes) -> int:
    """Obeys commands until the container's first process has ended; its wait status."""
    while True:
        status = _reap(main)
        if status is not None:
            return status
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready and signal.SIGTERM in os.read(wake, 4096):
            _kill_rest()  # the thread that started this process is gone
            sys.exit(0)
        if 0 in ready:
            portion = os.read(0, 4096)
            commands += portion or b"kill\n"
            *lines, commands = commands.split(b"\n")
            for line in lines:
                os.kill(main, signal.SIGTERM if line == b"term" else signal.SIGKILL)
            if not portion:
                _kill_rest()
                sys.exit(0)


def _read_spec() -> tuple[dict[str, Any], bytes]:
    data = b""
    while b"\n" not in data:
        portion = os.read(0, 65536)
        if not portion:
            sys.exit(0)
        data += portion
    line, _, rest = data.partition(b"\n")
    spec: dict[str, Any] = json.loads(line)
    return spec, rest


def main() -> None:
    """Runs one container to its end."""
    spec, rest = _read_spec()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # the wakeup descriptor tells
    try:
        if spec["root"] is not None:
            _isolate(spec)
    except OSError as error:
        _report(error=str(error), reason="CreateContainerError")
        return
    pid = _start(spec)
    status = _supervise(pid, wake_read, rest)
    _kill_rest()
    if os.WIFSIGNALED(status):
        _report(signal=os.WTERMSIG(status))
    else:
        _report(exit=os.WEXITSTATUS(status))


def probe() -> None:
    """Raises when mount namespaces are not permitted."""
    _enter_namespaces()
    _mount("/etc/hosts", "/etc/hosts", None, _MS_BIND)
    _mount("tmpfs", "/mnt", "tmpfs", 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--probe"]:
        probe()
    else:
        main()

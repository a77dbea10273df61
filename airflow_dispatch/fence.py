"""Lets one execution of a job write to a checkpoint folder: the one with the highest ``DISPATCH_EPOCH``.

For training code. This file needs Python 3.9 and nothing else: import it, or copy it into the image. ``fence.sh``
beside it does the same in ``sh``, and both work on one folder together::

    checkpoints = claim("/checkpoints/run-7")
    # only now look for a checkpoint to resume from
    with checkpoints.saving("latest.npz") as partial:
        np.savez(partial, **state)

All ranks of an execution share its epoch, and each may claim and save. Lower epochs are refused with
:class:`FencedOut`; the same epoch may claim again, as a restarted process does.

**The state** is names alone, in ``<folder>/.dispatch-fence/``, so nothing can be half written. ``<claim>`` is the epoch
in twelve digits, then ``.`` and ``DISPATCH_ATTEMPT`` when it is set. Claims are ordered as text; the last one holds.

- ``epoch-<claim>``: an empty file for each execution that has claimed the folder.
- ``work-<claim>@<unique>/``: where one save writes before its result is renamed into place.

**Why it holds.** A save writes in its work folder, then looks at the claims, then renames. A claim is put down first,
and then the work folders of all lower claims are removed. So either the save sees the claim, or what it is about to
rename is removed: what is not in its place when ``claim`` returns never will be, however long the process was frozen.

That rests on a rename being one step, and on a listing showing what was made before it: a local file system, NFS,
Lustre or CephFS, not an object store that is mounted as a folder. What is written there in any other way than
:meth:`Fence.saving` is only as safe as a :meth:`Fence.check` before it: between the two another execution may claim.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Union

__all__ = ["FOLDER", "Fence", "FenceError", "FencedOut", "claim"]

FOLDER = ".dispatch-fence"
"""Where the claims of a checkpoint folder are."""

_CLAIM, _WORK = "epoch-", "work-"
_CLAIM_FORM = re.compile(r"[0-9]{12}(\.[A-Za-z0-9._-]+)?")
_REMOVALS = 100

StrPath = Union[str, "os.PathLike[str]"]


class FenceError(Exception):
    """The folder can't be claimed or looked at, or its claims are not what they should be: nothing may be written."""


class FencedOut(FenceError):
    """Another execution holds the folder; ``holder`` and ``own`` are claims."""

    def __init__(self, folder: Path, own: str, holder: str) -> None:
        super().__init__(f"{folder} is held by {_words(holder)}; {_words(own)} may not write there any more")
        self.folder = folder
        self.own = own
        self.holder = holder


class Fence:
    """A checkpoint folder, as one execution has claimed it; made by :func:`claim`."""

    def __init__(self, folder: Path, own: str) -> None:
        self.folder = folder
        self.own = own
        self._state = folder / FOLDER

    def check(self) -> None:
        """Raises :class:`FencedOut` when another execution holds the folder, :class:`FenceError` when nobody does.

        To be called before each write that does not go through :meth:`saving`.
        """
        claims = self._claims()
        if claims and claims[-1] > self.own:
            raise FencedOut(self.folder, self.own, claims[-1])
        if self.own not in claims:
            raise FenceError(f"the claim of {_words(self.own)} is gone from {self.folder}: it was emptied or replaced")

    @contextlib.contextmanager
    def saving(self, name: StrPath) -> Iterator[Path]:
        """Gives a path to write a file or a folder to, which then becomes ``name`` in one step, or not at all.

        A file replaces the one of that name; a folder needs a name that is free. ``name`` is relative to the checkpoint
        folder. The content is on the disk before it gets its name. Raises as :meth:`check` does.
        """
        target = self.folder / name
        work = self._state / f"{_WORK}{self.own}@{secrets.token_hex(8)}"
        with _as_fence_error(self.folder):
            work.mkdir()
        try:
            self.check()
            partial = work / target.name
            try:
                yield partial
                _flush(partial)
                target.parent.mkdir(parents=True, exist_ok=True)
                # Also for a writer that has made a removed work folder again, as `mkdir(parents=True)` does.
                self.check()
                partial.replace(target)
            except FileNotFoundError:
                self.check()
                raise
            _flush_folder(target.parent)
        finally:
            _discard(work)

    def _put(self) -> None:
        """Puts the claim down; what stands after the last look is either refused or overtaken."""
        with _as_fence_error(self.folder):
            self._state.mkdir(parents=True, exist_ok=True)
            claims = self._claims()
            if claims and claims[-1] > self.own:
                raise FencedOut(self.folder, self.own, claims[-1])
            (self._state / f"{_CLAIM}{self.own}").touch()
            _flush_folder(self._state)
            _flush_folder(self.folder)
            self.check()
            for name in self._names():
                if name.startswith(_WORK) and name[len(_WORK) :].partition("@")[0] < self.own:
                    _discard(self._state / name)

    def _claims(self) -> list[str]:
        found = sorted(name[len(_CLAIM) :] for name in self._names() if name.startswith(_CLAIM))
        for text in found:
            if not _CLAIM_FORM.fullmatch(text):
                raise FenceError(f"{self._state / (_CLAIM + text)} is no claim: somebody else made it")
        return found

    def _names(self) -> list[str]:
        with _as_fence_error(self.folder):
            # Asks the server: an NFS client compares its stored listing with the folder that comes back.
            os.utime(self._state)
            return [path.name for path in self._state.iterdir()]


def claim(folder: StrPath, epoch: int | None = None, token: str | None = None) -> Fence:
    """Claims a checkpoint folder for this execution; makes the folder when it is not there.

    Epoch and token are those of ``DISPATCH_EPOCH`` and ``DISPATCH_ATTEMPT`` unless an epoch is given. When it returns,
    nothing that a lower epoch saves will arrive any more. Raises :class:`FencedOut` when a higher epoch holds it, and
    :class:`FenceError` when it can't be claimed.
    """
    if epoch is None:
        text, token = os.environ.get("DISPATCH_EPOCH", ""), os.environ.get("DISPATCH_ATTEMPT")
    else:
        text = str(epoch)
    own = text.zfill(12) + (f".{token}" if token else "")
    if not text or not _CLAIM_FORM.fullmatch(own):
        raise FenceError(f"epoch {text!r} with token {token or ''!r} is no claim: DISPATCH_EPOCH is a decimal number")
    fence = Fence(Path(folder), own)
    fence._put()  # noqa: SLF001 (of this module)
    return fence


def _words(own: str) -> str:
    epoch, _, token = own.partition(".")
    return f"epoch {int(epoch)}" + (f" ({token})" if token else "")


@contextlib.contextmanager
def _as_fence_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FenceError(f"{folder} can't be claimed: {error}") from error


def _discard(work: Path) -> None:
    """Removes a work folder, whoever else does too."""
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(work)
        except FileNotFoundError:
            if not work.exists():
                return
        except OSError as error:
            # Something was still being written in there; or, on NFS, is held open by a process of this machine and has
            # been given another name, under which no save looks for it.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise
            if all(name.startswith(".nfs") for _, _, files in os.walk(work) for name in files):
                return
        else:
            return
    raise FenceError(f"{work} can't be removed: something goes on writing there")


def _flush(path: Path) -> None:
    if not path.is_dir():
        _sync(path)
        return
    for folder, _, files in os.walk(path):
        for name in files:
            _sync(Path(folder) / name)
        _flush_folder(Path(folder))


def _flush_folder(folder: Path) -> None:
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that have no such call for folders
            raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

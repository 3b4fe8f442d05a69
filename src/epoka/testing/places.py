"""Where clusters of tests keep what nobody will want afterwards: in memory if there is room, else on disk.

A broker makes what it has promised durable, and a disk takes milliseconds for that, many times a test. What a
killed session has left behind is swept away by the next one. A folder is in use while somebody holds its
lock; the id of a process says nothing, for another container may share the folders and not the ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 512 * 1024 * 1024
PREFIX = "epoka-tests-"
LOCK = "lock"

_locks: dict[Path, IO[str]] = {}
"""What holds the lock of every folder of this process."""


def new_folder(memory: Path = MEMORY) -> Path:
    """A folder with nothing but its lock, held until `remove`; `EPOKA_TEST_DATA` says where, if anything."""
    chosen = os.environ.get("EPOKA_TEST_DATA")
    root = Path(chosen) if chosen else memory if _has_room(memory) else Path(tempfile.gettempdir())
    sweep(root)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
        lock = _lock(folder)
        if lock is not None:
            _locks[folder] = lock
            return folder


def remove(folder: Path) -> None:
    """Remove a folder of this process."""
    shutil.rmtree(folder, ignore_errors=True)
    _locks.pop(folder).close()


def sweep(root: Path) -> None:
    """Remove the folders that nobody uses any more."""
    for folder in root.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        # What cannot be locked is left to whoever can.
        with contextlib.suppress(OSError):
            ours = folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid()
            lock = _lock(folder) if owner.isdigit() and ours else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                lock.close()


def _lock(folder: Path) -> IO[str] | None:
    """What holds the lock of a folder; None if somebody else does, or has swept the folder away meanwhile."""
    try:
        lock = (folder / LOCK).open("a")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A sweep removes the file that it has locked; one that is there no longer locks nothing.
        if os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        lock.close()
        raise
    lock.close()
    return None


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= ENOUGH_BYTES
    except OSError:
        return False

"""Where clusters of tests keep what nobody will want afterwards: in memory if there is room, else on disk.

A broker makes what it has promised durable, and a disk takes milliseconds for that, many times a test. What a
killed session has left behind is swept away by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 512 * 1024 * 1024
PREFIX = "epoka-tests-"


def new_folder(memory: Path = MEMORY) -> Path:
    """An empty folder of this process; `EPOKA_TEST_DATA` says where, if it says anything."""
    chosen = os.environ.get("EPOKA_TEST_DATA")
    root = Path(chosen) if chosen else memory if _has_room(memory) else Path(tempfile.gettempdir())
    sweep(root)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))


def sweep(root: Path) -> None:
    """Remove the folders of processes that are no more."""
    for folder in root.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        # Another process may sweep the same folder at the same time.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if owner.isdigit() and folder.is_dir() and folder.stat().st_uid == os.getuid():
                try:
                    os.kill(int(owner), 0)
                except ProcessLookupError:
                    shutil.rmtree(folder, ignore_errors=True)


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= ENOUGH_BYTES
    except OSError:
        return False

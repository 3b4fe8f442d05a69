"""A tiny file system behind the log: files for nodes, memory with a flushed/unflushed line for the simulator.

Decides what an append, a flush and a replace promise. An append is whole or not there: after a short write or
an error the blob is cut back to where it was and StorageError is raised. A flush that failed must never be
tried again as if nothing had happened, because the kernel may have dropped the dirty pages: the blob stays
broken. `replace` is atomic and durable.

FileStore and MemoryStore behave alike and pass the same conformance tests. What a crash does to them is the
only difference: MemoryStore can be told to crash.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview

DELETED_MARK = "~deleted"
"""Ends the name of a folder that is being deleted. No topic name may hold a tilde."""


class StorageError(Exception):
    """The world's fault: disk full, I/O error, a lock that another process holds."""


class Blob(Protocol):
    """An append-only run of bytes that can be cut at its end."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    def append(self, parts: Sequence[Buffer]) -> int:
        """The position of the first byte. All parts are there afterwards, or none and StorageError."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """The bytes that are there, fewer than `length` only at the end."""
        ...

    def truncate(self, size: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    @property
    def fileno(self) -> int:
        """A descriptor for sendfile, or -1 where there is no file."""
        ...


class Store(Protocol):
    def open(self, name: str) -> Blob: ...
    def names(self) -> list[str]: ...
    def exists(self, name: str) -> bool: ...
    def delete(self, name: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def read_all(self, name: str) -> bytes | None: ...
    def replace(self, name: str, content: bytes) -> None: ...
    def folder(self, name: str) -> Store: ...
    def folders(self) -> list[str]: ...
    def delete_folder(self, name: str) -> None: ...
    def lock(self) -> None:
        """Takes the folder for this process; StorageError if another one has it."""
        ...

    def unlock(self) -> None: ...
    @property
    def place(self) -> str:
        """Where it is, for messages to people."""
        ...


class FileBlob:
    __slots__ = ("_broken", "_descriptor", "_directory", "_fresh", "_name", "_size")

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._directory = path.parent
        self._broken: str | None = None
        try:
            self._fresh = not path.exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._size = os.fstat(self._descriptor).st_size
        except OSError as error:
            self._descriptor = -1
            raise StorageError(f"cannot open {path}: {error}") from error

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return self._size

    @property
    def fileno(self) -> int:
        return self._descriptor

    def append(self, parts: Sequence[Buffer]) -> int:
        if self._broken is not None:
            raise StorageError(self._broken)
        position = self._size
        wanted = sum(map(len, parts))
        try:
            written = os.writev(self._descriptor, parts)
            if written != wanted:
                self._append_rest(parts, written, wanted)
        except OSError as error:
            self._cut_back(position)
            raise StorageError(f"writing {wanted} bytes to {self._name}: {error}") from error
        self._size = position + wanted
        return position

    def _append_rest(self, parts: Sequence[Buffer], written: int, wanted: int) -> None:
        rest = memoryview(b"".join(parts))
        while written < wanted:
            more = os.write(self._descriptor, rest[written:])
            if more == 0:
                raise OSError(errno.EIO, "a write of nothing")
            written += more

    def _cut_back(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            self._broken = f"{self._name} could not be cut back to {size} bytes after a failed write: {error}"

    def read(self, position: int, length: int) -> bytes:
        try:
            found = os.pread(self._descriptor, length, position)
            if len(found) < length and found:
                pieces = [found]
                reached = len(found)
                while reached < length:
                    piece = os.pread(self._descriptor, length - reached, position + reached)
                    if not piece:
                        break
                    pieces.append(piece)
                    reached += len(piece)
                found = b"".join(pieces)
        except OSError as error:
            raise StorageError(f"reading {length} bytes at {position} of {self._name}: {error}") from error
        return found

    def truncate(self, size: int) -> None:
        if size >= self._size:
            return
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise StorageError(f"truncating {self._name} to {size} bytes: {error}") from error
        self._size = size

    def flush(self) -> None:
        if self._broken is not None:
            raise StorageError(self._broken)
        try:
            os.fdatasync(self._descriptor)
            if self._fresh:
                _sync_directory(self._directory)
                self._fresh = False
        except OSError as error:
            self._broken = f"{self._name} could not be flushed: {error}"
            raise StorageError(self._broken) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        # A segment that was replaced may still be read by someone; the last one to let go closes the file.
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileStore:
    """A folder of the file system."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock: int = -1
        # Two threads may replace the same file, and the temporary one has one name.
        self._replacing = threading.Lock()
        try:
            if not self._path.is_dir():
                self._path.mkdir(parents=True, exist_ok=True)
                _sync_directory(self._path.parent)
            for entry in self._path.iterdir():
                if entry.name.endswith(DELETED_MARK) and entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
        except OSError as error:
            raise StorageError(f"cannot use {self._path}: {error}") from error

    @property
    def place(self) -> str:
        return str(self._path)

    def open(self, name: str) -> FileBlob:
        return FileBlob(self._path / name)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_file())

    def exists(self, name: str) -> bool:
        return (self._path / name).is_file()

    def delete(self, name: str) -> None:
        try:
            (self._path / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"deleting {self._path / name}: {error}") from error

    def rename(self, old: str, new: str) -> None:
        try:
            (self._path / old).replace(self._path / new)
            _sync_directory(self._path)
        except OSError as error:
            raise StorageError(f"renaming {self._path / old} to {new}: {error}") from error

    def read_all(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"reading {self._path / name}: {error}") from error

    def replace(self, name: str, content: bytes) -> None:
        with self._replacing:
            temporary = self._path / f"{name}.tmp"
            try:
                with temporary.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self._path / name)
                _sync_directory(self._path)
            except OSError as error:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise StorageError(f"writing {self._path / name}: {error}") from error

    def folder(self, name: str) -> FileStore:
        return FileStore(self._path / name)

    def folders(self) -> list[str]:
        return sorted(
            entry.name
            for entry in self._path.iterdir()
            if entry.is_dir() and not entry.name.endswith(DELETED_MARK)
        )

    def delete_folder(self, name: str) -> None:
        # Renamed first, so that a crash leaves either the whole folder or one that is known to be deleted.
        doomed = self._path / (name + DELETED_MARK)
        try:
            if not (self._path / name).is_dir():
                return
            if doomed.exists():
                shutil.rmtree(doomed)
            (self._path / name).rename(doomed)
            _sync_directory(self._path)
            shutil.rmtree(doomed)
        except OSError as error:
            raise StorageError(f"deleting {self._path / name}: {error}") from error

    def lock(self) -> None:
        path = self._path / ".lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"cannot lock {self._path}: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise StorageError(f"{self._path} is in use by another process (lock file {path})") from error
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class _Faults:
    """What goes wrong, shared by all folders of one store."""

    __slots__ = ("fail_flushes", "fail_writes", "full")

    def __init__(self) -> None:
        self.full = False
        self.fail_writes = False
        self.fail_flushes = False


class _Bytes:
    """What a name stands for: content, and how much of it a crash cannot take."""

    __slots__ = ("content", "flushed", "life")

    def __init__(self) -> None:
        self.content = bytearray()
        self.flushed = 0
        self.life = 0


class MemoryBlob:
    __slots__ = ("_broken", "_bytes", "_faults", "_life", "_name")

    def __init__(self, name: str, content: _Bytes, faults: _Faults) -> None:
        self._name = name
        self._bytes = content
        self._faults = faults
        self._life = content.life
        self._broken: str | None = None

    def _alive(self) -> _Bytes:
        if self._life != self._bytes.life:
            raise StorageError(f"{self._name} was opened before the crash")
        if self._broken is not None:
            raise StorageError(self._broken)
        return self._bytes

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return len(self._bytes.content)

    @property
    def fileno(self) -> int:
        return -1

    def append(self, parts: Sequence[Buffer]) -> int:
        target = self._alive()
        if self._faults.full:
            raise StorageError(f"writing to {self._name}: no space left")
        if self._faults.fail_writes:
            raise StorageError(f"writing to {self._name}: input/output error")
        position = len(target.content)
        for part in parts:
            target.content += part
        return position

    def read(self, position: int, length: int) -> bytes:
        if self._life != self._bytes.life:
            raise StorageError(f"{self._name} was opened before the crash")
        with memoryview(self._bytes.content) as view:
            return bytes(view[position : position + length])

    def truncate(self, size: int) -> None:
        target = self._alive()
        if size < len(target.content):
            del target.content[size:]
            target.flushed = min(target.flushed, size)

    def flush(self) -> None:
        target = self._alive()
        if self._faults.fail_flushes:
            self._broken = f"{self._name} could not be flushed: input/output error"
            raise StorageError(self._broken)
        target.flushed = len(target.content)

    def close(self) -> None:
        pass


class MemoryStore:
    """A folder in memory. Names and replaced files are durable at once, appended bytes once flushed."""

    def __init__(self, place: str = "memory", faults: _Faults | None = None) -> None:
        self._place = place
        self._faults = faults if faults is not None else _Faults()
        self._blobs: dict[str, _Bytes] = {}
        self._folders: dict[str, MemoryStore] = {}
        self._locked = False

    @property
    def place(self) -> str:
        return self._place

    # faults: set on any folder, they hold for the whole store

    @property
    def full(self) -> bool:
        return self._faults.full

    @full.setter
    def full(self, on: bool) -> None:
        self._faults.full = on

    @property
    def fail_writes(self) -> bool:
        return self._faults.fail_writes

    @fail_writes.setter
    def fail_writes(self, on: bool) -> None:
        self._faults.fail_writes = on

    @property
    def fail_flushes(self) -> bool:
        return self._faults.fail_flushes

    @fail_flushes.setter
    def fail_flushes(self, on: bool) -> None:
        self._faults.fail_flushes = on

    def crash(
        self,
        keep_unflushed: Callable[[str, int], int] | None = None,
        garble: Callable[[str, int], int] | None = None,
    ) -> None:
        """The machine lost power: blobs opened before are dead and unflushed tails are gone.

        `keep_unflushed(name, unflushed_bytes)` says how many bytes of a tail survive: 0 loses it, all keeps
        it, anything between tears it. Without it all are lost. `garble(name, kept_bytes)` says which byte of
        what survives of a tail has a bit flipped, -1 for none. Names come in a fixed order.
        """
        for name in sorted(self._blobs):
            blob = self._blobs[name]
            tail = len(blob.content) - blob.flushed
            kept = 0
            if tail > 0 and keep_unflushed is not None:
                kept = max(0, min(tail, keep_unflushed(f"{self._place}/{name}", tail)))
            del blob.content[blob.flushed + kept :]
            if kept and garble is not None and (at := garble(f"{self._place}/{name}", kept)) >= 0:
                blob.content[blob.flushed + at] ^= 0x10
            blob.flushed = len(blob.content)
            blob.life += 1
        self._locked = False
        for name in sorted(self._folders):
            self._folders[name].crash(keep_unflushed, garble)

    def wipe(self) -> None:
        """The disk was replaced: nothing is left."""
        for blob in self._blobs.values():
            blob.life += 1
        for folder in self._folders.values():
            folder.wipe()
        self._blobs.clear()
        self._folders.clear()
        self._locked = False

    def open(self, name: str) -> MemoryBlob:
        found = self._blobs.get(name)
        if found is None:
            self._may_write(name)
            found = self._blobs[name] = _Bytes()
        return MemoryBlob(name, found, self._faults)

    def _may_write(self, name: str) -> None:
        if self._faults.full:
            raise StorageError(f"writing {self._place}/{name}: no space left")
        if self._faults.fail_writes:
            raise StorageError(f"writing {self._place}/{name}: input/output error")

    def names(self) -> list[str]:
        return sorted(self._blobs)

    def exists(self, name: str) -> bool:
        return name in self._blobs

    def delete(self, name: str) -> None:
        self._blobs.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        if old not in self._blobs:
            raise StorageError(f"renaming {self._place}/{old} to {new}: there is no such file")
        self._blobs[new] = self._blobs.pop(old)

    def read_all(self, name: str) -> bytes | None:
        found = self._blobs.get(name)
        return None if found is None else bytes(found.content)

    def replace(self, name: str, content: bytes) -> None:
        self._may_write(name)
        if self._faults.fail_flushes:
            raise StorageError(f"writing {self._place}/{name}: input/output error")
        fresh = _Bytes()
        fresh.content += content
        fresh.flushed = len(content)
        self._blobs[name] = fresh

    def folder(self, name: str) -> MemoryStore:
        found = self._folders.get(name)
        if found is None:
            found = self._folders[name] = MemoryStore(f"{self._place}/{name}", self._faults)
        return found

    def folders(self) -> list[str]:
        return sorted(self._folders)

    def delete_folder(self, name: str) -> None:
        self._folders.pop(name, None)

    def lock(self) -> None:
        if self._locked:
            raise StorageError(f"{self._place} is in use by another process")
        self._locked = True

    def unlock(self) -> None:
        self._locked = False

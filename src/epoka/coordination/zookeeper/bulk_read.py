"""Many reads in one request: ZooKeeper's multiRead (3.6 and later), which kazoo does not have.

One request a node costs kazoo a fifth of a millisecond; a controller that takes over reads several nodes a
partition. The server answers each read on its own, so nothing here is more consistent than single reads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError

from epoka.coordination.zookeeper.operations import Node, Stat


class Reading(IntEnum):
    """Opcodes of the reads that may be in a bulk read."""

    DATA = 4
    CHILDREN = 8


_HEADER: Final = struct.Struct("!iBi")
_LENGTH: Final = struct.Struct("!i")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_END: Final = _HEADER.pack(-1, 1, -1)
_ERROR: Final = -1


class Failed(NamedTuple):
    """A read that could not be done, with ZooKeeper's code."""

    code: int

    @property
    def missing(self) -> bool:
        return bool(self.code == NoNodeError.code)

    @property
    def denied(self) -> bool:
        return bool(self.code == NoAuthError.code)


class BulkRead:
    """A request as kazoo's connection wants it: a type, bytes out, an answer in."""

    type: Final = 22

    def __init__(self, kind: Reading, paths: Sequence[str]) -> None:
        self._kind = kind
        self._paths = paths

    def serialize(self) -> bytes:
        header = _HEADER.pack(self._kind, 0, -1)
        parts: list[bytes] = []
        for path in self._paths:
            encoded = path.encode()
            parts += (header, _LENGTH.pack(len(encoded)), encoded, b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | list[str] | Failed]:
        answers: list[Node | list[str] | Failed] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return answers
            if kind == Reading.DATA:
                data, offset = _bytes(buffer, offset)
                answers.append(Node(data, Stat._make(_STAT.unpack_from(buffer, offset))))
                offset += _STAT.size
            elif kind == Reading.CHILDREN:
                (count,) = _LENGTH.unpack_from(buffer, offset)
                offset += _LENGTH.size
                names = []
                for _ in range(count):
                    name, offset = _bytes(buffer, offset)
                    names.append(name.decode())
                answers.append(names)
            elif kind == _ERROR:
                answers.append(Failed(_LENGTH.unpack_from(buffer, offset)[0]))
                offset += _LENGTH.size
            else:
                raise ValueError(f"a bulk read was answered with operation {kind}")

    def __repr__(self) -> str:
        return f"BulkRead({self._kind.name}, {len(self._paths)} paths)"


def _bytes(buffer: bytes, offset: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(buffer, offset)
    offset += _LENGTH.size
    if length <= 0:
        return b"", offset
    return bytes(buffer[offset : offset + length]), offset + length

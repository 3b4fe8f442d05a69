"""What can be asked of ZooKeeper in one atomic step, as plain values, and what it answers."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

ANY_VERSION = -1


class Create(msgspec.Struct, frozen=True):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class SetData(msgspec.Struct, frozen=True):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True):
    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True):
    """Nothing, if the node has that version; otherwise the whole step fails."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check

_OVERHEAD = 64
"""Headers, lengths and the ACL of one operation, rounded up."""


def size_of(operation: Operation) -> int:
    """About how many bytes an operation takes on the wire."""
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return len(operation.path) + len(data) + _OVERHEAD


class Stat(NamedTuple):
    """What ZooKeeper knows of a node; the order is that of its wire format."""

    created_zxid: int
    """The transaction that created the node; of a broker's node, the broker's generation."""
    modified_zxid: int
    created_ms: int
    modified_ms: int
    version: int
    children_version: int
    acl_version: int
    owner: int
    """The session of an ephemeral node, else 0."""
    data_length: int
    children_count: int
    children_zxid: int
    """The transaction that last created or deleted a child."""


class Node(NamedTuple):
    data: bytes
    stat: Stat


class Refused(Exception):
    """One operation of an atomic step could not be done, so none was."""

    def __init__(self, position: int, operation: Operation, reason: str) -> None:
        super().__init__(f"{operation.path}: {reason}")
        self.position = position
        self.operation = operation
        self.reason = reason


NODE_EXISTS = "the node exists"
NO_NODE = "there is no such node"
BAD_VERSION = "it has another version"
NOT_EMPTY = "it has children"
NO_AUTH = "access is denied"

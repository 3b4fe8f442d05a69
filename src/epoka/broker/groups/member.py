"""One member of a group: who it is, what it can do, and which of its requests waits."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from epoka.broker.groups.outbox import Waiting
from epoka.model.errors import InvariantBroken

Protocols = dict[str, bytes]
"""The assignors a member knows, best first, with what it tells each of them."""


def protocols_of(pairs: Iterable[tuple[str, bytes | memoryview]]) -> Protocols:
    """A name that is given twice counts once, as first given."""
    protocols: Protocols = {}
    for name, metadata in pairs:
        protocols.setdefault(name, bytes(metadata))
    return protocols


class Member(msgspec.Struct, eq=False):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Waiting | None = None
    """Set by the group alone, which counts the members that wait."""
    awaiting_sync: Waiting | None = None
    is_new: bool = False
    """True until its first join is answered: until then it cannot heartbeat."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """A member that waits for us need not heartbeat."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def matches(self, protocols: Protocols) -> bool:
        return list(self.protocols.items()) == list(protocols.items())

    def metadata(self, protocol: str) -> bytes:
        return self.protocols[protocol]

    def vote(self, candidates: frozenset[str]) -> str:
        for name in self.protocols:
            if name in candidates:
                return name
        raise InvariantBroken(f"member {self.member_id} knows none of the protocols {sorted(candidates)}")

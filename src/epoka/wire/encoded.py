"""A message that is bytes already: made once, carried to as many receivers as it is for.

Whoever carries it shares its one buffer; only the header around it is each receiver's own. The buffer is
freed with the last reference, so nobody may keep a part of it longer than it takes to send.
"""

from __future__ import annotations

from typing import Final

import msgspec

from epoka.wire.errors import EncodeError


class Encoded:
    """The body of one message at one version. `codec.opened` gives the message back."""

    __slots__ = ("__weakref__", "body", "message_class", "version")

    def __init__(self, message_class: type[msgspec.Struct], version: int, body: bytes | memoryview) -> None:
        self.message_class: Final = message_class
        self.version: Final = version
        self.body: Final = memoryview(body).toreadonly()

    @property
    def API_KEY(self) -> int:
        key: int = self.message_class.API_KEY  # type: ignore[attr-defined]
        return key

    def at(self, version: int) -> list[bytes | memoryview]:
        """The parts of its encoding; it has only the one version that it was made in."""
        if version != self.version:
            raise EncodeError(f"{self!r} was asked for in version {version}")
        return [self.body]

    def __repr__(self) -> str:
        return f"<{self.message_class.__name__} v{self.version}, {len(self.body)} bytes>"

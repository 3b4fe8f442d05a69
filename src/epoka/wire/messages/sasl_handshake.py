# Generated from schemas/sasl_handshake.msg by epoka.wire.generate; do not edit.

"""SaslHandshake: client and broker agree on how the client will prove who it is.

After version 0 raw tokens follow outside any request; after version 1 they come in SaslAuthenticate.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
]


class SaslHandshakeRequest(msgspec.Struct, frozen=True, gc=False):
    """SaslHandshakeRequest, versions 0 to 1."""

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "SaslHandshakeRequest"

    mechanism: str = ""


class SaslHandshakeResponse(msgspec.Struct, frozen=True, gc=False):
    """SaslHandshakeResponse, versions 0 to 1."""

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = None
    NAME: ClassVar[str] = "SaslHandshakeResponse"

    error_code: int = 0
    mechanisms: tuple[str, ...] = ()

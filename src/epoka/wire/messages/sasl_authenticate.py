# Generated from schemas/sasl_authenticate.msg by epoka.wire.generate; do not edit.

"""SaslAuthenticate: one token of a SASL exchange, and the answer to it."""

from typing import ClassVar

import msgspec

__all__ = [
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
]


class SaslAuthenticateRequest(msgspec.Struct, frozen=True, gc=False):
    """SaslAuthenticateRequest, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "SaslAuthenticateRequest"

    auth_bytes: bytes | memoryview = b""


class SaslAuthenticateResponse(msgspec.Struct, frozen=True, gc=False):
    """SaslAuthenticateResponse, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "SaslAuthenticateResponse"

    error_code: int = 0
    error_message: str | None = None
    auth_bytes: bytes | memoryview = b""
    session_lifetime_ms: int = 0

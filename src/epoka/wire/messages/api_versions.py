# Generated from schemas/api_versions.msg by epoka.wire.generate; do not edit.

"""ApiVersions: which requests, in which versions, this broker answers.

The response header never carries tagged fields, so that a client of any age can read it. A request of an
unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range that is known.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SupportedFeatureKey",
]


class ApiVersionsRequest(msgspec.Struct, frozen=True, gc=False):
    """ApiVersionsRequest, versions 0 to 4, flexible from 3."""

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "ApiVersionsRequest"

    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersion(msgspec.Struct, frozen=True, gc=False):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


class SupportedFeatureKey(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    min_version: int = 0
    max_version: int = 0


class FinalizedFeatureKey(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


class ApiVersionsResponse(msgspec.Struct, frozen=True, gc=False):
    """ApiVersionsResponse, versions 0 to 4, flexible from 3."""

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "ApiVersionsResponse"

    error_code: int = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False

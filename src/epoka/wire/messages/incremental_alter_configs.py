# Generated from schemas/incremental_alter_configs.msg by epoka.wire.generate; do not edit.

"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings."""

from typing import ClassVar

import msgspec

__all__ = [
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResource",
    "IncrementalAlterConfigsResourceResponse",
    "IncrementalAlterConfigsResponse",
    "IncrementallyAlterableConfig",
]


class IncrementallyAlterableConfig(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    # 0 set, 1 delete, 2 append, 3 subtract
    config_operation: int = 0
    value: str | None = ""


class IncrementalAlterConfigsResource(msgspec.Struct, frozen=True, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[IncrementallyAlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(msgspec.Struct, frozen=True, gc=False):
    """IncrementalAlterConfigsRequest, versions 0 to 1, flexible from 1."""

    API_KEY: ClassVar[int] = 44
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1
    NAME: ClassVar[str] = "IncrementalAlterConfigsRequest"

    resources: tuple[IncrementalAlterConfigsResource, ...] = ()
    validate_only: bool = False


class IncrementalAlterConfigsResourceResponse(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


class IncrementalAlterConfigsResponse(msgspec.Struct, frozen=True, gc=False):
    """IncrementalAlterConfigsResponse, versions 0 to 1, flexible from 1."""

    API_KEY: ClassVar[int] = 44
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1
    NAME: ClassVar[str] = "IncrementalAlterConfigsResponse"

    throttle_time_ms: int = 0
    responses: tuple[IncrementalAlterConfigsResourceResponse, ...] = ()

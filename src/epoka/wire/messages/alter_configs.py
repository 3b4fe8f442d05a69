# Generated from schemas/alter_configs.msg by epoka.wire.generate; do not edit.

"""AlterConfigs: replace all settings of a topic or a broker. Superseded by IncrementalAlterConfigs."""

from typing import ClassVar

import msgspec

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "AlterableConfig",
]


class AlterableConfig(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    value: str | None = ""


class AlterConfigsResource(msgspec.Struct, frozen=True, gc=False):
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterableConfig, ...] = ()


class AlterConfigsRequest(msgspec.Struct, frozen=True, gc=False):
    """AlterConfigsRequest, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 33
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "AlterConfigsRequest"

    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


class AlterConfigsResponse(msgspec.Struct, frozen=True, gc=False):
    """AlterConfigsResponse, versions 0 to 2, flexible from 2."""

    API_KEY: ClassVar[int] = 33
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2
    NAME: ClassVar[str] = "AlterConfigsResponse"

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()

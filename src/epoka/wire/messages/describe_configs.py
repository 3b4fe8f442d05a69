# Generated from schemas/describe_configs.msg by epoka.wire.generate; do not edit.

"""DescribeConfigs: the settings of topics and brokers, and where each comes from."""

from typing import ClassVar

import msgspec

__all__ = [
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
]


class DescribeConfigsResource(msgspec.Struct, frozen=True, gc=False):
    # 2 topic, 4 broker, 8 broker logger
    resource_type: int = 0
    resource_name: str = ""
    # null asks for all
    configuration_keys: tuple[str, ...] | None = None


class DescribeConfigsRequest(msgspec.Struct, frozen=True, gc=False):
    """DescribeConfigsRequest, versions 1 to 4, flexible from 4."""

    API_KEY: ClassVar[int] = 32
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "DescribeConfigsRequest"

    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribeConfigsSynonym(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    value: str | None = None
    source: int = 0


class DescribeConfigsResourceResult(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


class DescribeConfigsResult(msgspec.Struct, frozen=True, gc=False):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(msgspec.Struct, frozen=True, gc=False):
    """DescribeConfigsResponse, versions 1 to 4, flexible from 4."""

    API_KEY: ClassVar[int] = 32
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4
    NAME: ClassVar[str] = "DescribeConfigsResponse"

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...] = ()

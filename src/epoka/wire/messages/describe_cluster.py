# Generated from schemas/describe_cluster.msg by epoka.wire.generate; do not edit.

"""DescribeCluster: the cluster's id, its controller and its brokers."""

from typing import ClassVar

import msgspec

__all__ = [
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
]


class DescribeClusterRequest(msgspec.Struct, frozen=True, gc=False):
    """DescribeClusterRequest, versions 0 to 1, flexible from 0."""

    API_KEY: ClassVar[int] = 60
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "DescribeClusterRequest"

    include_cluster_authorized_operations: bool = False
    # 1 brokers, 2 controllers
    endpoint_type: int = 1


class DescribeClusterBroker(msgspec.Struct, frozen=True, gc=False):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class DescribeClusterResponse(msgspec.Struct, frozen=True, gc=False):
    """DescribeClusterResponse, versions 0 to 1, flexible from 0."""

    API_KEY: ClassVar[int] = 60
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "DescribeClusterResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = -2147483648

# Generated from schemas/add_partitions_to_txn.msg by epoka.wire.generate; do not edit.

"""AddPartitionsToTxn: a producer is about to write to these partitions within its transaction.

Up to version 3 clients send one transaction; from version 4 brokers send many, to add or only to verify.
"""

from typing import ClassVar

import msgspec

__all__ = [
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
]


class AddPartitionsToTxnTopic(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    partitions: tuple[int, ...] = ()


class AddPartitionsToTxnTransaction(msgspec.Struct, frozen=True, gc=False):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnRequest(msgspec.Struct, frozen=True, gc=False):
    """AddPartitionsToTxnRequest, versions 0 to 5, flexible from 3."""

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "AddPartitionsToTxnRequest"

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnPartitionResult(msgspec.Struct, frozen=True, gc=False):
    partition_index: int = 0
    partition_error_code: int = 0


class AddPartitionsToTxnTopicResult(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(msgspec.Struct, frozen=True, gc=False):
    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


class AddPartitionsToTxnResponse(msgspec.Struct, frozen=True, gc=False):
    """AddPartitionsToTxnResponse, versions 0 to 5, flexible from 3."""

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3
    NAME: ClassVar[str] = "AddPartitionsToTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()

"""What a client is told when the log would not take a record.

Clients of groups know the coordinator's errors, not the log's.
"""

from __future__ import annotations

from typing import Final

from epoka.wire.error_codes import ErrorCode

_TOO_LARGE: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def group_store_error(error: ErrorCode) -> ErrorCode:
    """For a group, or the tombstone of anything."""
    match error:
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case error if error in _TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error


def offset_store_error(error: ErrorCode) -> ErrorCode:
    """For the offsets of a commit."""
    if error in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return group_store_error(error)

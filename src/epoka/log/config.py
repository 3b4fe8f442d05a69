"""The settings of one log, with Kafka's names and defaults."""

from __future__ import annotations

import msgspec

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEVER = (1 << 63) - 1


class LogConfig(msgspec.Struct, frozen=True):
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    cleanup_policy: tuple[str, ...] = ("delete",)
    max_message_bytes: int = 1_048_588
    min_cleanable_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = NEVER
    message_timestamp_after_max_ms: int = NEVER
    producer_id_expiration_ms: int = DAY_MS

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

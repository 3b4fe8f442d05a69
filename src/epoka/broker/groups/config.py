"""What an operator may set about consumer groups. Nothing is decided here."""

from __future__ import annotations

from typing import Final

import msgspec

HOUR_MS: Final = 60 * 60 * 1000


class GroupConfig(msgspec.Struct, frozen=True):
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    """How many members one group may have (`group.max.size`)."""
    initial_rebalance_delay_ms: int = 3_000
    """How long an empty group waits for more members than its first; 0 starts at once."""
    new_member_join_timeout_ms: int = 300_000
    """A new member cannot heartbeat while its first join waits, so its wait has a limit of its own."""
    offsets_retention_ms: int = 7 * 24 * HOUR_MS
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    partitions: int = 50
    """How many partitions `__consumer_offsets` has."""

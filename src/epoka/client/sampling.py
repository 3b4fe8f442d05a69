"""How many bytes an offset is worth in one place of a log, from the batches that lie there."""

from __future__ import annotations

from epoka.client.cluster import ClusterClient
from epoka.client.errors import ClientError
from epoka.client.fetching import Range, RangeReader
from epoka.wire.errors import WireError
from epoka.wire.records import headers

SAMPLE_BYTES = 256 << 10
UNKNOWN = 1024.0
"""What an offset is taken to be worth when nothing can be seen of it."""


def bytes_per_offset(client: ClusterClient, topic: str, partition: int, offset: int) -> float:
    """Bytes on the wire for each offset, from a look at a few batches."""
    reader = RangeReader(client, Range(topic, partition, offset, offset + 1), patience_ms=1_000)
    try:
        records = reader.peek(SAMPLE_BYTES)
        found = list(headers(records))
    except (ClientError, WireError):
        return UNKNOWN
    if not found:
        return UNKNOWN
    size = sum(header.size for _, header in found)
    return size / max(1, found[-1][1].next_offset - found[0][1].base_offset)

"""The wire codec against kio: MetadataResponse v12 with 10,000 partitions of three replicas.

Prints CPU microseconds a partition for both, and how many times faster ours is; rounds of both are
interleaved, so that a busy machine disturbs them alike. The peer writes in Python and reads in native code.

Decoding is measured twice. "kept" holds what it has read, as a client or a broker does with metadata, with
the garbage collector on as Python has it: what a message costs the collector is part of its price. "dropped"
throws every message away at once, so the collector never has anything to walk; no aim is set for it.
"""

from __future__ import annotations

import io
import sys
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import response as peer
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta

from epoka.wire import codec
from epoka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSION = 12
REPLICAS = 3
ROUNDS = 11
ENCODE_AIM = 10.0
DECODE_AIM = 3.0
KEPT = 5
"""How many messages are alive at once when they are kept."""


def our_message(topics: int, partitions: int) -> MetadataResponse:
    replicas = [tuple((start + k) % 6 for k in range(REPLICAS)) for start in range(6)]
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(n, f"broker-{n}.example", 9092, f"rack-{n % 3}") for n in range(6)
        ),
        cluster_id="benchmark",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(
                name=f"topic-{t}",
                topic_id=uuid.UUID(int=t + 1),
                partitions=tuple(
                    MetadataResponsePartition(
                        0, p, replicas[p % 6][0], 7, replicas[p % 6], replicas[p % 6], ()
                    )
                    for p in range(partitions)
                ),
            )
            for t in range(topics)
        ),
    )


def peer_message(ours: MetadataResponse) -> peer.MetadataResponse:
    def ids(values: tuple[int, ...]) -> tuple[BrokerId, ...]:
        return tuple(map(BrokerId, values))

    return peer.MetadataResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        brokers=tuple(
            peer.MetadataResponseBroker(
                node_id=BrokerId(b.node_id), host=b.host, port=i32(b.port), rack=b.rack
            )
            for b in ours.brokers
        ),
        cluster_id=ours.cluster_id,
        controller_id=BrokerId(ours.controller_id),
        topics=tuple(
            peer.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=TopicName(t.name or ""),
                topic_id=t.topic_id,
                partitions=tuple(
                    peer.MetadataResponsePartition(
                        error_code=ErrorCode.none,
                        partition_index=i32(p.partition_index),
                        leader_id=BrokerId(p.leader_id),
                        leader_epoch=i32(p.leader_epoch),
                        replica_nodes=ids(p.replica_nodes),
                        isr_nodes=ids(p.isr_nodes),
                        offline_replicas=ids(p.offline_replicas),
                    )
                    for p in t.partitions
                ),
            )
            for t in ours.topics
        ),
    )


def timed(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def interleaved(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int
) -> tuple[float, float, float]:
    """The median seconds of both and the median of their ratios, taken in turns after a round to warm up."""
    ours(), theirs()
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    ratios = [peer_seconds / our_seconds for our_seconds, peer_seconds in pairs]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs), median(ratios)


def compare(name: str, topics: int, partitions: int, rounds: int) -> list[dict[str, Any]]:
    ours = our_message(topics, partitions)
    theirs = peer_message(ours)
    write, read = entity_writer(peer.MetadataResponse), entity_reader(peer.MetadataResponse)
    data = codec.encode(ours, VERSION)

    def write_theirs() -> bytes:
        buffer = io.BytesIO()
        write(buffer, theirs)
        return buffer.getvalue()

    if write_theirs() != data or codec.decode(MetadataResponse, VERSION, data) != ours:
        raise AssertionError("the two codecs do not agree")
    if read(data, 0)[0] != theirs:
        raise AssertionError("the peer does not read what it has written")
    total = topics * partitions
    rows = []

    def read_ours() -> MetadataResponse:
        return codec.decode(MetadataResponse, VERSION, data)

    def kept(decode: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [decode() for _ in range(KEPT)]

    def read_theirs() -> Any:
        return read(data, 0)

    for verb, aim, mine, peers, times in (
        ("encode", ENCODE_AIM, lambda: codec.encode(ours, VERSION), write_theirs, 1),
        ("decode, kept,", DECODE_AIM, kept(read_ours), kept(read_theirs), KEPT),
        ("decode, dropped,", None, read_ours, read_theirs, 1),
    ):
        our_seconds, peer_seconds, ratio = interleaved(mine, peers, rounds)
        rows.append(
            {
                "name": f"{verb} {name}, us/partition",
                "ours": our_seconds / total / times * 1e6,
                "peer": peer_seconds / total / times * 1e6,
                "ratio": ratio,
                "aim": aim,
                "ok": aim is None or ratio >= aim,
            }
        )
    return rows


def run(rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """One row a measurement: {name, ours, peer, ratio, aim, ok}; the peer is kio."""
    return [
        *compare("10 topics x 1000", 10, 1000, rounds),
        *compare("1000 topics x 10", 1000, 10, rounds),
    ]


def main() -> int:
    rows = run()
    print(f"{'MetadataResponse v12':44}{'ours':>8}{'kio':>8}{'times':>8}{'aim':>6}")
    for row in rows:
        aim = "" if row["aim"] is None else f"{row['aim']:.0f}"
        figures = f"{row['ours']:8.2f}{row['peer']:8.2f}{row['ratio']:8.1f}{aim:>6}"
        print(f"{row['name']:44}{figures}  {'ok' if row['ok'] else 'MISSED'}")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

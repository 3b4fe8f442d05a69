"""Reads on in several partitions of a topic, round by round, for whoever has no end in mind.

Decides where to go on when a log no longer holds a position, and which decoder serves: the compiled one takes
longer to load than a small topic takes to read. Positions only go forwards, but for that. Leaders that change
are looked up again; a batch that is damaged ends the reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from epoka.client import vectors
from epoka.client.cluster import EARLIEST, LATEST, ClusterClient
from epoka.client.columns import Columns, aborted_in, decode, next_offset_of
from epoka.client.connection import Connection
from epoka.client.errors import CorruptBatch, Refused, TopicGone, Unreachable, check
from epoka.client.fetching import last_version
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import WireError
from epoka.wire.messages import fetch as wire

MAX_BYTES = 16 << 20
PARTITION_BYTES = 1 << 20
WAIT_MS = 500
WAIT_AMONG_LEADERS_MS = 100
"""Answers are taken one after the other, so no leader may keep the others waiting for long."""
WORTH_COMPILING = 500_000
"""So many records take longer in numpy than the compiled decoder takes to load."""


class TopicReader:
    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        positions: dict[int, int],
        *,
        committed: bool,
        patience_ms: int,
        most: int | None = None,
        on_jump: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`most` is how many records are wanted at most; `on_jump` hears of positions that no log holds."""
        self.positions = positions
        self.ends: dict[int, int] = {}
        """The end of each partition as its leader last told it."""
        self._client = client
        self._topic = topic
        self._id = client.topic(topic).id
        self._committed = committed
        self._patience_ms = patience_ms
        self._most = most
        self._on_jump = on_jump
        self._compiled = False
        self._turn: dict[int, int] = {}
        self._rounds = 0

    def at_end(self, partition: int) -> bool:
        return partition in self.ends and self.positions[partition] >= self.ends[partition]

    def columns(self, wanted: set[int]) -> Iterator[tuple[int, Columns]]:
        """What the partitions have next, one round of asking; nothing when nothing has come."""
        deadline = time.monotonic() + self._patience_ms / 1000
        while True:
            try:
                answers = self._ask(wanted)
                break
            except (Unreachable, Refused) as error:
                # Answers may still be on their way; nobody will take them.
                self._client.close()
                self._client.forget(self._topic)
                if isinstance(error, Refused) and not error.code.retriable:
                    raise
                if time.monotonic() >= deadline:
                    raise Unreachable(f"{self._topic} cannot be read: {error}") from error
                time.sleep(self._client.settings.retry_backoff_ms / 1000)
        self._rounds += 1
        for each in answers:
            told = each.last_stable_offset if self._committed else each.high_watermark
            self.ends[each.partition_index] = each.high_watermark if told < 0 else told
        kernel = None if self._worth_compiling(wanted) else vectors
        for each in answers:
            partition, records = each.partition_index, memoryview(each.records or b"")
            name, first = f"{self._topic}-{partition}", self.positions[partition]
            try:
                following = max(first, next_offset_of(records, first))
            except WireError as error:
                raise CorruptBatch(f"{name}, at offset {first}: {error}") from error
            if following > first:
                self.positions[partition] = following
                self._turn[partition] = self._rounds
            for found in decode(
                records,
                first,
                following,
                about=name,
                aborted=aborted_in(each),
                committed_only=self._committed,
                kernel=kernel,
            ):
                yield partition, found

    def _ask(self, wanted: set[int]) -> list[wire.FetchPartitionResponse]:
        """One answer of every leader; what a log does not hold is put right and left for the next round."""
        by_leader: dict[int, list[int]] = {}
        # Whoever has just been served comes last, because an answer has room for so much and no more.
        for partition in sorted(wanted, key=lambda each: (self._turn.get(each, 0), each)):
            leader = self._client.leading(self._topic, partition).leader
            by_leader.setdefault(leader, []).append(partition)
        wait_ms = WAIT_MS if len(by_leader) == 1 else WAIT_AMONG_LEADERS_MS
        asked = [self._send(leader, led, wait_ms) for leader, led in by_leader.items()]
        told = []
        for connection in asked:
            answer: wire.FetchResponse = connection.take(wait_ms=wait_ms)
            check(answer.error_code, f"{self._topic} cannot be read")
            told += [each for topic in answer.responses for each in topic.partitions]
        found, lost = [], []
        for each in told:
            if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                lost.append(each.partition_index)
            else:
                check(each.error_code, f"{self._topic}-{each.partition_index} cannot be read")
                found.append(each)
        if lost:
            # Asking where a log begins overwrites the answers, which lie in the connections' buffers.
            found = [msgspec.structs.replace(each, records=bytes(each.records or b"")) for each in found]
        for partition in lost:
            self._jump(partition)
        return found

    def _send(self, leader: int, partitions: Sequence[int], wait_ms: int) -> Connection:
        connection = self._client.node(leader)
        view = self._client.topic(self._topic)
        if view.id != self._id:
            raise TopicGone(f"{self._topic} is another topic by now: its id is {view.id}, it was {self._id}")
        connection.send(
            wire.FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=MAX_BYTES,
                isolation_level=int(self._committed),
                topics=(
                    wire.FetchTopic(
                        topic=self._topic,
                        topic_id=view.id,
                        partitions=tuple(
                            wire.FetchPartition(
                                partition=each,
                                current_leader_epoch=view.partitions[each].leader_epoch,
                                fetch_offset=self.positions[each],
                                partition_max_bytes=PARTITION_BYTES,
                            )
                            for each in partitions
                        ),
                    ),
                ),
            ),
            version=last_version(connection, view),
        )
        return connection

    def _jump(self, partition: int) -> None:
        """The log holds the position no more, or not any more that far."""
        at, old = (self._topic, partition), self.positions[partition]
        first, end = (self._client.offsets({at: when})[at].offset for when in (EARLIEST, LATEST))
        if first <= old <= end:
            # It was cut back and has grown since, or another leader has more: what is there is read.
            return
        new = self.positions[partition] = first if old < first else end
        self._on_jump(
            f"{self._topic}-{partition} holds offsets {first} to {end} and not {old}; going on at {new}"
        )

    def _worth_compiling(self, wanted: set[int]) -> bool:
        left = sum(self.ends.get(each, 0) - self.positions[each] for each in wanted)
        if min(left, self._most or left) >= WORTH_COMPILING:
            self._compiled = True
        return self._compiled

"""Batches of a producer that come one behind the other on a connection: in order, or not at all.

An idempotent producer has up to five batches of a partition on their way. If the first is refused for a
reason that passes (the broker does not lead yet, too few replicas are in sync) and the second comes when it
has passed, the second must not be taken. A leader that knows nothing of the producer would take it,
whatever its sequence (KIP-360), and the first could never be written any more (KAFKA-15591); librdkafka
even takes the first for written then. A leader that does know the producer would call the second out of
order, and librdkafka begins a new epoch at that, in which it writes again whatever it has no answer for. So
what comes behind a refused batch is refused for the same reason, until the refused one has come again.

That one may never come: another leader may have taken it, and this one's log may have lost it since. So no
more are refused than can have been on their way, and a producer without an answer is never kept out. What is
remembered ends with its connection: on the next one a producer begins with what it has no answer for.
"""

from __future__ import annotations

import msgspec

from epoka.log.producers import REMEMBERED_BATCHES, ProducerStates, follows
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import Malformed, Truncated
from epoka.wire.records import BatchHeader, read_header

MOST = 10_000
"""Partitions of one connection whose refused batches are remembered; the earliest are forgotten."""

Place = tuple[str, int]


class RefusedBatch(msgspec.Struct, gc=False):
    """The first of a producer's batches that has not been taken."""

    producer_id: int
    producer_epoch: int
    sequence: int
    error: ErrorCode
    behind: int = REMEMBERED_BATCHES - 1
    """How many that were sent before its refusal was known may still come."""

    def is_before(self, batch: BatchHeader) -> bool:
        return (
            batch.producer_id == self.producer_id
            and batch.producer_epoch == self.producer_epoch
            and follows(batch.base_sequence, self.sequence)
        )


class Pipelines:
    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[int, dict[Place, RefusedBatch]] = {}

    def refused(self, connection: int, place: Place, batches: object, error: ErrorCode) -> None:
        """A batch was not taken: if it may be later, nothing that is behind it may be before."""
        if not error.retriable or not isinstance(batches, memoryview):
            return
        try:
            batch = read_header(batches)
        except (Malformed, Truncated):
            return
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        of_connection = self._refused.setdefault(connection, {})
        known = of_connection.get(place)
        if known is None or not known.behind or not known.is_before(batch):
            of_connection[place] = RefusedBatch(
                batch.producer_id, batch.producer_epoch, batch.base_sequence, error
            )
            if len(of_connection) > MOST:
                del of_connection[next(iter(of_connection))]

    def waits_for(
        self, connection: int, place: Place, batch: BatchHeader, producers: ProducerStates
    ) -> RefusedBatch | None:
        """The refused batch that has to come before this one, unless the log has it from elsewhere."""
        of_connection = self._refused.get(connection)
        known = of_connection.get(place) if of_connection else None
        if known is None or not known.behind or not known.is_before(batch) or producers.expects(batch):
            return None
        known.behind -= 1
        return known

    def taken(self, connection: int, place: Place) -> None:
        of_connection = self._refused.get(connection)
        if of_connection is not None:
            of_connection.pop(place, None)

    def ended(self, connection: int) -> None:
        self._refused.pop(connection, None)

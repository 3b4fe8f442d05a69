"""What clients notice while they run: a broker that loses, forgets or makes something up is named."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from epoka.sim import client
from epoka.sim.checkers import Violated
from epoka.sim.history import History
from epoka.sim.oracle import ALL, Batch
from epoka.sim.steps import Step
from epoka.sim.workload import IDEMPOTENT, PLAIN, Workload
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.fetch import FetchResponse
from epoka.wire.messages.produce import ProduceResponse
from tests.sim.watched import VALUES, Watched


class Used(Watched):
    """The same world with clients, which know of what was written before."""

    def __init__(self) -> None:
        super().__init__()
        self.load = Workload(self.world, self.checkers, History(), Random(0))
        self.load.adopt_topic("t")
        history = self.load.history
        for offset, value in enumerate(VALUES):
            history.acknowledged(history.sends(value, self.key, PLAIN, -1, False), offset)

    def produce(self, producer: int) -> None:
        self.load.do(Step(0, "produce", ms=producer))
        self.world.run(100)

    def consume(self) -> None:
        self.load.start()
        self.world.run(100)

    def twist(self, answer: type, change: Callable[[Any], Any]) -> None:
        """Clients get another answer than the broker gave."""
        network = self.world.network
        respond = network.respond

        def twisted(call: Any, message: Any) -> None:
            for_a_client = type(message) is answer and call.connection.sender.core is None
            respond(call, change(message) if for_a_client else message)

        network.respond = twisted  # type: ignore[method-assign]


@pytest.fixture
def used() -> Used:
    return Used()


def _fetched(message: FetchResponse, **about: Any) -> FetchResponse:
    (topic,) = message.responses
    (part,) = topic.partitions
    part = msgspec.structs.replace(part, **about)
    return msgspec.structs.replace(message, responses=(msgspec.structs.replace(topic, partitions=(part,)),))


def _produced(message: ProduceResponse, **about: Any) -> ProduceResponse:
    (topic,) = message.responses
    (part,) = topic.partition_responses
    part = msgspec.structs.replace(part, **about)
    return msgspec.structs.replace(
        message, responses=(msgspec.structs.replace(topic, partition_responses=(part,)),)
    )


def test_clients_of_a_healthy_cluster_notice_nothing(used: Used) -> None:
    used.consume()
    used.produce(PLAIN)
    used.produce(IDEMPOTENT)
    used.world.run(200)
    assert not used.load.read_everything()
    used.load.read_again()
    used.world.run(200)
    assert used.load.idle() is None and used.load.read_everything()
    assert used.load.history.acked == 4 and used.load.history.anomalies() == []
    assert used.checkers.violations == []


def test_a_reader_that_gets_a_batch_again_is_noticed(used: Used) -> None:
    used.load.consumer.positions[used.key] = 1
    used.twist(FetchResponse, lambda given: _fetched(given, records=used.replica(1).log.read(0, ALL)))
    with pytest.raises(Violated):
        used.consume()
    assert used.objection() == "nonmonotonic-poll"


def test_a_reader_that_gets_what_is_not_committed_is_noticed(used: Used) -> None:
    leader = used.replica(1)
    used.world.cut(1, 2)
    client.producing(used.world, 1, "t", b"three", acks=1)
    used.world.run(10)
    assert (leader.high_watermark, leader.log.end_offset) == (2, 3)
    used.twist(FetchResponse, lambda given: _fetched(given, records=leader.log.read(0, ALL)))
    with pytest.raises(Violated):
        used.consume()
    assert used.objection() == "7: readers see what is committed"


@pytest.mark.parametrize(("epochs_later", "other_bytes"), [(1, 0), (0, 1)], ids=["epoch", "checksum"])
def test_a_reader_that_gets_something_else_than_what_is_committed_is_noticed(
    used: Used, epochs_later: int, other_bytes: int
) -> None:
    batches = used.checkers.oracle.committed(used.key).batches
    last = batches[-1]
    batches[-1] = Batch(last.base, last.next, last.epoch + epochs_later, last.crc ^ other_bytes)
    with pytest.raises(Violated):
        used.consume()
    assert used.objection() == "7: readers see what is committed"


def test_a_reader_that_is_led_past_a_record_is_noticed(used: Used) -> None:
    log = used.replica(1).log
    used.twist(FetchResponse, lambda given: _fetched(given, records=log.read(1, ALL)))
    with pytest.raises(Violated):
        used.consume()
    assert used.objection() == "poll-skip"


def test_a_leader_that_has_no_more_what_a_reader_asks_for_is_noticed(used: Used) -> None:
    used.replica(1).log.delete_records_before(1)
    with pytest.raises(Violated):
        used.consume()
    assert used.objection() == "lost-write"


def test_a_leader_that_forgets_what_a_producer_has_sent_is_noticed(used: Used) -> None:
    used.produce(IDEMPOTENT)
    used.produce(IDEMPOTENT)
    entry = used.replica(1).log.producers.get(used.load.producers[IDEMPOTENT].producer_id)
    entry.batches.pop()
    with pytest.raises(Violated):
        used.produce(IDEMPOTENT)
    assert used.objection() == "duplicate"


def test_a_produce_that_is_answered_with_an_internal_error_is_noticed(used: Used) -> None:
    used.twist(
        ProduceResponse, lambda given: _produced(given, error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR))
    )
    with pytest.raises(Violated):
        used.produce(PLAIN)
    assert used.objection() == "12: only listed refusals"


def test_a_fetch_that_is_answered_with_an_internal_error_is_noticed(used: Used) -> None:
    used.twist(FetchResponse, lambda given: _fetched(given, error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR)))
    with pytest.raises(Violated):
        used.consume()
    assert used.objection() == "12: only listed refusals"

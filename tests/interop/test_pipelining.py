"""A producer with several batches on their way, one of which a broker refuses before it takes the others.

That is what a producer meets whose broker begins to lead between two batches: on a busy machine, each time
that leaders change. Nothing may be missing, come twice or change places (KAFKA-15591).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from epoka.broker.api import produce
from epoka.broker.replica import Replica
from epoka.broker.waiting import Written
from epoka.cluster.cluster import Cluster
from epoka.wire.error_codes import ErrorCode
from tests.faults.load import CLIENT, create_topic, read_everything

TOPIC = "pipelined"
RECORDS = 40

Append = Callable[..., Written]
Meddle = Callable[[Append, int, Replica], Written | None]


@pytest.fixture
def meddle(monkeypatch: pytest.MonkeyPatch) -> Callable[[Meddle], None]:
    """Put an answer in the place of the leader's; the numbers are those of attempts at a partition."""

    def begin(answer: Meddle) -> None:
        append, attempts = produce._append, Counter[int]()

        def instead(core: Any, replica: Replica, *about: Any) -> Written:
            done = partial(append, core, replica, *about)
            if replica.topic != TOPIC:
                return done()
            attempts[replica.index] += 1
            return answer(done, attempts[replica.index], replica) or done()

        monkeypatch.setattr(produce, "_append", instead)

    return begin


def write_and_read(*records: int) -> None:
    """So many records for each partition, one a batch, as many batches at once as librdkafka allows."""
    partitions = len(records)
    acknowledged: list[list[str]] = [[] for _ in range(partitions)]

    def delivered(problem: object, message: Message) -> None:
        assert problem is None, problem
        acknowledged[message.partition()].append(message.value().decode())

    with Cluster(brokers=1) as cluster:
        create_topic(cluster, TOPIC, partitions, 1)
        settings = {"enable.idempotence": True, "batch.num.messages": 1, "linger.ms": 0}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings, **CLIENT})
        values = [[f"{index}:{number}" for number in range(count)] for index, count in enumerate(records)]
        for index, of_partition in enumerate(values):
            for value in of_partition:
                producer.produce(TOPIC, value, partition=index, on_delivery=delivered)
        assert producer.flush(30) == 0
        found: list[list[str]] = [[] for _ in range(partitions)]
        for index, _, value in read_everything(cluster, TOPIC, partitions):
            found[index].append(value)
    assert acknowledged == values
    assert found == values


@pytest.mark.parametrize("refused", [1, 8], ids=["the first batch", "a later batch"])
@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_what_was_behind_a_refused_batch_is_written_after_it(
    refused: int, error: ErrorCode, meddle: Callable[[Meddle], None]
) -> None:
    def refuse_one(append: Append, attempt: int, replica: Replica) -> Written | None:
        return Written(replica.topic, replica.index, error) if attempt == refused else None

    meddle(refuse_one)
    write_and_read(RECORDS)


def test_a_refused_batch_makes_no_other_partition_repeat_what_it_has(
    meddle: Callable[[Meddle], None],
) -> None:
    """librdkafka begins a new epoch for all partitions where one calls a batch out of order."""

    def refuse_one_and_keep_another(append: Append, attempt: int, replica: Replica) -> Written | None:
        if replica.index == 0 and attempt == 1:
            append()
            return Written(replica.topic, replica.index, ErrorCode.REQUEST_TIMED_OUT)
        if replica.index == 1 and attempt == 2:
            return Written(replica.topic, replica.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    meddle(refuse_one_and_keep_another)
    write_and_read(1, RECORDS)

"""What is written is acknowledged once, in order, through leader changes; what is sent twice is kept once."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import ClassVar, cast

import numpy as np
import pytest

from epoka.client import producing
from epoka.client.batching import Identity, Rows, batch_of
from epoka.client.cluster import ClusterClient
from epoka.client.connection import Connection
from epoka.client.errors import Refused, Unreachable
from epoka.client.fetching import Range, RangeReader
from epoka.client.producing import BatchWriter, Outgoing, new_identity
from epoka.client.settings import settings_from
from epoka.cluster.cluster import Cluster
from epoka.wire.error_codes import ErrorCode
from tests.client.test_batching import strings
from tests.client.topics import Topics, two_of_one_leader


@pytest.fixture
def client(cluster: Cluster) -> object:
    with ClusterClient(settings_from({"bootstrap.servers": cluster.bootstrap})) as opened:
        yield opened


def outgoing(
    topic: str, values: list[bytes], *, sequence: int = -1, identity: Identity | None = None
) -> Outgoing:
    rows = Rows(strings([*values]))
    batch = batch_of(rows, np.arange(len(values)), timestamp_ms=1, identity=identity, base_sequence=sequence)
    return Outgoing(topic, 0, batch, len(values))


def values_of(client: ClusterClient, topic: str, end: int) -> list[bytes | None]:
    reader = RangeReader(client, Range(topic, 0, 0, end))
    return [each.value for chunk in reader.columns() for each in chunk.records()]


def test_batches_are_written_in_their_order(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    writer = BatchWriter(client)
    for number in range(20):
        writer.add(outgoing(name, [b"%d" % number]))
    writer.flush()
    (taken,) = writer.acknowledged()
    assert (taken.first_offset, taken.last_offset, taken.count) == (0, 19, 20)
    assert values_of(client, name, 20) == [b"%d" % number for number in range(20)]


def test_a_cluster_that_gives_no_identities_is_written_to_without() -> None:
    class Someone:
        versions: ClassVar[dict[int, tuple[int, int]]] = {}

    class Plain(ClusterClient):
        def anyone(self) -> Connection:
            return cast(Connection, Someone())

    with Plain(settings_from({"bootstrap.servers": "nowhere:1"})) as client:
        assert new_identity(client) == Identity(-1, -1)


def test_a_batch_sent_again_is_kept_once_and_keeps_its_offset(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    identity = new_identity(client)
    for _ in range(2):
        writer = BatchWriter(client)
        writer.add(outgoing(name, [b"a", b"b"], sequence=0, identity=identity))
        writer.add(outgoing(name, [b"c"], sequence=2, identity=identity))
        writer.flush()
        assert [(each.first_offset, each.last_offset) for each in writer.acknowledged()] == [(0, 2)]
    assert values_of(client, name, 3) == [b"a", b"b", b"c"]


def test_a_refusal_that_time_does_not_mend_is_told_at_once(client: ClusterClient, topics: Topics) -> None:
    name = topics.create(max_message_bytes="1000")
    writer = BatchWriter(client)
    writer.add(outgoing(name, [bytes(2000)]))
    with pytest.raises(Refused, match=rf"{name}-0 refused the records: .*\(MESSAGE_TOO_LARGE\)"):
        writer.flush()


def test_what_the_same_answer_takes_is_acknowledged_whatever_it_refuses(
    client: ClusterClient, topics: Topics
) -> None:
    name = topics.create(4, replicas=1, max_message_bytes="1000")
    one, other = two_of_one_leader(client, name)
    taken: list[int] = []
    writer = BatchWriter(client, on_written=lambda each: taken.append(each.partition))
    for partition, size in ((one, 2000), (other, 20)):
        batch = outgoing(name, [bytes(size)])
        batch.partition = partition
        writer.add(batch)
    with pytest.raises(Refused, match=rf"{name}-{one} refused"):
        writer.flush()
    assert taken == [other]
    assert [(each.partition, each.first_offset) for each in writer.acknowledged()] == [(other, 0)]


def test_a_batch_that_is_refused_for_good_may_be_given_other_bytes(
    client: ClusterClient, topics: Topics
) -> None:
    name = topics.create()
    identity = new_identity(client)
    asked: list[tuple[int, ErrorCode]] = []

    def plainly(refused: Outgoing, code: ErrorCode) -> bytearray:
        asked.append((refused.count, code))
        return outgoing(name, [b"longer than it was", b"c"]).batch

    writer = BatchWriter(client, on_refused=plainly)
    writer.add(outgoing(name, [b"a"], sequence=0, identity=identity))
    writer.add(outgoing(name, [b"b", b"c"], sequence=7, identity=identity))
    writer.add(outgoing(name, [b"d"], sequence=1, identity=identity))
    writer.flush()
    assert asked == [(2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
    (taken,) = writer.acknowledged()
    assert (taken.first_offset, taken.last_offset, taken.count) == (0, 3, 4)
    assert values_of(client, name, 4) == [b"a", b"longer than it was", b"c", b"d"]


def test_writing_rides_out_a_bounced_leader(cluster: Cluster, topics: Topics) -> None:
    name = topics.create(1, replicas=3)
    with ClusterClient(settings_from({"bootstrap.servers": cluster.bootstrap})) as client:
        identity = new_identity(client)
        writer = BatchWriter(client)
        bounce = threading.Thread(
            target=cluster.bounce, args=(client.topic(name).partitions[0].leader, "unclean")
        )
        bounce.start()
        number = 0
        while bounce.is_alive() or number < 200:
            writer.add(outgoing(name, [b"%d" % number], sequence=number, identity=identity))
            writer.flush()
            number += 1
        bounce.join()
        assert values_of(client, name, number) == [b"%d" % each for each in range(number)]


def test_the_time_in_which_there_is_nothing_to_write_is_not_held_against_the_cluster(
    client: ClusterClient, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create()
    late_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late_s, sleep=time.sleep)
    monkeypatch.setattr(producing, "time", clock)
    writer = BatchWriter(client)
    # Spark takes an hour to come up with the first row, and the leader it knew is another by then.
    late_s += 3600
    node, wrong = client.node, [Unreachable("nobody is there")]

    def found(number: int) -> Connection:
        if wrong:
            raise wrong.pop()
        return node(number)

    monkeypatch.setattr(client, "node", found)
    writer.add(outgoing(name, [b"x"]))
    writer.flush()
    assert [each.count for each in writer.acknowledged()] == [1]


def test_what_is_not_acknowledged_in_time_is_named(cluster: Cluster, topics: Topics) -> None:
    name = topics.create(1, replicas=3, min_insync_replicas="3")
    properties = {"bootstrap.servers": cluster.bootstrap, "delivery.timeout.ms": "300"}
    with ClusterClient(settings_from(properties), patience_ms=300) as client:
        writer = BatchWriter(client)
        writer.add(outgoing(name, [b"x"]))
        writer.flush()
        follower = next(n for n in (1, 2, 3) if n != client.topic(name).partitions[0].leader)
        cluster.stop(follower)
        try:
            writer.add(outgoing(name, [b"y"]))
            with pytest.raises(Unreachable, match=f"not acknowledged in time: {name}-0"):
                writer.flush()
        finally:
            cluster.start(follower)

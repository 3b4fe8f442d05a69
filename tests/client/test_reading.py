"""Several partitions are read on and on, in their order, whatever leaders do; small reads load little."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType

import pytest

from epoka.client import reading, vectors
from epoka.client.cluster import ClusterClient
from epoka.client.columns import decode
from epoka.client.errors import TopicGone, Unreachable
from epoka.client.reading import TopicReader
from epoka.client.settings import settings_from
from epoka.cluster.cluster import Cluster
from epoka.wire.frame import decode_request_header
from tests.client.test_connection import METADATA, old
from tests.client.topics import Topics, two_of_one_leader
from tests.waiting import wait_until


@pytest.fixture
def client(cluster: Cluster) -> Iterator[ClusterClient]:
    with ClusterClient(settings_from({"bootstrap.servers": cluster.bootstrap})) as opened:
        yield opened


def read_to_the_end(reader: TopicReader) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {each: [] for each in reader.positions}
    left = {*reader.positions}
    while left:
        for partition, columns in reader.columns(left):
            found[partition] += [record.value for record in columns.records()]
        left = {each for each in left if not reader.at_end(each)}
    return found


def test_every_partition_is_read_from_its_position_and_on_through_bounced_leaders(
    cluster: Cluster, client: ClusterClient, topics: Topics
) -> None:
    name = topics.create(3, replicas=3)
    for partition in range(3):
        topics.fill(name, [b"%d" % number for number in range(100)], partition=partition)
    reader = TopicReader(client, name, {0: 0, 1: 50, 2: 100}, committed=True, patience_ms=60_000)
    first = read_to_the_end(reader)
    assert first == {0: [b"%d" % n for n in range(100)], 1: [b"%d" % n for n in range(50, 100)], 2: []}
    cluster.bounce(client.topic(name).partitions[2].leader, "unclean")
    topics.fill(name, [b"later"], partition=2)
    ((partition, columns),) = wait_until(lambda: [*reader.columns({2})], "the record that came later")
    assert (partition, [record.value for record in columns.records()]) == (2, [b"later"])


def test_a_position_that_the_log_no_longer_holds_is_told_and_left(
    client: ClusterClient, topics: Topics
) -> None:
    name = topics.create()
    topics.fill(name, [b"%d" % number for number in range(10)])
    topics.delete_before(name, 0, 4)
    told: list[str] = []
    reader = TopicReader(client, name, {0: 1}, committed=False, patience_ms=60_000, on_jump=told.append)
    assert read_to_the_end(reader) == {0: [b"%d" % number for number in range(4, 10)]}
    assert told == [f"{name}-0 holds offsets 4 to 10 and not 1; going on at 4"]


def test_a_position_that_the_log_holds_again_is_kept(
    client: ClusterClient, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was cut below the position, and has grown beyond it before its end is asked for."""
    name = topics.create()
    topics.fill(name, [b"%d" % number for number in range(10)])
    told: list[str] = []
    reader = TopicReader(client, name, {0: 12}, committed=False, patience_ms=60_000, on_jump=told.append)
    ask = client.offsets

    def grown_meanwhile(wanted: dict[tuple[str, int], int]) -> object:
        monkeypatch.setattr(client, "offsets", ask)
        topics.fill(name, [b"%d" % number for number in range(10, 15)])
        return ask(wanted)

    monkeypatch.setattr(client, "offsets", grown_meanwhile)
    assert read_to_the_end(reader) == {0: [b"12", b"13", b"14"]}
    assert told == []


def test_a_position_that_is_put_right_spoils_no_other_partition(
    client: ClusterClient, topics: Topics
) -> None:
    """Where the log begins is asked on the connection in whose buffer the records lie."""
    name = topics.create(4, name="long-" * 40, replicas=1)
    one, other = two_of_one_leader(client, name)
    for partition in (one, other):
        topics.fill(name, [b"%d" % number for number in range(10)], partition=partition)
    topics.delete_before(name, one, 4)
    reader = TopicReader(client, name, {one: 1, other: 0}, committed=False, patience_ms=60_000)
    assert read_to_the_end(reader) == {
        one: [b"%d" % number for number in range(4, 10)],
        other: [b"%d" % number for number in range(10)],
    }


def test_a_topic_made_anew_is_not_read_on(client: ClusterClient, topics: Topics) -> None:
    name = topics.create()
    reader = TopicReader(client, name, {0: 0}, committed=False, patience_ms=60_000)
    topics.delete(name)
    topics.create(name=name)
    with pytest.raises(TopicGone, match=r"another topic by now|there is no topic"):
        wait_until(lambda: [*reader.columns({0})], "the topic to be another one")


@pytest.mark.parametrize(
    ("worth", "most", "expected"), [(1000, None, vectors), (100, 50, vectors), (100, None, None)]
)
def test_the_compiled_decoder_is_loaded_for_many_records_only(
    client: ClusterClient,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    worth: int,
    most: int | None,
    expected: ModuleType | None,
) -> None:
    used: list[object] = []

    def watched(*arguments: object, kernel: ModuleType | None, **more: object) -> object:
        used.append(kernel)
        return decode(*arguments, kernel=kernel, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "decode", watched)
    monkeypatch.setattr(reading, "WORTH_COMPILING", worth)
    name = topics.create()
    topics.fill(name, [b"x"] * 500)
    reader = TopicReader(client, name, {0: 0}, committed=False, patience_ms=60_000, most=most)
    assert len(read_to_the_end(reader)[0]) == 500
    assert {*used} == {expected}


def test_a_cluster_that_has_gone_is_waited_for_and_given_up() -> None:
    with (
        Cluster(brokers=1) as cluster,
        ClusterClient(
            settings_from({"bootstrap.servers": cluster.bootstrap, "retry.backoff.ms": "1"}), patience_ms=10
        ) as client,
    ):
        name = Topics(cluster).create()
        reader = TopicReader(client, name, {0: 0}, committed=False, patience_ms=10)
        cluster.kill(1)
        with pytest.raises(Unreachable, match=f"{name} cannot be read"):
            wait_until(lambda: [*reader.columns({0})], "the end of patience")


def test_a_broker_that_stands_still_is_passed_over(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as still:
        host, port = still.getsockname()
        bootstrap = f"{host}:{port},{cluster.bootstrap}"
        settings = settings_from({"bootstrap.servers": bootstrap, "request.timeout.ms": "300"})
        with ClusterClient(settings) as client:
            assert client.anyone().address != (host, port)


def test_a_broker_that_tells_nothing_but_its_versions_is_passed_over(
    cluster: Cluster, topics: Topics
) -> None:
    """So does one that is cut off from its controller: it takes connections and closes them when asked."""
    name = topics.create()

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer, peer.makefile("rb") as stream:
                    while size := stream.read(4):
                        header, _ = decode_request_header(stream.read(int.from_bytes(size, "big")))
                        if header.api_key == METADATA:
                            break
                        peer.sendall(old(header.api_key, header.api_version, header.correlation_id))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        host, port = server.getsockname()
        settings = settings_from({"bootstrap.servers": f"{host}:{port},{cluster.bootstrap}"})
        with ClusterClient(settings, patience_ms=5_000) as client:
            assert [*client.topics([name])] == [name]
        server.shutdown(socket.SHUT_RDWR)

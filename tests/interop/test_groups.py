"""A group shares its partitions, hands them over when a member goes, and goes on from its commits."""

from __future__ import annotations

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.clients import Client, Member, Message, Place, Record
from tests.interop.confluent import Confluent, ConfluentMember
from tests.topics import create_topic
from tests.waiting import wait_until

PARTITIONS = 4


def messages(word: str, count: int) -> list[Message]:
    return [Message(f"{word} {number}".encode(), f"{number}".encode()) for number in range(count)]


def expected(places: list[Place], sent: list[Message]) -> dict[Place, Message]:
    return dict(zip(places, sent, strict=True))


def in_order_and_once(records: list[Record], wanted: dict[Place, Message]) -> bool:
    """True when exactly the wanted records were read, each once, each partition in order."""
    last: dict[int, int] = {}
    for record in records:
        partition, offset = record.place
        if offset <= last.get(partition, -1):
            return False
        last[partition] = offset
    return {record.place: record.message for record in records} == wanted and len(records) == len(wanted)


def shared(members: list[Member]) -> bool:
    """True when every member owns something, everything is owned, and nothing twice."""
    owned = [partition for member in members for partition in member.partitions]
    return all(member.partitions for member in members) and sorted(owned) == list(range(PARTITIONS))


def test_two_members_share_and_the_one_that_stays_gets_all(
    client: Client, broker: BrokerProcess, name: str
) -> None:
    topic = create_topic(broker, name, PARTITIONS)
    first = client.join(broker.bootstrap, topic, name)
    first.owns(range(PARTITIONS))

    second = client.join(broker.bootstrap, topic, name)
    wait_until(
        lambda: shared([first, second]), lambda: f"both to share: {first.partitions}, {second.partitions}"
    )
    second.leave()

    first.owns(range(PARTITIONS))
    sent = messages("after", 40)
    places = client.produce(broker.bootstrap, topic, sent)
    assert in_order_and_once(first.read(len(sent)), expected(places, sent))
    first.leave()


def test_a_group_of_two_reads_everything_once(client: Client, broker: BrokerProcess, name: str) -> None:
    topic = create_topic(broker, name, PARTITIONS)
    members = [client.join(broker.bootstrap, topic, name) for _ in range(2)]
    wait_until(lambda: shared(members), lambda: f"both to share: {[each.partitions for each in members]}")

    sent = messages("shared", 200)
    wanted = expected(client.produce(broker.bootstrap, topic, sent), sent)
    wait_until(lambda: sum(len(each.records) for each in members) >= len(sent), "everything to be read")

    read = [each.records for each in members]
    assert all(read)
    assert in_order_and_once([record for records in read for record in records], wanted)
    for member in members:
        member.leave()


def test_without_a_commit_a_new_member_begins_again(client: Client, broker: BrokerProcess, name: str) -> None:
    if client.name == "kcat":
        pytest.skip("kcat always commits")
    topic = create_topic(broker, name, PARTITIONS)
    sent = messages("again", 20)
    wanted = expected(client.produce(broker.bootstrap, topic, sent), sent)
    first = client.join(broker.bootstrap, topic, name)
    first.read(len(sent))
    first.leave()

    second = client.join(broker.bootstrap, topic, name)

    assert in_order_and_once(second.read(len(sent)), wanted)
    second.leave()


@pytest.mark.parametrize("how", ["clean", "unclean"])
def test_a_new_member_goes_on_from_the_commit_after_a_restart(
    client: Client, own_broker: BrokerProcess, name: str, how: str
) -> None:
    broker = own_broker
    topic = create_topic(broker, name, PARTITIONS)
    before = messages("before", 60)
    client.produce(broker.bootstrap, topic, before)
    member = client.join(broker.bootstrap, topic, name)
    member.read(len(before))
    member.commit()
    member.leave()
    unread = messages("unread", 40)
    wanted = expected(client.produce(broker.bootstrap, topic, unread), unread)

    broker.restart(how)

    after = messages("after", 40)
    wanted |= expected(client.produce(broker.bootstrap, topic, after), after)
    successor = client.join(broker.bootstrap, topic, name)
    assert in_order_and_once(successor.read(len(wanted)), wanted)
    successor.leave()


@pytest.mark.parametrize("how", ["clean", "unclean"])
def test_members_live_through_a_restart(
    client: Client, own_broker: BrokerProcess, name: str, how: str
) -> None:
    if not client.outlives_its_broker:
        pytest.skip(f"{client.name} ends when its only broker does")
    broker = own_broker
    topic = create_topic(broker, name, PARTITIONS)
    members = [client.join(broker.bootstrap, topic, name) for _ in range(2)]
    wait_until(lambda: shared(members), lambda: f"both to share: {[each.partitions for each in members]}")
    before = messages("before", 60)
    wanted = expected(client.produce(broker.bootstrap, topic, before), before)
    wait_until(lambda: sum(len(each.records) for each in members) >= len(before), "everything to be read")
    for member in members:
        member.commit()

    broker.restart(how)

    after = messages("after", 60)
    wanted |= expected(client.produce(broker.bootstrap, topic, after), after)
    wait_until(
        lambda: sum(len(each.records) for each in members) >= len(wanted),
        lambda: f"{len(wanted)} records; there are {[len(each.records) for each in members]}",
    )
    assert in_order_and_once([record for each in members for record in each.records], wanted)
    for member in members:
        member.leave()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    client: Client, broker: BrokerProcess, name: str
) -> None:
    if not client.knows_static_members:
        pytest.skip(f"{client.name} leaves the group when it ends")
    topic = create_topic(broker, name, PARTITIONS)
    stays = client.join(broker.bootstrap, topic, name, instance="stays")
    goes = client.join(broker.bootstrap, topic, name, instance="goes")
    wait_until(lambda: shared([stays, goes]), lambda: f"both to share: {stays.partitions}, {goes.partitions}")
    owned_by_stays, owned_by_goes = stays.partitions, goes.partitions
    changes = len(stays.rebalances)

    goes.leave()
    back = client.join(broker.bootstrap, topic, name, instance="goes")

    back.owns(sorted(owned_by_goes))
    sent = messages("static", 40)
    client.produce(broker.bootstrap, topic, sent)
    wait_until(lambda: len(stays.records) + len(back.records) >= len(sent), "everything to be read")
    assert stays.partitions == owned_by_stays
    assert len(stays.rebalances) == changes
    back.leave()
    stays.leave()


def test_a_cooperative_group_keeps_what_it_need_not_move(broker: BrokerProcess, name: str) -> None:
    topic = create_topic(broker, name, PARTITIONS)
    client = Confluent()
    first = client.join(broker.bootstrap, topic, name, strategy="cooperative-sticky")
    assert isinstance(first, ConfluentMember)
    first.owns(range(PARTITIONS))

    second = client.join(broker.bootstrap, topic, name, strategy="cooperative-sticky")
    wait_until(
        lambda: shared([first, second]), lambda: f"both to share: {first.partitions}, {second.partitions}"
    )

    assert first.revocations == [second.partitions]
    second.leave()
    first.owns(range(PARTITIONS))
    assert len(first.revocations) == 1
    first.leave()

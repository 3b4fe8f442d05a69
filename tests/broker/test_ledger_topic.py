"""Every node's events reach the topic `__epoka_ledger`, where anybody can read them."""

from epoka.model.ledger import LedgerEvent
from epoka.model.ledger_outbox import TOPIC, decode
from epoka.wire.error_codes import ErrorCode
from tests.broker.client import create_topic, read, write
from tests.broker.world import World


def written(world: World) -> list[LedgerEvent]:
    leader = world.partition(TOPIC).leader
    return [decode(value) for value in read(world, leader, TOPIC)]


def settled(world: World) -> None:
    world.run_until(lambda: world.partition(TOPIC) is not None and world.partition(TOPIC).leader > 0)
    world.run(3_000)


def test_the_controllers_events_and_the_brokers_are_there():
    world = World(3, ledger_topic=True)
    settled(world)
    events = written(world)
    assert {event.node for event in events} == {100, 1, 2, 3}
    registered = [event.broker for event in events if event.kind == "registered"]
    assert sorted(registered) == [1, 2, 3]


def test_nothing_is_written_twice_in_a_healthy_cluster_and_nothing_is_missing():
    world = World(3, ledger_topic=True)
    settled(world)
    create_topic(world, "orders")
    world.run(3_000)
    ids = [(event.node, event.event_id) for event in written(world)]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {(event.node, event.event_id) for event in world.ledger}


def test_events_wait_while_the_topic_has_no_leader_and_are_there_afterwards():
    world = World(3, ledger_topic=True)
    settled(world)
    leader = world.partition(TOPIC).leader
    world.crash(leader)
    world.run_until(lambda: world.partition(TOPIC).leader not in (-1, leader))
    world.run(3_000)
    fenced = [event for event in written(world) if event.kind == "fenced" and event.broker == leader]
    assert len(fenced) == 1


def test_clients_may_read_it_and_not_write_it():
    world = World(3, ledger_topic=True)
    settled(world)
    leader = world.partition(TOPIC).leader
    assert write(world, leader, TOPIC, b"{}").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

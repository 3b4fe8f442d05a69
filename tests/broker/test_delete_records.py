"""DeleteRecords with followers: it is answered when whoever may lead next has deleted the records, too."""

from typing import Any

import pytest

from epoka.model.events import Disconnected, Peer, Request, Respond, Wake
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import delete_records, list_offsets
from tests.broker.client import create_topic, write
from tests.broker.world import CONTROLLER, World

UP_TO_HIGH_WATERMARK = -1
EARLIEST = -2


@pytest.fixture
def world() -> World:
    """Broker 1 leads; 2 and 3 have all three of its records and poll for more."""
    world = World(3)
    create_topic(world, "t", assignment=(1, 2, 3))
    for value in (b"a", b"b", b"c"):
        write(world, 1, "t", value)
    world.run(10)
    assert polls(world) == 2
    return world


def replica(world: World, broker: int, topic: str = "t") -> Any:
    return world.broker(broker).replicas.by_name[topic, 0]


def starts(world: World) -> list[int]:
    return [replica(world, broker).log.log_start_offset for broker in (1, 2, 3)]


def polls(world: World) -> int:
    return len(replica(world, 1).waits.tail)


def hold_fetch_responses(world: World, *followers: int) -> None:
    world.holding = lambda sender, to, message: to in followers and type(message).__name__ == "FetchResponse"


def request(offset: int, *topics: str, timeout_ms: int = 30_000) -> delete_records.DeleteRecordsRequest:
    return delete_records.DeleteRecordsRequest(
        topics=tuple(
            delete_records.DeleteRecordsTopic(
                name=topic, partitions=(delete_records.DeleteRecordsPartition(offset=offset),)
            )
            for topic in topics or ("t",)
        ),
        timeout_ms=timeout_ms,
    )


def deleting(world: World, offset: int, *topics: str, **about: int) -> list[Any]:
    """Put a DeleteRecords to broker 1; the list gets its answer."""
    return world.ask(1, request(offset, *topics, **about), 2)


def results(answers: list[Any]) -> list[tuple[int, int]]:
    (answer,) = answers
    return [(part.error_code, part.low_watermark) for topic in answer.topics for part in topic.partitions]


def earliest(world: World, broker: int) -> int:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    request = list_offsets.ListOffsetsRequest(
        topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(partition,)),)
    )
    return int(world.call(broker, request, 5).topics[0].partitions[0].offset)


@pytest.mark.parametrize(("offset", "start"), [(2, 2), (UP_TO_HIGH_WATERMARK, 3)])
def test_is_answered_when_all_in_sync_logs_start_there(world, offset, start):
    hold_fetch_responses(world, 2, 3)
    answers = deleting(world, offset)
    world.run(100)
    assert (answers, starts(world)) == ([], [start, 0, 0])
    world.release()
    world.run_until(lambda: bool(answers))
    assert results(answers) == [(ErrorCode.NONE, start)]
    assert starts(world) == [start, start, start]


def test_one_follower_that_knows_is_not_enough(world):
    hold_fetch_responses(world, 3)
    answers = deleting(world, 2)
    world.run(100)
    assert (answers, starts(world)) == ([], [2, 2, 0])


def test_the_next_leader_does_not_show_them_again(world):
    answers = deleting(world, 2)
    world.run_until(lambda: bool(answers))
    world.crash(1)
    world.run_until(lambda: world.partition("t").leader == 2 and replica(world, 2).leadership is not None)
    assert earliest(world, 2) == 2


def test_a_follower_that_polls_hears_of_it_at_once(world):
    answers = deleting(world, 2)
    world.run(2)
    assert results(answers) == [(ErrorCode.NONE, 2)]


def test_a_follower_whose_fetch_was_on_its_way_hears_of_it_at_once(world):
    world.hold("FetchRequest")
    world.run_until(lambda: len(world.held) == 2)
    answers = deleting(world, 2)
    world.release()
    world.run(3)
    assert results(answers) == [(ErrorCode.NONE, 2)]


def test_what_all_know_already_is_answered_without_waiting(world):
    answers = deleting(world, 2)
    world.run_until(lambda: bool(answers))
    assert results(deleting(world, 1)) == [(ErrorCode.NONE, 2)]


def test_its_time_runs_out(world):
    hold_fetch_responses(world, 3)
    answers = deleting(world, 2, timeout_ms=200)
    world.run(199)
    assert answers == []
    world.run(1)
    assert results(answers) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    assert not replica(world, 1).waits.deletes


def test_each_partition_is_told_of_for_itself(world):
    create_topic(world, "alone", assignment=(1,))
    create_topic(world, "near", assignment=(1, 2))
    for topic in ("alone", "near"):
        write(world, 1, topic, b"a")
    hold_fetch_responses(world, 3)
    answers = deleting(world, 1, "alone", "t", "missing", "near", timeout_ms=200)
    world.run(200)
    assert results(answers) == [
        (ErrorCode.NONE, 1),
        (ErrorCode.REQUEST_TIMED_OUT, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.NONE, 1),
    ]


def lags(world: World) -> None:
    world.isolate(1, 3)
    write(world, 1, "t", b"d", acks=1)


@pytest.mark.parametrize("leaves", [lags, lambda world: world.crash(3)], ids=["lags", "dies"])
def test_who_leaves_the_isr_is_not_waited_for(world, leaves):
    leaves(world)
    answers = deleting(world, 2)
    world.run_until(lambda: world.partition("t").isr == (1, 2))
    assert answers == []
    world.run_until(lambda: bool(answers))
    assert results(answers) == [(ErrorCode.NONE, 2)]


def test_a_disk_that_takes_nothing_deletes_nothing(world):
    world.stores[1].full = True
    assert results(deleting(world, 2)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert starts(world) == [0, 0, 0]
    assert any(event.kind == "storage-failed" for event in world.ledger)


def test_who_may_be_in_the_isr_already_is_waited_for(world):
    lags(world)
    world.run_until(lambda: replica(world, 1).leadership.isr == (1, 2))
    world.heal()
    world.hold("AlterPartitionRequest")
    world.run_until(lambda: replica(world, 1).leadership.pending is not None and polls(world) == 2)
    hold_fetch_responses(world, 3)
    answers = deleting(world, 2)
    world.run(100)
    assert (answers, starts(world)) == ([], [2, 2, 0])


def test_a_leader_that_steps_down_says_so(world):
    world.isolate(1, 2)
    world.isolate(1, 3)
    answers = deleting(world, 2)
    world.isolate(1, CONTROLLER)
    world.run_until(lambda: world.partition("t").leader == 2)
    assert answers == []
    world.heal()
    world.run_until(lambda: bool(answers))
    assert results(answers) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_client_that_goes_is_forgotten(world):
    core = world.broker(1)
    core.handle(Request(999, 2, request(2, timeout_ms=200), Peer(connection=77)), world.now)
    assert len(replica(world, 1).waits.deletes) == 1
    core.handle(Disconnected(77), world.now)
    assert not replica(world, 1).waits.deletes
    effects = core.handle(Wake(), world.now + 200)
    assert not [each for each in effects if isinstance(each, Respond) and each.token == 999]

"""Several brokers and one controller: records reach every replica, and no acknowledged one is lost."""

import itertools

from epoka.wire.error_codes import ErrorCode
from tests.broker.client import create_topic, fetch_request, latest, produced, producing, read, write
from tests.broker.world import HUNG_UP, World


def logs_equal(world: World, topic: str, brokers: tuple[int, ...]) -> bool:
    ends = {world.broker(each).replicas.by_name[topic, 0].log.end_offset for each in brokers}
    return len(ends) == 1


def test_an_acknowledged_record_is_on_every_in_sync_replica():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    assert write(world, 1, "orders", b"a", b"b").error_code == ErrorCode.NONE
    assert logs_equal(world, "orders", (1, 2, 3))
    assert read(world, 1, "orders") == [b"a", b"b"]
    assert world.partition("orders").isr == (1, 2, 3)


def test_consumers_see_nothing_above_the_high_watermark():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.isolate(1, 2)
    world.isolate(1, 3)
    answers = producing(world, 1, "orders", b"a")
    world.run(100)
    assert not answers
    assert read(world, 1, "orders") == []
    assert latest(world, 1, "orders") == 0
    world.heal()
    world.run_until(lambda: bool(answers))
    assert read(world, 1, "orders") == [b"a"]


def test_a_dead_leader_is_replaced_and_nothing_is_lost():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a", b"b")
    world.crash(1)
    world.run_until(lambda: world.partition("orders").leader == 2)
    world.run_until(lambda: world.broker(2).replicas.by_name["orders", 0].leadership is not None)
    assert write(world, 2, "orders", b"c").base_offset == 2
    assert read(world, 2, "orders") == [b"a", b"b", b"c"]
    world.start_broker(1)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    assert logs_equal(world, "orders", (1, 2, 3))


def test_what_a_deposed_leader_wrote_alone_is_cut_when_it_comes_back():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"kept")
    for other in (2, 3, -1):
        world.isolate(1, other)
    assert write(world, 1, "orders", b"alone", acks=1).error_code == ErrorCode.NONE
    world.run_until(lambda: world.partition("orders").leader == 2)
    world.run_until(lambda: world.broker(2).replicas.by_name["orders", 0].leadership is not None)
    assert write(world, 2, "orders", b"together").base_offset == 1
    world.heal()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    assert read(world, 2, "orders") == [b"kept", b"together"]
    assert logs_equal(world, "orders", (1, 2, 3))
    assert world.broker(1).replicas.by_name["orders", 0].log.read(0, 1 << 20) == world.broker(
        2
    ).replicas.by_name["orders", 0].log.read(0, 1 << 20)


def test_below_min_isr_a_write_with_acks_all_is_refused_before_it_is_written():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
    world.crash(2)
    world.crash(3)
    world.run_until(lambda: world.partition("orders").isr == (1,))
    world.run_until(lambda: world.broker(1).replicas.by_name["orders", 0].leadership.isr == (1,))
    assert write(world, 1, "orders", b"no").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.broker(1).replicas.by_name["orders", 0].log.end_offset == 0


def test_below_min_isr_the_high_watermark_stands_still_for_acks_one_too():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
    write(world, 1, "orders", b"a")
    world.crash(2)
    world.crash(3)
    world.run_until(lambda: world.broker(1).replicas.by_name["orders", 0].leadership.isr == (1,))
    assert write(world, 1, "orders", b"b", acks=1).error_code == ErrorCode.NONE
    assert read(world, 1, "orders") == [b"a"]


def test_a_follower_that_lags_leaves_the_isr_and_comes_back():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.isolate(1, 3)
    answers = producing(world, 1, "orders", b"a")
    world.run_until(lambda: world.partition("orders").isr == (1, 2))
    world.run_until(lambda: bool(answers))
    assert produced(answers).error_code == ErrorCode.NONE
    world.heal()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])


def test_a_leader_tells_why_it_asks_for_another_isr():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.ledger.clear()
    world.isolate(1, 3)
    producing(world, 1, "orders", b"a")
    world.run_until(lambda: world.partition("orders").isr == (1, 2))
    world.heal()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
    shrink, join = [each for each in world.ledger if each.kind == "isr-proposed" and each.topic == "orders"]
    assert (shrink.node, shrink.isr_before, shrink.isr) == (1, (1, 2, 3), (1, 2))
    assert shrink.detail.startswith("broker 3 has not caught up for ")
    assert (join.isr, join.detail) == ((1, 2, 3), "broker 3 has caught up")


def test_a_client_that_poses_as_a_follower_is_refused():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    posing = fetch_request(world, "orders", replica_id=2)
    assert world.call(1, posing, 13).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_full_disk_takes_one_broker_out_and_not_the_cluster():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
    assert write(world, 1, "orders", b"a").error_code == ErrorCode.NONE
    world.stores[1].full = True
    assert write(world, 1, "orders", b"refused", acks=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.run_until(lambda: world.controller.image.broker(1).fenced)
    assert world.partition("orders").leader in (2, 3) and 1 not in world.partition("orders").isr
    leader = world.partition("orders").leader
    world.run_until(lambda: world.broker(leader).replicas.by_name["orders", 0].leadership is not None)
    assert write(world, leader, "orders", b"b").error_code == ErrorCode.NONE
    assert read(world, leader, "orders") == [b"a", b"b"]
    # Whoever still asks the first one is sent on.
    world.run_until(lambda: world.broker(1).image.partition("orders", 0).leader == leader)
    assert world.call(1, fetch_request(world, "orders"), 13).responses[0].partitions[0].error_code == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    world.crash(1)
    world.stores[1].full = False
    world.start_broker(1)
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])


def test_a_full_disk_of_a_follower_does_not_stop_the_leader():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3), min_insync_replicas="2")
    world.stores[3].full = True
    answers = producing(world, 1, "orders", b"a")
    world.run_until(lambda: bool(answers))
    assert produced(answers).error_code == ErrorCode.NONE
    assert world.partition("orders").isr == (1, 2)


class TestSelfFencing:
    """KIP-343: a broker that cannot reach the controller takes nothing new, and comes back by itself."""

    def isolated(self) -> World:
        world = World(3)
        create_topic(world, "orders", assignment=(1, 2, 3))
        world.isolate(1, -1)
        world.run_until(lambda: world.broker(1).lifecycle.self_fenced)
        return world

    def test_the_controller_fences_it_first(self):
        world = self.isolated()
        fenced = [event for event in world.ledger if event.kind == "fenced" and event.broker == 1]
        itself = [event for event in world.ledger if event.kind == "self-fenced"]
        assert fenced and itself and fenced[0].time_ms <= itself[0].time_ms

    def test_it_refuses_new_requests_with_a_retriable_error(self):
        world = self.isolated()
        error = write(world, 1, "orders", b"x", acks=1).error_code
        assert ErrorCode.of(error).retriable
        answer = world.call(1, fetch_request(world, "orders"), 13)
        assert ErrorCode.of(answer.responses[0].partitions[0].error_code).retriable

    def test_it_gives_out_no_stale_metadata(self):
        from epoka.wire.messages.metadata import MetadataRequest

        world = self.isolated()
        assert world.call(1, MetadataRequest(topics=None), 9) == HUNG_UP

    def test_it_comes_back_by_itself(self):
        world = self.isolated()
        world.heal()
        world.run_until(lambda: world.broker(1).lifecycle.serving())
        world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])
        assert any(event.kind == "self-unfenced" for event in world.ledger)


def test_a_follower_that_hears_of_a_leader_before_that_leader_does_loses_little_time():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    write(world, 1, "orders", b"a")
    world.crash(1)
    world.holding = lambda sender, to, message: to == 2 and type(message).__name__ == "FetchMetadataResponse"
    world.run_until(lambda: world.broker(3).image.partition("orders", 0).leader == 2)
    world.run(15)
    assert world.broker(2).replicas.by_name["orders", 0].leadership is None
    world.release()
    world.run_until(lambda: world.broker(2).replicas.by_name["orders", 0].leadership is not None)
    began = world.now
    assert write(world, 2, "orders", b"b").error_code == ErrorCode.NONE
    assert world.now - began < 100, "half of the pause between two attempts at a leader that is really gone"


def test_a_leader_that_goes_on_refusing_is_asked_less_and_less_often():
    world = World(3)
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.crash(1)
    asked: list[int] = []

    def holding(sender: int, to: int, message: object) -> bool:
        if (sender, to) == (3, 2) and type(message).__name__ == "FetchRequest":
            asked.append(world.now)
        return to == 2 and type(message).__name__ == "FetchMetadataResponse"

    world.holding = holding
    world.run_until(lambda: world.broker(3).image.partition("orders", 0).leader == 2)
    world.run(800)
    pauses = [later - sooner for sooner, later in itertools.pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 15
    assert 200 <= pauses[-1] <= 205


def test_a_partition_whose_batches_are_large_has_its_turn_though_another_one_is_always_busy():
    """Only what comes first in an answer may be larger than the limit, and the busy one always came first."""
    world = World(2, replica_fetch_max_bytes=500)
    create_topic(world, "large", assignment=(1, 2))
    create_topic(world, "busy", assignment=(1, 2))
    world.run(1_000)
    answers = []
    for step in range(100):
        producing(world, 1, "busy", b"a", acks=1)
        if step == 10:
            answers = producing(world, 1, "large", b"x" * 1_000)
        world.run(1)
    assert produced(answers).error_code == ErrorCode.NONE
    assert world.partition("large").isr == (1, 2)

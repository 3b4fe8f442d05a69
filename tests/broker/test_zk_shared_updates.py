"""The UpdateMetadata cache KIP: five messages, the maximum generation, and two bounces in one sweep."""

from epoka.fencing import ALL_RULES, Rules
from epoka.model.events import CONTROLLER, RegistryChanged
from epoka.model.levels import FeatureLevel
from tests.broker.client import create_topic, write
from tests.broker.test_zk_kip_380 import refused, topic
from tests.broker.zk_world import ZkWorld


def five_messages(rules: Rules) -> ZkWorld:
    """1: the broker registers. 2: the controller reads the registry. 3, 4: the broker restarts and registers
    again. 5: what the controller made of message 2 arrives."""
    world = ZkWorld(level=FeatureLevel.SHARED_UPDATES, rules=rules)
    world.holding = lambda frm, to, message: type(message).__name__ == "UpdateMetadataRequest" and to == 1
    answers = world.ask(2, topic("orders", 2, 3), 7)
    world.run_until(lambda: bool(world.held) and bool(answers))
    world.tell = False
    world.crash(1)
    world.start_broker(1)
    world.run(5)
    assert world.broker(1).lifecycle.broker_epoch == world.epoch(1)
    world.release()
    world.run(5)
    return world


def test_a_request_made_before_the_second_registration_is_refused():
    world = five_messages(ALL_RULES)
    assert refused(world, "control.max-generation")
    assert not world.broker(1).feed.updated
    world.tell_registry()
    world.run_until(lambda: world.broker(1).lifecycle.serving())
    assert world.broker(1).image.topic("orders") is not None


def test_without_the_rule_the_new_life_believes_a_request_for_the_old_one():
    world = five_messages(Rules.without("control.max-generation"))
    assert world.broker(1).feed.updated


def two_bounces_between_two_pictures() -> tuple[ZkWorld, RegistryChanged, RegistryChanged]:
    """The world, what a sweep sees that is cut in two by the bounces, and one moment as it really was."""
    world = ZkWorld(level=FeatureLevel.SHARED_UPDATES)
    create_topic(world, "orders", assignment=(2, 1, 3))
    write(world, 2, "orders", b"a")
    world.tell = False
    first_half = world.registry[1][0]
    # The sweep has read broker 1; now it and then broker 2 bounce, and the sweep goes on to the others.
    for broker_id in (1, 2):
        world.crash(broker_id)
        world.start_broker(broker_id)
        world.isolate(broker_id, CONTROLLER)
    world.run(5)
    others = tuple(entry for entry, _ in world.registry.values() if entry.id != 1)
    torn = RegistryChanged((first_half, *others), world.zxid)
    whole = RegistryChanged(tuple(entry for entry, _ in world.registry.values()), world.zxid)
    assert first_half.epoch < world.epoch(1) < world.epoch(2)
    world.heal()
    return world, torn, whole


def test_a_sweep_that_two_bounces_cut_in_two_lets_a_dead_generations_request_through():
    """Why a picture must be of one moment: this is what happens when it is not (facts 3.5)."""
    world, torn, _ = two_bounces_between_two_pictures()
    world.hold("MetadataHeartbeatRequest")
    world._event(world.nodes[CONTROLLER], torn)
    world.run(3)
    assert world.controller.image.broker(1).epoch < world.epoch(1)
    assert world.broker(1).feed.updated


def test_with_a_picture_of_one_moment_nothing_is_sent_to_the_dead_generations():
    world, _, whole = two_bounces_between_two_pictures()
    sent = []

    def hold(sender: int, receiver: int, message: object) -> bool:
        if (sender, receiver) == (CONTROLLER, 1):
            sent.append(message)
        return type(message).__name__ == "MetadataHeartbeatRequest"

    world.holding = hold
    world._event(world.nodes[CONTROLLER], whole)
    world.run(5)
    assert world.controller.image.broker(1).epoch == world.epoch(1)
    requests = [each for each in sent if hasattr(each, "max_broker_epoch")]
    assert requests and all(each.max_broker_epoch == world.epoch(2) for each in requests)
    assert world.broker(1).image.partition("orders", 0) == world.partition("orders")
    world.release()
    world.run_until(lambda: sorted(world.partition("orders").isr) == [1, 2, 3])


def test_the_same_request_object_goes_to_every_broker():
    world = ZkWorld(level=FeatureLevel.SHARED_UPDATES)
    sent: list[tuple[int, object]] = []
    world.holding = lambda frm, to, message: bool(
        type(message).__name__ == "UpdateMetadataRequest" and sent.append((to, message))
    )
    create_topic(world, "orders", assignment=(1, 2, 3))
    world.run(10)
    assert sorted(to for to, _ in sent) == [1, 2, 3]
    assert len({id(message) for _, message in sent}) == 1
    sent.clear()
    world.climb(FeatureLevel.ELIGIBLE_ISR)
    world.run(10)
    assert sorted(to for to, _ in sent) == [1, 2, 3]
    assert len({id(message) for _, message in sent}) == 1

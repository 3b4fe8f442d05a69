"""KIP-343: who can't reach the controller stops by itself, and an id has one owner."""

from __future__ import annotations

from epoka.model.levels import FeatureLevel
from epoka.sim import client
from epoka.sim.process import Machine
from epoka.sim.scenarios.story import CONTROLLER, DEMANDED, ZOOKEEPER, Story, scenario
from epoka.wire.error_codes import ErrorCode

SECOND = 51
"""The address of a second machine."""


@scenario(
    "kip-343-partitioned-broker",
    "KIP-343",
    rules=("heartbeat.contact",),
    restated_by="11:",
    harm=DEMANDED,
    mode=ZOOKEEPER,
    level=FeatureLevel.HEARTBEATS,
)
def partitioned(story: Story) -> None:
    """A broker reaches ZooKeeper but not the controller, and goes on leading.

    Broker 1 leads. It is cut off from the controller and from nothing else: its session lives, clients
    reach it. The controller hears no heartbeats, declares it inactive and lets broker 2 lead. Broker 1
    hears nothing of that. Whatever a client writes there now with acks=1 is acknowledged, however long it
    lasts, and cut away when broker 1 hears of broker 2. By the document a broker that has not reached the
    controller for long enough fences itself: it ends what it has begun and takes nothing new, a little after
    the controller has given it up.
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3))
    story.watch()
    story.write(1, "orders", b"first")
    story.cut(1, CONTROLLER)
    story.until_led_by(2)
    story.write(2, "orders", b"second")
    story.run(600)
    story.say("a client that has not heard of it writes to broker 1")
    answer = story.write(1, "orders", b"astray", acks=1)
    story.mend(1, CONTROLLER)
    story.must_heal()
    story.must(
        answer != ErrorCode.NONE or b"astray" in client.log_of(world, 1, "orders"),
        "a client was told that “astray” is written, and it has been cut away",
    )


@scenario(
    "kip-343-duplicate-id",
    "KIP-343",
    rules=("registration.incarnation",),
    restated_by="15:",
    harm=DEMANDED,
    shows={"BrokerRegistrationRequest", "BrokerRegistrationResponse"},
    settings={"registration_timeout_ms": 350},
)
def duplicate_id(story: Story) -> None:
    """Two brokers are configured with the same id.

    Somebody starts a second process as broker 3, with a disk of its own. Without an identity for each life
    the two cannot be told apart: each registration takes the id from the other, each of them finds itself
    replaced and registers again, and so it goes on: neither is counted on for longer than a moment. With
    one, the controller sees a second life while the first one is alive and well, refuses it, and the second
    process gives up.
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3))
    story.watch()
    world.machines[SECOND] = Machine(SECOND, 3)
    story.say("a second process is started as broker 3")
    world.start_broker(3, SECOND)
    story.run(500)
    before = world.generation(3)
    story.run(500)
    after = world.generation(3)
    story.must(
        before == after, f"the two still take the id from each other: generation {before} is {after} by now"
    )
    story.must_heal(3_000)

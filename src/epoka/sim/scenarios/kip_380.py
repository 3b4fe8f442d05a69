"""KIP-380: the four examples of its motivation, and what a generation in each request does about them."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from epoka.broker.core import BrokerCore
from epoka.model.levels import FeatureLevel
from epoka.sim import client
from epoka.sim.scenarios.story import (
    CONTROLLER,
    CONVERGED,
    WIPE,
    ZOOKEEPER,
    Story,
    scenario,
)

CONTROL = {"LeaderAndIsrRequest", "StopReplicaRequest", "ControlledShutdownRequest"}


@scenario(
    "kip-380-stop-replica",
    "KIP-380",
    rules=("control.generation",),
    restated_by="17:",
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"StopReplicaRequest", "ControlledShutdownRequest"},
)
def stop_replica(story: Story) -> None:
    """A request to stop a replica outlives the broker that it was meant for.

    Broker 3 is in its controlled shutdown, and the controller tells it to stop following. The request is
    slow; broker 3 dies, comes back and is in sync again. Then the request arrives. Nobody but the former
    life of broker 3 was meant by it, but nothing in it says so: obeyed, it takes a replica offline that
    everybody believes to be online, and nothing ever brings it back. With the receiver's generation in the
    request the broker sees that it is not the one who is addressed.
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3))
    story.watch()
    stop = story.hold("StopReplicaRequest", to=3)
    grant = story.hold("ControlledShutdownResponse", to=3)
    story.stop(3)
    story.await_held(stop)
    story.say("the controller has told broker 3 to stop following; the request is slow")
    story.crash(3)
    story.until_gone(3)
    story.restart(3)
    story.until_isr(1, 2, 3)
    story.say("broker 3 is back and in sync; the request for its former life arrives")
    grant.release()
    story.release(stop)
    story.run(10)
    story.must_heal(5_000)


@scenario(
    "kip-380-controlled-shutdown",
    "KIP-380",
    rules=("shutdown.generation",),
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"StopReplicaRequest", "ControlledShutdownRequest"},
)
def controlled_shutdown(story: Story) -> None:
    """A broker's wish to stop is granted to its next life.

    Broker 3 asks for a controlled shutdown. The request is slow, broker 3 dies and comes back, and nobody
    wants it to stop any more. Then the request arrives. A controller that goes by the id alone takes the
    new life out of every ISR and tells it to stop its replicas. The broker runs on, useless. With its
    generation in the request the controller sees that the one who asked is gone.
    """
    client.create_topic(story.world, "orders", (1, 2, 3))
    story.watch()
    asked = story.hold("ControlledShutdownRequest", sender=3)
    story.stop(3)
    story.await_held(asked)
    story.say("broker 3 asks to stop; the request is slow", 3)
    story.crash(3)
    story.until_gone(3)
    story.restart(3)
    story.until_isr(1, 2, 3)
    story.say("broker 3 is back; the request of its former life arrives")
    story.release(asked)
    story.run(10)
    story.must_heal(5_000)


@scenario(
    "kip-380-first-leader-and-isr",
    "KIP-380",
    rules=("control.generation",),
    restated_by="17:",
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"LeaderAndIsrRequest"},
)
def first_leader_and_isr(story: Story) -> None:
    """The first LeaderAndIsr that a new life sees was made before it began.

    A topic is created and broker 1 is to lead it. The request that says so is slow; broker 1 dies, and
    while it is away the topic is deleted. Broker 1 comes back, has nothing to lead or to follow, and serves.
    Now the old request arrives, the first LeaderAndIsr of its life. Obeyed, it brings the topic back on
    this one broker: broker 1 leads it and tells clients that their records are written, and nobody tells it
    otherwise. The generation in the request tells it that the request is older than itself.

    The document's own harm is another one: Kafka overwrote its checkpoint of high watermarks with what that
    first request named, and could cut logs by it (KAFKA-7235). That cannot be here: the checkpoint has every
    log that is on the disk, and logs are cut by leader epoch. And a broker that has not been told of the
    cluster in its own generation takes nothing from clients, so the harm is that of a request that comes
    after that.
    """
    world = story.world
    story.watch()
    order = story.hold("LeaderAndIsrRequest", to=1)
    made = world.ask(2, client.create_request("orders", ((1, 2, 3),)), client.CREATE_VERSION)
    story.await_held(order)
    story.until("the topic is made", lambda: made.done)
    story.say("broker 1 is to lead; the request is slow")
    story.crash(1)
    story.until_led_by(2)
    gone = world.ask(2, client.delete_request("orders"), client.DELETE_VERSION)
    story.until("the topic is deleted", lambda: gone.done)
    story.restart(1)
    story.until("broker 1 serves", lambda: world.broker(1).lifecycle.serving())
    story.say("the topic is deleted and broker 1 is back and serves; now the old request arrives")
    story.release(order)
    story.run(5)
    story.say("a client that knows the topic from before writes to broker 1")
    story.write(1, "orders", b"astray", acks=1)
    story.must_heal(5_000)


@scenario(
    "kip-380-missed-bounce",
    "KIP-380",
    rules=("registry.bounce",),
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"LeaderAndIsrRequest"},
)
def missed_bounce(story: Story) -> None:
    """A broker bounces faster than the controller looks, and never starts.

    Broker 1 dies and is registered again before the controller reads the registry. Broker 1 was there,
    broker 1 is there: by ids alone nothing has happened, so the controller sends nothing. But the new life
    knows nothing of its partitions and waits for a LeaderAndIsr that never comes. A higher generation under
    the same id is a failure and then a start: the leadership moves, and the new life is told everything.
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3))
    story.watch()
    story.deafen()
    story.bounce(1)
    story.run(5)
    story.say("broker 1 is registered again; only now does the controller read the registry")
    story.tell()
    story.must_heal(5_000)


@scenario(
    "kip-380-bounce-at-takeover",
    "KIP-380",
    guard="the generations that a controller knew are durable",
    mutant=lambda stack: None,
    harm="2: ISR members have everything",
    mode=ZOOKEEPER,
    controllers=2,
    shows={"LeaderAndIsrRequest"},
)
def bounce_at_takeover(story: Story) -> None:
    """A broker bounces while there is no controller, and the next one has nothing to compare with.

    The document has the controller compare generations in the registry with those in its memory. A
    controller that has just been elected has no such memory. The old one dies; before the next one is
    elected, broker 2 bounces and comes back with an empty disk. The new controller finds broker 2 in the
    registry and broker 2 in the ISR, and by the document alone there is no reason to doubt it: an empty
    replica is in sync. This is a hole in the document. Here the generations that a controller knows are
    durable, so the next one sees the bounce in its first picture of the registry. (The specification in
    `spec/` found it first.)
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3), min_insync_replicas="2")
    story.run(50)
    story.watch()
    keeper = world.keeper
    assert keeper is not None
    keeper.forgets_generations = story.without_rule
    story.write(1, "orders", b"precious")
    former = world.address_of(CONTROLLER)
    story.crash(former)
    story.bounce(2, WIPE)
    # It must not catch up before the new controller has looked.
    world.cut(1, 2)
    world.cut(2, 3)
    story.until("another controller is in office", lambda: world.address_of(CONTROLLER) != former)
    story.say("another controller has taken over; broker 1 fails")
    story.run(50)
    story.crash(1)
    story.until("broker 1 is given up", lambda: world.partition("orders").leader != 1)
    story.run(50)
    story.restart(1)
    story.must_heal()


def _obeys_unregistered(stack: ExitStack) -> None:
    """A broker without a generation obeys whatever comes, as Kafka's does."""
    stack.enter_context(patch.object(BrokerCore, "_is_early", lambda *_: False))


@scenario(
    "kip-380-before-registration",
    "KIP-380",
    guard="a control request waits until the broker knows its generation",
    mutant=_obeys_unregistered,
    harm="8: one leader an epoch",
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"LeaderAndIsrRequest"},
)
def before_registration(story: Story) -> None:
    """A new life obeys a request for the old one before it has a generation to compare with.

    Broker 1 leads; the controller has not heard yet that its LeaderAndIsr arrived. Broker 1 loses its disk
    and starts again. As long as the session of its former life lasts it cannot register, so it has no
    generation, and the controller, which has noticed nothing, repeats its request. Kafka accepts anything
    as long as it has no generation of its own: the new life leads in the same leader epoch as the old one,
    with an empty log, and its followers cut theirs. The document does not speak of this. Here such a
    request waits until the broker is registered, and is judged then.
    """
    world = story.world
    answer = story.hold("LeaderAndIsrResponse", sender=1)
    client.create_topic(world, "orders", (1, 2, 3), min_insync_replicas="2")
    story.write(1, "orders", b"precious")
    story.watch()
    story.crash(1, WIPE)
    answer.release()
    story.restart(1)
    story.say("broker 1 runs and cannot register yet; the controller repeats its request", 1)
    story.run(300)
    story.must_heal()

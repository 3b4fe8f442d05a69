"""KIP-380: the four examples of its motivation, and what a generation in each request does about them."""

from __future__ import annotations

from epoka.model.levels import FeatureLevel
from epoka.sim import client
from epoka.sim.scenarios.story import CONVERGED, DEMANDED, ZOOKEEPER, Story, scenario

CONTROL = {"LeaderAndIsrRequest", "StopReplicaRequest", "ControlledShutdownRequest"}


@scenario(
    "kip-380-stop-replica",
    "KIP-380",
    rules=("control.generation",),
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
    harm=DEMANDED,
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"LeaderAndIsrRequest"},
)
def first_leader_and_isr(story: Story) -> None:
    """The first LeaderAndIsr that a new life sees was made before it began.

    A topic is created and broker 1 is to lead it. The request that says so is slow; broker 1 dies, and
    broker 2 leads. Broker 1 comes back, and before the controller has looked, the old request arrives. A
    broker takes the first LeaderAndIsr of its life for the whole truth: it leads an epoch that is over, and
    writes high watermarks down that are nobody's (KAFKA-7235). The generation in the request tells it that
    the request is older than itself.
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
    story.deafen()
    story.restart(1)
    story.run(5)
    story.say("broker 1 is back, the controller has not looked yet, the old request arrives")
    story.release(order)
    story.run(5)
    story.must(
        not world.leads(1, "orders"),
        "broker 1 leads orders-0 in an epoch that is over, while broker 2 leads it in the present one",
    )
    story.tell()
    story.must_heal()


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

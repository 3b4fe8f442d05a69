"""The UpdateMetadata cache KIP: one greatest generation for all receivers, and what it rests on."""

from __future__ import annotations

from epoka.model.events import RegistryChanged
from epoka.model.levels import FeatureLevel
from epoka.sim import client
from epoka.sim.scenarios.story import CONVERGED, KEEP, WIPE, ZOOKEEPER, Story, scenario


@scenario(
    "cache-kip-five-messages",
    "the cache KIP",
    rules=("control.max-generation",),
    restated_by="17:",
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.SHARED_UPDATES,
    shows={"UpdateMetadataRequest"},
)
def five_messages(story: Story) -> None:
    """The document's diagram: five messages, and the fifth is too old.

    One: broker 1 registers. Two: the controller reads the registry, and with it the greatest generation of
    all. Broker 3 stands still for a while, so the controller tells everybody that broker 3 is not there; to
    broker 1 that is slow. Three and four: broker 1 restarts, registers again and learns its new generation.
    By now broker 3 is back, and the controller has told broker 1 so. Five: the slow UpdateMetadata arrives.
    It carries no generation of broker 1, only the greatest one of message two; but that was read before
    broker 1 registered again, so it is smaller than broker 1's own. That is enough to refuse it, and the
    same bytes serve every broker. Obeyed, it takes broker 3 away from broker 1 and its clients, and nothing
    brings it back until something else changes.
    """
    world = story.world
    story.watch()
    story.say("1 and 2 are done: broker 1 is registered, the controller has read the registry")
    update = story.hold("UpdateMetadataRequest", to=1, most=1)
    story.pause(3)
    story.await_held(update)
    story.resume(3)
    story.until("broker 3 is back", lambda: not story.fenced(3))
    story.say("3 and 4: broker 1 restarts and registers again", 1)
    former = world.generation(1)
    story.bounce(1)
    story.until_new_life(1, former)
    story.until("everybody knows of everybody", world.all_active)
    story.say("5: what the controller said when it knew no more than message 2 arrives")
    story.release(update)
    story.run(5)
    story.must_heal(5_000)


@scenario(
    "cache-kip-two-bounces",
    "the cache KIP",
    guard="the registry is read as it was at one moment",
    mutant=lambda stack: None,
    harm="1: the leader has everything",
    mode=ZOOKEEPER,
    level=FeatureLevel.SHARED_UPDATES,
    shows={"UpdateMetadataRequest", "LeaderAndIsrRequest"},
)
def two_bounces(story: Story) -> None:
    """Two brokers bounce while the controller reads the registry broker by broker.

    The document's argument needs the greatest generation to be from before any later registration. A
    controller that lists the brokers and then reads one after the other can miss that: it reads broker 1;
    broker 1 bounces and comes back with an empty disk, then broker 2 bounces; it reads broker 2. Now it
    knows broker 1 by a life that is over, and the greatest generation, broker 2's, is above that of broker
    1's new life. Broker 2 led; the controller has seen its bounce and lets broker 1 lead, which it takes for
    in sync. That is meant for the dead life and obeyed by the new one, which has nothing: an acknowledged
    record is lost. A picture of one moment cannot be mixed like that.
    """
    world = story.world
    client.create_topic(world, "orders", (2, 1, 3))
    story.watch()
    story.write(2, "orders", b"precious")
    story.run(50)
    story.deafen()
    keeper = world.keeper
    assert keeper is not None
    read_early = keeper.registry[1][0]
    story.say("the controller has read broker 1 and goes on to the others")
    silence = story.hold("MetadataHeartbeatRequest")
    for broker_id, disk in ((1, WIPE), (2, KEEP)):
        story.bounce(broker_id, disk)
        story.run(6)
    entries = tuple(entry for entry, _ in keeper.registry.values())
    if story.without_rule:
        entries = tuple(read_early if entry.id == 1 else entry for entry in entries)
    story.tell(RegistryChanged(entries, keeper.zxid))
    story.run(10)
    silence.release()
    story.must_heal()


@scenario(
    "cache-kip-overtaken-update",
    "the cache KIP",
    rules=("control.connection",),
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.FETCH_EPOCHS,
    shows={"UpdateMetadataRequest"},
)
def overtaken_update(story: Story) -> None:
    """What the controller said first arrives last.

    Broker 2 dies, and the controller tells the leader so; the request is slow. The controller waits for its
    answer, gives the connection up, and says it again on the next one, then that broker 2 is back. Only now
    the first connection delivers what it had. Nothing in the request is stale: the generation is right, and
    so is the controller. No document orders two requests of one controller; taken in, the old one tells the
    leader of broker 2's former life, and nothing brings broker 2 into the ISR until something else changes.
    The simulator found this. So a request is not taken from a connection that is older than one on which
    the same controller was obeyed, and the old connection is closed.
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3))
    story.run(50)
    story.watch()
    late = story.hold("UpdateMetadataRequest", to=1, most=1, in_line=True)
    story.crash(2)
    story.await_held(late)
    story.say("the leader is told that broker 2 is gone; the request is slow")
    story.restart(2)
    leader = world.broker(1)

    def is_told() -> bool:
        known = leader.image.broker(2)
        return known is not None and known.active and known.epoch == world.generation(2)

    story.until("broker 2 is back", lambda: world.generation(2) == world.broker(2).lifecycle.broker_epoch > 0)
    story.until("the leader is told of broker 2's new life, on another connection", is_told)
    story.say("the leader knows that broker 2 is back; now the first connection delivers what it had")
    story.release(late)
    story.run(10)
    story.must_heal(5_000)

"""KIP-841: who is fenced or shutting down is no member of an ISR, and every controller knows who that is."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from epoka.controller import controlled_shutdown
from epoka.sim import client
from epoka.sim.network import Hold
from epoka.sim.scenarios.story import CONTROLLER, Story, scenario

LEADER, OTHER, LEAVER = 1, 2, 3
PROPOSALS = {"AlterPartitionRequest", "AlterPartitionResponse"}


def two_topics(story: Story) -> None:
    """One partition that broker 3 follows, and one that it leads, so that its shutdown takes a moment."""
    client.create_topic(story.world, "orders", (LEADER, OTHER, LEAVER), min_insync_replicas="2")
    client.create_topic(story.world, "payments", (LEAVER, LEADER, OTHER), min_insync_replicas="2")
    story.watch()


def up_to_the_proposal(story: Story) -> Hold:
    """The leaver has been out of the ISR, has caught up, and the leader's proposal to add it is under way."""
    two_topics(story)
    story.cut(LEADER, LEAVER)
    story.say("broker 3 falls behind and leaves the ISR", LEADER)
    story.write(LEADER, "orders", b"first")
    proposal = story.hold("AlterPartitionRequest", sender=LEADER)
    story.mend(LEADER, LEAVER)
    story.await_held(proposal)
    story.say("broker 3 has caught up; the proposal to add it is slow", LEADER)
    return proposal


def stops_and_lingers(story: Story) -> Hold:
    """Broker 3 is stopping, and does not hear yet that it may go."""
    grant = story.hold("BrokerHeartbeatResponse", to=LEAVER)
    story.stop(LEAVER)
    world = story.world
    story.until(
        "the controller knows that broker 3 is stopping", lambda: world.controller.state.stopping(LEAVER)
    )
    return grant


@scenario(
    "kip-841-shutting-down-replica",
    "KIP-841",
    rules=("isr.eligible",),
    harm="9: only the active",
    shows={*PROPOSALS, "BrokerHeartbeatRequest"},
)
def shutting_down(story: Story) -> None:
    """A leader brings a replica back into the ISR that the controller is about to let go.

    Broker 3 has caught up and the leader proposes it for the ISR. Before the proposal arrives, broker 3
    begins its controlled shutdown: the controller moves whatever it leads and takes it out of every ISR.
    The leader could not know. If the controller takes the proposal now, a replica is in sync that will be
    gone in a moment, and writes that need it wait until it is noticed missing. The controller must refuse
    whoever is stopping, and the leader falls back to the ISR that it had.
    """
    proposal = up_to_the_proposal(story)
    grant = stops_and_lingers(story)
    story.say("broker 3 is stopping; now the proposal arrives")
    story.release(proposal)
    story.run(50)
    grant.release()
    story.until("broker 3 has ended", lambda: not story.world.is_up(LEAVER))
    story.restart(LEAVER)
    story.must_heal()


@scenario(
    "kip-841-fenced-replica",
    "KIP-841",
    rules=("isr.eligible",),
    harm="9: only the active",
    shows=PROPOSALS,
)
def fenced(story: Story) -> None:
    """A leader brings a replica back into the ISR that the controller has just fenced.

    Broker 3 has caught up and the leader proposes it. Then broker 3 falls silent and is fenced: by now it
    is in no ISR, so nothing else has to be done for this partition. The late proposal must not undo that.
    Without the rule the ISR counts on a broker that nobody can reach, and acknowledged writes wait for it.
    """
    proposal = up_to_the_proposal(story)
    story.crash(LEAVER)
    story.until_fenced(LEAVER)
    story.say("broker 3 is fenced; now the proposal arrives")
    story.release(proposal)
    story.run(50)
    story.restart(LEAVER)
    story.must_heal()


def _only_in_memory(stack: ExitStack) -> None:
    """Who is stopping is what one controller remembers, as it was before the KIP."""
    stack.enter_context(patch.object(controlled_shutdown, "_is_persisted", lambda state: False))


@scenario(
    "kip-841-failover-forgot",
    "KIP-841",
    guard="controlled shutdown is a record in the metadata log",
    mutant=_only_in_memory,
    harm="9: the stopping stay out",
    shows=PROPOSALS,
)
def failover_forgot(story: Story) -> None:
    """The controller that knew of a shutdown dies, and the next one lets the replica in.

    Broker 3 has caught up, the leader's proposal to add it is slow, and broker 3 begins its controlled
    shutdown. It has not heard yet that it may go. Now the controller fails and another one takes over. If
    who is stopping was only in the first one's memory, the second takes broker 3 for a healthy replica, and
    the late proposal gets it into the ISR. As a record the shutdown is there for every controller and every
    leader, and only the next life of broker 3 ends it.
    """
    world = story.world
    proposal = up_to_the_proposal(story)
    grant = stops_and_lingers(story)
    silence = story.hold("BrokerHeartbeatRequest", sender=LEAVER)
    story.bounce(CONTROLLER)
    story.say("another controller is in office; now the proposal arrives")
    story.release(proposal)
    story.run(20)
    silence.release()
    grant.release()
    story.until("broker 3 has ended", lambda: not world.is_up(LEAVER))
    story.restart(LEAVER)
    story.must_heal()

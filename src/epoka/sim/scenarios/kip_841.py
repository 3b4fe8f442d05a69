"""KIP-841: who is fenced or shutting down is no member of an ISR, and every controller knows who that is."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from epoka.controller import controlled_shutdown
from epoka.sim import client
from epoka.sim.network import Hold
from epoka.sim.scenarios.story import CONTROLLER, CONVERGED, DEMANDED, Story, scenario
from epoka.wire.error_codes import ErrorCode

LEADER, OTHER, LEAVER = 1, 2, 3
PROPOSALS = {"AlterPartitionRequest", "AlterPartitionResponse"}


def two_topics(story: Story) -> None:
    """One partition that broker 3 follows, and one that it leads, so that its shutdown takes a moment."""
    client.create_topic(story.world, "orders", (LEADER, LEAVER))
    client.create_topic(story.world, "payments", (LEAVER, OTHER))
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


def leader_bounces(story: Story, *waiting: Hold) -> None:
    """The leader is away for a moment, and broker 3 for longer. Whoever has every record must lead again."""
    story.say("the leader bounces while broker 3 goes", LEADER)
    story.bounce(LEADER)
    story.run(50)
    for hold in waiting:
        hold.release()
    story.until("broker 3 has ended", lambda: not story.world.is_up(LEAVER))
    story.until_led_by(LEADER)
    story.restart(LEAVER)
    story.must_heal()


@scenario(
    "kip-841-shutting-down-replica",
    "KIP-841",
    rules=("isr.eligible",),
    restated_by="9:",
    harm=CONVERGED,
    shows={*PROPOSALS, "BrokerHeartbeatRequest"},
)
def shutting_down(story: Story) -> None:
    """A leader brings a replica back into the ISR that the controller is about to let go.

    Broker 3 has caught up and the leader proposes it for the ISR. Before the proposal arrives, broker 3
    begins its controlled shutdown: the controller moves whatever it leads and takes it out of every ISR.
    The leader could not know. If the controller takes the proposal now, a replica is in sync that will be
    gone in a moment. Then the leader bounces. It leaves the ISR for that, and the only member that is left
    may not lead, because it is stopping, and ends. The leader is back at once and has every record, and the
    partition has no leader for as long as broker 3 is away. The controller must refuse whoever is stopping;
    the leader falls back to the ISR that it had, is the last one in it, and leads again.
    """
    proposal = up_to_the_proposal(story)
    grant = stops_and_lingers(story)
    story.say("broker 3 is stopping; now the proposal arrives")
    story.release(proposal)
    story.run(10)
    leader_bounces(story, grant)


@scenario(
    "kip-841-fenced-replica",
    "KIP-841",
    rules=("isr.eligible",),
    restated_by="9:",
    harm=DEMANDED,
    shows=PROPOSALS,
)
def fenced(story: Story) -> None:
    """A leader brings a replica back into the ISR that the controller has just fenced.

    Broker 3 has caught up and the leader proposes it. Then broker 3 falls silent and is fenced: by now it
    is not in this ISR, so nothing has to be done for this partition. The late proposal must not undo that.
    Without the rule the ISR counts on a broker that nobody can reach. The controller has fenced it already
    and will not notice it again; a write with acks=all waits until the leader finds that broker 3 has been
    behind for too long. This one does not get its answer in time.
    """
    proposal = up_to_the_proposal(story)
    story.crash(LEAVER)
    story.until_fenced(LEAVER)
    story.say("broker 3 is fenced; now the proposal arrives")
    story.release(proposal)
    story.run(10)
    answer = story.write(LEADER, "orders", b"second", timeout_ms=500)
    story.must(
        answer == ErrorCode.NONE, f"a write with acks=all waits for broker 3: {answer.name} after 500 ms"
    )
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
    restated_by="9:",
    harm=CONVERGED,
    shows=PROPOSALS,
)
def failover_forgot(story: Story) -> None:
    """The controller that knew of a shutdown dies, and the next one lets the replica in.

    Broker 3 has caught up, the leader's proposal to add it is slow, and broker 3 begins its controlled
    shutdown. It has not heard yet that it may go. Now the controller fails and another one takes over. If
    who is stopping was only in the first one's memory, the second takes broker 3 for a healthy replica, and
    the late proposal gets it into the ISR. The leader bounces, and broker 3 is even elected, on its way out.
    When the new controller hears that it is stopping, nobody else is in the ISR. Broker 3 ends, and the
    partition has no leader for as long as it is away, though the leader before it is back and has every
    record. As a record the shutdown is there for every controller and every leader, and only the next life
    of broker 3 ends it.
    """
    proposal = up_to_the_proposal(story)
    grant = stops_and_lingers(story)
    silence = story.hold("BrokerHeartbeatRequest", sender=LEAVER)
    story.bounce(CONTROLLER)
    story.say("another controller is in office; now the proposal arrives")
    story.release(proposal)
    story.run(20)
    leader_bounces(story, silence, grant)

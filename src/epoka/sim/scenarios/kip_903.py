"""KIP-903: a replica that lost its disk must not come back into an ISR by a request for its former life."""

from __future__ import annotations

from epoka.sim import client
from epoka.sim.network import Hold
from epoka.sim.scenarios.story import LOSE, WIPE, Story, scenario

A, B = 1, 2
PROPOSALS = {"AlterPartitionRequest", "AlterPartitionResponse", "BrokerRegistrationResponse"}


def up_to_the_proposal(story: Story) -> Hold:
    """A is alone in the ISR with a record; B has caught up; A's proposal to add B is under way."""
    client.create_topic(story.world, "orders", (A, B))
    story.watch()
    story.cut(A, B)
    story.say("A takes a record; B falls behind and leaves the ISR", A)
    story.write(A, "orders", b"precious")
    proposal = story.hold("AlterPartitionRequest", sender=A)
    story.mend(A, B)
    story.await_held(proposal)
    return proposal


@scenario(
    "kip-903-six-steps",
    "KIP-903",
    rules=("isr.generation",),
    harm="2: ISR members have everything",
    brokers=2,
    shows=PROPOSALS,
)
def six_steps(story: Story) -> None:
    """A replaced disk walks into the ISR on a request for the life before.

    A leads, B has caught up, and A asks the controller to take B into the ISR. The request is slow.
    Meanwhile B dies, the controller fences it (there is nothing to do: B is in no ISR), and B comes back
    with an empty disk and a new generation. Only now does the request arrive. It names B, and B is alive:
    but it speaks of the life that is over. With the generation of each member in the request the controller
    sees that and refuses. Without it an empty log is in sync, and the next failure of A loses everything.
    """
    world = story.world
    proposal = up_to_the_proposal(story)
    story.say("1: B has caught up, A proposes it for the ISR; the request is slow", A)
    story.say("2: B fails hard", B)
    story.crash(B, WIPE)
    story.until_fenced(B)
    story.say("3: the controller fences B and has nothing to do for this partition")
    # The new life must not fetch before the old request is in, or it would catch up honestly.
    world.cut(A, B)
    former = world.generation(B)
    story.say("4: B is back, with a disk that was replaced", B)
    story.restart(B)
    story.until_new_life(B, former)
    story.say("5: the controller has seen the registration of the new life")
    story.say("6: the proposal arrives")
    story.release(proposal)
    story.run(50)
    story.must_heal()


def falls_out_and_catches_up(story: Story, value: bytes) -> Hold:
    """B misses a record, leaves the ISR and catches up; A's proposal to add it is under way."""
    story.cut(A, B)
    story.write(A, "orders", value)
    proposal = story.hold("AlterPartitionRequest", sender=A, most=1)
    story.mend(A, B)
    story.await_held(proposal)
    return proposal


@scenario(
    "kip-903-time-line",
    "KIP-903",
    rules=("isr.generation",),
    harm="2: ISR members have everything",
    brokers=2,
    shows=PROPOSALS,
)
def time_line(story: Story) -> None:
    """When a proposal that names a rebooting broker may still be taken, and when it may not.

    B reboots while A wants it in the ISR. A proposal that arrives before the reboot is good. One that
    arrives after the shutdown but before B has registered again may be taken too: what it does is undone
    when B is fenced, or when its next life registers. From the registration on only a proposal that carries
    the new generation is good; one with the old generation is refused, whether B is fenced by then or not.
    Without the rule that last one puts a replica in the ISR that has not fetched a single record.
    """
    world = story.world
    first = up_to_the_proposal(story)
    story.say("before the reboot: the proposal is good")
    story.release(first)
    story.until_isr(A, B)
    orange = falls_out_and_catches_up(story, b"second")
    story.crash(B)
    story.say("B is down and nobody has noticed: the proposal may be taken")
    story.release(orange)
    story.until_isr(A, B)
    story.until_fenced(B)
    story.must(story.isr() == [A], "the proposal outlived the life that it was made for")
    story.say("it is undone when B is fenced, or registers again")
    story.restart(B)
    story.until_isr(A, B)
    late = falls_out_and_catches_up(story, b"third")
    story.say("the next proposal is under way while B goes down with its disk", A)
    story.crash(B, WIPE)
    story.until_fenced(B)
    world.cut(A, B)
    former = world.generation(B)
    story.restart(B)
    story.until_new_life(B, former)
    story.say("after the registration: a proposal for the life before is not good any more")
    story.release(late)
    story.run(50)
    story.say("B fetches in its new life, and the proposal with the new generation is good")
    story.mend(A, B)
    story.until_isr(A, B)
    story.must_heal()


@scenario(
    "last-replica-standing",
    "KIP-903, its exception",
    guard="nothing: the document leaves it open (KIP-966 came later)",
    harm="the stated exception",
    loses_anyway=True,
    brokers=2,
    shows={"AlterPartitionRequest"},
)
def last_replica_standing(story: Story) -> None:
    """The only member of the ISR loses its disk and leads again.

    B is down, A is alone in the ISR and takes a record. A loses power before the record is on its disk. An
    ISR is never empty, so A stays the only member, and when it comes back it is elected: there is nobody
    else, and nothing says what it lost. KIP-903 states this exception and leaves it as it is. The
    simulator's checker states it too: it counts the case and forgives exactly what was lost.
    min.insync.replicas of 2 keeps acknowledged records out of it.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B))
    story.watch()
    story.write(A, "orders", b"first")
    world.flush(A)
    story.crash(B)
    story.until_isr(A)
    story.say("A is alone in the ISR and takes a record", A)
    story.write(A, "orders", b"lost")
    story.crash(A, LOSE)
    story.until_fenced(A)
    story.restart(A)
    story.until_led_by(A)
    story.say(f"A leads again; its log has {len(client.log_of(world, A, 'orders'))} of 2 records", A)
    story.restart(B)
    story.must_heal()

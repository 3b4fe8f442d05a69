"""KIP-903: a replica that lost its disk must not come back into an ISR by a request for its former life."""

from __future__ import annotations

from epoka.sim import client
from epoka.sim.scenarios.story import WIPE, Story, scenario

A, B = 1, 2


@scenario(
    "kip-903-six-steps",
    "KIP-903",
    rules=("isr.generation",),
    harm="2: ISR members have everything",
    brokers=2,
    shows={"AlterPartitionRequest", "AlterPartitionResponse", "BrokerRegistrationResponse"},
)
def six_steps(story: Story) -> None:
    """A replaced disk walks into the ISR on a request for the life before.

    A leads, B has caught up, and A asks the controller to take B into the ISR. The request is slow. Meanwhile
    B dies, the controller fences it (there is nothing to do: B is in no ISR), and B comes back with an empty
    disk and a new generation. Only now does the request arrive. It names B, and B is alive: but it speaks of
    the life that is over. With the generation of each member in the request the controller sees that and
    refuses. Without it an empty log is in sync, and the next failure of A loses everything.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B), min_insync_replicas="1")
    world.cut(A, B)
    story.until(story.isr_is(A))
    story.watch()
    story.say("B has fallen out of the ISR; A takes a record that B must not lose later", A)
    story.write(A, "orders", b"precious")
    proposal = story.hold("AlterPartitionRequest", sender=A)
    story.heal_links()
    story.await_held(proposal)
    story.say("1: B has caught up, A proposes it for the ISR; the request is slow", A)
    story.say("2: B fails hard", B)
    story.crash(B, WIPE)
    story.until(story.fenced(B))
    story.say("3: the controller fences B and has nothing to do for this partition")
    # The new life must not fetch before the old request is in, or it would catch up honestly.
    world.cut(A, B)
    before = world.generation(B)
    story.say("4: B is back, with a disk that was replaced", B)
    story.restart(B)
    story.until(lambda: world.generation(B) > before and not story.fenced(B)())
    story.say("5: the controller has seen the registration of the new life")
    story.say("6: the proposal arrives")
    story.release(proposal)
    story.run(50)
    story.must_heal()

"""Bugs that Kafka has had around the five documents, each as the schedule that shows it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from epoka.broker.following import Asked, Fetcher
from epoka.broker.leadership import Follower
from epoka.controller import registration
from epoka.controller.decision import Decision
from epoka.controller.state import ControllerState
from epoka.model.ids import BrokerEpoch
from epoka.model.image import register_broker_record
from epoka.sim import client
from epoka.sim.scenarios.story import DEMANDED, LOSE, WIPE, Story, scenario
from epoka.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

A, B, C = 1, 2, 3


# KAFKA-15221.


def _mixes_two_lives(stack: ExitStack) -> None:
    """The leader keeps the offset of one fetch and the generation of another."""
    fetched = Follower.fetched

    def mixed(self: Follower, broker_epoch: int, offset: int, leader_end: int, now: int) -> None:
        fetched(self, broker_epoch, max(offset, self.end_offset), leader_end, now)

    stack.enter_context(patch.object(Follower, "fetched", mixed))


@scenario(
    "kafka-15221",
    "KAFKA-15221",
    guard="offset and generation of a fetch are taken in together",
    mutant=_mixes_two_lives,
    harm="2: ISR members have everything",
    brokers=2,
    shows={"AlterPartitionRequest", "AlterPartitionResponse", "FetchRequest"},
    settings={"replica_fetch_wait_max_ms": 500},
)
def two_lives_in_one_follower(story: Story) -> None:
    """The leader takes "caught up" from one life of a follower and "generation matches" from the next.

    Whether a follower may join is two questions: has it caught up, and is the generation of its fetch the one
    in the metadata? Kafka answered them from state that a fetch could change in between. A fetch of the old
    life says that B has everything; B comes back empty; the first fetch of the new life brings the right
    generation. Put together they make a proposal that every check lets through, for an empty log. When offset
    and generation change only together, the first fetch of the new life also says that B has nothing.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B))
    world.cut(A, B)
    story.write(A, "orders", b"precious")
    proposal = story.hold("AlterPartitionRequest", sender=A)
    world.mend(A, B)
    story.await_held(proposal)
    story.watch()
    story.say("B has caught up with its fetches; the proposal to add it is slow", A)
    story.crash(B, WIPE)
    story.until_fenced(B)
    world.cut(A, B)
    former = world.generation(B)
    story.restart(B)
    story.until_new_life(B, former)
    story.release(proposal)
    story.run(10)
    answers = story.hold("FetchResponse", to=B)
    story.say("the proposal was for the life before; now the new life fetches", B)
    story.mend(A, B)
    story.run(20)
    answers.release()
    story.must_heal()


# KAFKA-16952.


def _bumps_the_epoch(stack: ExitStack) -> None:
    """A life that registers again gets another generation, as it did before Kafka 3.9."""
    registers = registration.on_broker_registration

    def bumping(state: ControllerState, request: BrokerRegistrationRequest, now: int) -> Decision:
        known = state.image.broker(request.broker_id)
        if known is None or known.incarnation != request.incarnation_id:
            return registers(state, request, now)
        epoch = BrokerEpoch(state.next_offset)
        again = registration._registration(request, epoch, known.fenced, known.in_controlled_shutdown)
        return Decision(
            BrokerRegistrationResponse(broker_epoch=epoch),
            [register_broker_record(again)],
            rule="registration.incarnation",
            because="the same life registered again",
        )

    stack.enter_context(patch.object(registration, "on_broker_registration", bumping))


@scenario(
    "kafka-16952",
    "KAFKA-16952",
    guard="a life that registers again keeps its generation (registration.incarnation)",
    mutant=_bumps_the_epoch,
    harm=DEMANDED,
    shows={"BrokerRegistrationRequest", "BrokerRegistrationResponse"},
    settings={"request_timeout_ms": 300},
)
def registered_twice(story: Story) -> None:
    """A registration that arrives twice takes the broker's generation away from it.

    A starting broker registers; the request is slow, so it asks again and is let in. Then the first request
    arrives after all. It is from the same life, and nobody waits for its answer any more. If the controller
    gives that life a new generation, the broker does not learn of it: each of its heartbeats, fetches and
    proposals is stale from now on. The same life must keep its generation however often it registers.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B, C))
    story.watch()
    story.crash(C)
    story.until_fenced(C)
    former = world.generation(C)
    slow = story.hold("BrokerRegistrationRequest", sender=C, most=1)
    story.restart(C)
    story.await_held(slow)
    story.say("the registration is slow; the broker tries again", C)
    story.until_new_life(C, former)
    story.say("the first request arrives after all")
    story.release(slow)
    story.run(5)
    own = world.broker(C).lifecycle.broker_epoch
    story.must(
        world.generation(C) == own,
        f"broker 3 lives as generation {own}, and the controller knows it as {world.generation(C)}",
    )
    story.must_heal()


# KAFKA-18991.


def _takes_any_answer(stack: ExitStack) -> None:
    """An answer counts whatever has happened since it was asked for."""
    take = Fetcher._take

    def taking(self: Fetcher, question: Asked, answer: Any, now: int) -> bool:
        question.leader_epoch = question.replica.leader_epoch
        question.offset = question.replica.log.end_offset
        self.members[question.replica.key] = question.replica
        return take(self, question, answer, now)

    stack.enter_context(patch.object(Fetcher, "_take", taking))


@scenario(
    "kafka-18991",
    "KAFKA-18991",
    guard="an answer counts only for the leader epoch and offset it was asked with",
    mutant=_takes_any_answer,
    harm="2: ISR members have everything",
    shows={"FetchResponse"},
)
def an_old_truncation(story: Story) -> None:
    """An answer from the last leader but one cuts committed records from a follower's log.

    Broker 1 led, wrote something that nobody else got, and is a follower now. It asks broker 2, the new
    leader, who answers: your log diverges, cut it. The answer is slow. Broker 2 falls silent, broker 3
    leads; broker 1 asks it, cuts what diverges, takes a new record and is in sync: the record is committed.
    Then the old answer arrives. It was right when it was given; obeyed now it cuts the committed record. An
    answer must be tied to the leader epoch and the offset it was asked with.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B, C))
    story.watch()
    story.write(A, "orders", b"first")
    story.run(20)
    world.cut(A, B)
    world.cut(A, C)
    story.say("broker 1 writes a record that nobody else gets", A)
    story.write(A, "orders", b"stray", acks=1)
    story.crash(A)
    world.mend(A, B)
    world.mend(A, C)
    story.until_led_by(B)
    old = story.hold("FetchResponse", sender=B, to=A, most=1)
    story.restart(A)
    story.await_held(old)
    story.say("broker 2 answers that the log diverges; the answer is slow", B)
    story.pause(B)
    story.until_led_by(C)
    story.until("broker 1 is in sync with broker 3", lambda: {A, C} <= set(story.isr()))
    story.write(C, "orders", b"second")
    story.run(400)
    story.say("broker 1 has the new record; now the old answer arrives", A)
    story.release(old)
    story.run(10)
    story.resume(B)
    story.must_heal()


# The hole that the documents leave.


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

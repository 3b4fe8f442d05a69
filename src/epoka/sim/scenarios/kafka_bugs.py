"""Bugs that Kafka has had around the five documents, each as the schedule that shows it."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from epoka import fencing
from epoka.broker.leadership import Follower, Leadership
from epoka.controller import alter_partition, registration
from epoka.controller.decision import Decision
from epoka.controller.state import ControllerState
from epoka.model.ids import BrokerEpoch
from epoka.model.image import register_broker_record
from epoka.model.levels import FeatureLevel
from epoka.sim import client
from epoka.sim.keeper import ADDRESS as SERVICE
from epoka.sim.mutants import MUTANTS
from epoka.sim.scenarios.story import (
    CONTROLLER,
    CONVERGED,
    DEMANDED,
    FAULT,
    WIPE,
    ZOOKEEPER,
    Story,
    scenario,
)
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

A, B, C = 1, 2, 3


# KAFKA-9839.


def _refuses_greater(stack: ExitStack) -> None:
    """A generation above the broker's own is as wrong as one below it."""
    judge = fencing.control.generation

    def strict(given_epoch: int, own_epoch: int) -> fencing.Verdict:
        if given_epoch > own_epoch >= 0:
            return fencing.Verdict(
                "control.generation",
                False,
                ErrorCode.STALE_BROKER_EPOCH,
                str(given_epoch),
                str(own_epoch),
                "no such generation is known here",
            )
        return judge(given_epoch, own_epoch)

    stack.enter_context(patch.object(fencing.control, "generation", strict))


@scenario(
    "kafka-9839",
    "KAFKA-9839",
    guard="a generation above the broker's own is accepted (control.generation)",
    mutant=_refuses_greater,
    harm=CONVERGED,
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    shows={"LeaderAndIsrRequest", "UpdateMetadataRequest"},
)
def the_controller_knows_first(story: Story) -> None:
    """The controller knows a broker's new generation before the broker does.

    Broker 3 loses its session and registers again; the process lives on. The controller reads the registry
    at once and sends everything that a new life needs, with the new generation. Broker 3 has not been told
    yet that it has one. Kafka took a generation above its own for impossible and threw the request away,
    and since the controller does not send it twice, the broker never heard of its partitions again. The
    request is not stale: it is early. It must be obeyed.
    """
    world = story.world
    client.create_topic(world, "orders", (1, 2, 3))
    story.run(50)
    story.watch()
    former = world.generation(3)
    world.unregistered[3] = None
    process, keeper = world.process_at(3), world.keeper
    assert process is not None and keeper is not None
    world.write(FAULT, "loses its session and gets another one", 3)
    keeper.expire(process)
    story.until("the controller knows the new generation", lambda: world.generation(3) > former)
    made = world.ask(2, client.create_request("payments", ((3, 1, 2),)), client.CREATE_VERSION)
    story.until("a topic is made that broker 3 is to lead", lambda: made.done)
    story.run(20)
    story.say("only now does broker 3 hear of its own registration", 3)
    world.tell_registered(3)
    story.must_heal(5_000)


# KAFKA-14144.


def _never_twice(stack: ExitStack) -> None:
    """A proposal that has been taken is refused when it comes again, and news of its own partition are lost
    on a leader, as they were in Kafka's zookeeper mode. Either of the two alone does no harm."""
    stack.enter_context(patch.object(alter_partition, "_already_so", lambda *_: False))
    stack.enter_context(patch.object(Leadership, "adopt", lambda *_: False))


@scenario(
    "kafka-14144",
    "KAFKA-14144",
    guard="a proposal for what is already so is accepted again; metadata settle it too",
    mutant=_never_twice,
    harm=CONVERGED,
    mode=ZOOKEEPER,
    shows={"AlterPartitionRequest", "AlterPartitionResponse"},
    settings={"request_timeout_ms": 400},
)
def a_lost_answer(story: Story) -> None:
    """The answer to an ISR change is lost, and the leader is refused ever after.

    The leader proposes an ISR, the controller takes it, and the answer is lost. In zookeeper mode nothing
    else tells the leader of the new partition epoch, so it proposes the same again, with the old one. A
    controller that answers INVALID_UPDATE_VERSION tells it to wait for news that never come: the leader can
    neither grow nor shrink its ISR until somebody changes the leader. What is asked for is what is, so the
    answer is yes.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B, C))
    story.watch()
    story.cut(A, C)
    story.say("broker 3 falls behind and leaves the ISR", A)
    story.write(A, "orders", b"first")
    lost = story.hold("AlterPartitionResponse", to=A, most=1)
    story.mend(A, C)
    story.await_held(lost)
    story.say("the controller has taken broker 3 into the ISR; its answer is lost")
    story.run(1_000)
    story.must_heal(5_000)


# KAFKA-14154.


@scenario(
    "kafka-14154",
    "KAFKA-14154",
    rules=("isr.ahead",),
    harm=CONVERGED,
    mode=ZOOKEEPER,
    controllers=2,
    shows={"AlterPartitionRequest", "AlterPartitionResponse", "LeaderAndIsrRequest"},
)
def a_controller_of_the_past(story: Story) -> None:
    """A leader asks a controller that does not know that it has been replaced.

    The controller loses its session without noticing. Another one takes over, broker 1 fails, and broker 2
    is elected in a new leader epoch. Broker 2 still has a connection to the old controller and proposes an
    ISR there. The old one knows broker 1 as leader and an older epoch. If it answers as if it knew best,
    broker 2 takes the refusal for final and waits for metadata that are not coming. But a leader that knows
    more than the controller shows that the controller is the one who is behind: NOT_CONTROLLER, ask
    another.
    """
    world = story.world
    client.create_topic(world, "orders", (A, B, C))
    story.write(A, "orders", b"first")
    story.run(50)
    story.watch()
    former = world.address_of(CONTROLLER)
    world.write(FAULT, "loses its session and does not know it", former)
    world.network.cut(former, SERVICE)
    story.until("another controller is in office", lambda: world.address_of(CONTROLLER) != former)
    world.misled[B] = former
    story.bounce(A)
    story.until_led_by(B)
    story.say("broker 1 catches up; broker 2 proposes it to the controller it knows", B)
    story.until("the proposal is on its way", lambda: B not in world.misled)
    story.run(100)
    story.must_heal(5_000)


# KAFKA-15221.


def _mixes_two_lives(stack: ExitStack) -> None:
    """The leader keeps the offset of one fetch and the generation of another."""
    fetched = Follower.fetched

    def mixed(self: Follower, broker_epoch: int, offset: int, *rest: int) -> None:
        fetched(self, broker_epoch, max(offset, self.end_offset), *rest)

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
    restated_by="15:",
    harm=DEMANDED,
    shows={"BrokerRegistrationRequest", "BrokerRegistrationResponse"},
    settings={"request_timeout_ms": 300},
)
def registered_twice(story: Story) -> None:
    """A registration that arrives twice takes the broker's generation away from it.

    A starting broker registers; the request is slow, so it asks again and is let in. Then the first request
    arrives after all. It is from the same life, and nobody waits for its answer any more. If the controller
    gives that life a new generation, the broker does not learn of it: its fetches and proposals are refused
    until a heartbeat is, too, and it registers once more. All that time it is in the ISR and cannot follow,
    and a write with acks=all does not get its answer in time. The same life must keep its generation however
    often it registers.
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
    story.until_isr(A, B, C)
    story.say("broker 3 is in sync again; the first request arrives after all")
    story.release(slow)
    story.run(5)
    answer = story.write(A, "orders", b"first", timeout_ms=200)
    story.must(
        answer == ErrorCode.NONE, f"a write with acks=all waits for broker 3: {answer.name} after 200 ms"
    )
    story.must_heal()


# KAFKA-18991.


@scenario(
    "kafka-18991",
    "KAFKA-18991",
    guard="an answer counts only for the leader epoch and the log that it was asked with",
    mutant=MUTANTS["untied-fetch-answers"].patch,
    harm="2: ISR members have everything",
    shows={"FetchResponse"},
)
def an_old_truncation(story: Story) -> None:
    """An answer from the last leader but one cuts committed records from a follower's log.

    Broker 1 led, wrote something that nobody else got, and is a follower now. It asks broker 2, the new
    leader, who answers: your log diverges, cut it. The answer is slow. Broker 2 falls silent, broker 3
    leads; broker 1 asks it, cuts what diverges, takes a new record and is in sync: the record is committed.
    Then the old answer arrives. It was right when it was given; obeyed now it cuts the committed record. An
    answer must be tied to the leader epoch and the log that it was asked with.
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

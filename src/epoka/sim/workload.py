"""Clients: three kinds of producers, consumers, and an operator.

Clients learn who leads from whichever broker they last heard of, rightly or not, and try again when they were
wrong. A plain producer sends each value once; an idempotent one goes on until it is acknowledged, with one or
several values of a partition on their way, and its order is a promise. Consumers read every partition from
its beginning and never go back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.model.events import CONTROLLER
from epoka.model.levels import FeatureLevel
from epoka.sim import client
from epoka.sim.checkers import Checkers
from epoka.sim.history import DEFINITE, History, Sent
from epoka.sim.nemesis import STRANGER
from epoka.sim.oracle import Key
from epoka.sim.steps import Step
from epoka.wire import records
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from epoka.sim.process import Process
    from epoka.sim.world import World

ALL, LEADER = -1, 1
RETRY_MS = 25
POLL_MS = 120
TIMEOUT_MS = 600
PLAIN, IDEMPOTENT, ONE = 0, 1, 2
PRODUCERS = (PLAIN, IDEMPOTENT, ONE)
LANES = 10
FORGOTTEN = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Answers of a broker that does not know what a producer has sent before."""


class Line:
    """What an idempotent producer has under way for one partition, in the order of its sequences."""

    __slots__ = ("again", "in_flight", "sent")

    def __init__(self) -> None:
        self.sent: dict[bytes, UnderWay] = {}
        self.in_flight = 0
        self.again = False
        """Something was refused or lost: when nothing is in flight any more, all of it is sent again."""

    def takes(self, producer_id: int, sequence: int, window: int) -> bool:
        """Whether one more may go: a broker knows the last five batches of a producer, and no more."""
        first = next(iter(self.sent.values()), None)
        return first is None or (
            not self.again and first.producer_id == producer_id and sequence - first.base_sequence < window
        )


class UnderWay(msgspec.Struct, frozen=True):
    """One value under way: a retry is the same batch, whatever the producer is by then."""

    sent: Sent
    producer_id: int
    producer_epoch: int
    base_sequence: int


class Producer:
    """One client that writes."""

    def __init__(self, load: Workload, number: int) -> None:
        self.load = load
        self.number = number
        self.acks = LEADER if number == ONE else ALL
        self.idempotent = number == IDEMPOTENT
        self.process = load.stranger(1001 + number)
        self.waiting: deque[Sent] = deque()
        self.lines: dict[Key, Line] = {}
        self.guess: dict[Key, int] = {}
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[Key, int] = {}
        self._asking = False

    def send(self, sent: Sent) -> None:
        if self.idempotent:
            self.waiting.append(sent)
            self.pump()
        else:
            self._put(sent, {}, lambda broker, answer: self._decided(sent, broker, answer))

    # Once, whatever becomes of it.

    def _decided(self, sent: Sent, broker: int, answer: Any) -> None:
        error, offset = self._outcome(broker, answer)
        if error is ErrorCode.NONE:
            self.load.history.acknowledged(sent, offset)
        else:
            self.guess.pop(sent.key, None)
            sent.failed = error in DEFINITE

    # Until it is acknowledged.

    def pump(self) -> None:
        """Send what may go: of every partition as much as may be under way."""
        if self.producer_id < 0:
            self._ask_for_id()
            return
        for sent in list(self.waiting):
            line = self.lines.setdefault(sent.key, Line())
            sequence = self.sequences.get(sent.key, 0)
            if line.takes(self.producer_id, sequence, self.load.in_flight):
                self.waiting.remove(sent)
                self.sequences[sent.key] = sequence + 1
                batch = UnderWay(sent, self.producer_id, self.producer_epoch, sequence)
                line.sent[sent.value] = batch
                self._attempt(batch, line)

    def _ask_for_id(self) -> None:
        if self._asking:
            return
        self._asking = True
        self.load.world.ask(
            self.load.any_broker(),
            InitProducerIdRequest(),
            4,
            client=self.process,
            lane=LANES,
            timeout_ms=TIMEOUT_MS,
            then=self._got_id,
        )

    def _got_id(self, answer: Any) -> None:
        self._asking = False
        if answer is None or answer.error_code != ErrorCode.NONE:
            self.load.world.later(RETRY_MS, self.pump)
            return
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        self.pump()

    def _attempt(self, batch: UnderWay, line: Line) -> None:
        line.in_flight += 1
        about = {
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
        }
        self._put(batch.sent, about, lambda broker, answer: self._answered(batch, line, broker, answer))

    def _answered(self, batch: UnderWay, line: Line, broker: int, answer: Any) -> None:
        load, sent = self.load, batch.sent
        error, offset = self._outcome(broker, answer)
        line.in_flight -= 1
        first = next(iter(line.sent), None)
        if error is ErrorCode.NONE:
            load.history.acknowledged(sent, offset)
            line.sent.pop(sent.value, None)
        else:
            self.guess.pop(sent.key, None)
            line.again = True
            if error in FORGOTTEN and first == sent.value and load.leads(broker, sent.key):
                # Only a loss can make a leader forget us; whether it may have is the checker's question.
                load.sequence_lost(sent, broker, error)
                for lost in line.sent.values():
                    lost.sent.idempotent = False
                line.sent.clear()
                self.producer_id = -1
        if sent.key not in load.places:
            line.sent.clear()
        if not line.in_flight and line.again:
            load.world.later(RETRY_MS, self._again, sent.key)
        self.pump()

    def _again(self, key: Key) -> None:
        line = self.lines[key]
        if line.in_flight or not line.again:
            return
        line.again = False
        if key not in self.load.places:
            line.sent.clear()
        for batch in list(line.sent.values()):
            self._attempt(batch, line)
        self.pump()

    # Both.

    def _put(self, sent: Sent, about: dict[str, int], then: Callable[[int, Any], None]) -> None:
        load = self.load
        place = load.places.get(sent.key)
        if place is None:
            return
        sent.attempts += 1
        request = client.produce_request(
            *place, client.batch([sent.value], **about), self.acks, TIMEOUT_MS - 100
        )
        broker = load.leader_of(sent.key, self.guess)
        load.world.ask(
            broker,
            request,
            client.PRODUCE_VERSION,
            client=self.process,
            lane=0,
            timeout_ms=TIMEOUT_MS,
            then=lambda answer: then(broker, answer),
        )

    def _outcome(self, broker: int, answer: Any) -> tuple[ErrorCode, int]:
        if answer is None:
            return ErrorCode.NETWORK_EXCEPTION, -1
        part = answer.responses[0].partition_responses[0]
        error = ErrorCode.of(part.error_code)
        if error is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.load.checkers.fail(
                "12: only listed refusals", f"broker {broker} answered a produce with {error.name}"
            )
        return error, part.base_offset

    @property
    def owed(self) -> list[Sent]:
        """What has no answer yet."""
        return [batch.sent for line in self.lines.values() for batch in line.sent.values()] + list(
            self.waiting
        )


class Consumer:
    """One client that reads every partition."""

    def __init__(self, load: Workload, number: int) -> None:
        self.load = load
        self.process = load.stranger(1011 + number)
        self.positions: dict[Key, int] = {}
        self.guess: dict[Key, int] = {}
        self.polling: dict[Key, None] = {}

    def poll(self) -> None:
        for key in self.load.places:
            self.fetch(key)
        self.load.world.later(POLL_MS, self.poll)

    def fetch(self, key: Key, wait_ms: int = 0) -> None:
        load = self.load
        if key in self.polling:
            return
        self.polling[key] = None
        topic, index = load.places[key]
        broker = load.leader_of(key, self.guess)
        position = self.positions.get(key, 0)
        load.world.ask(
            broker,
            client.fetch_request(topic, index, position, wait_ms),
            client.FETCH_VERSION,
            client=self.process,
            lane=LANES + index,
            timeout_ms=TIMEOUT_MS,
            then=lambda answer: self.answered(key, position, broker, answer),
        )

    def answered(self, key: Key, position: int, broker: int, answer: Any) -> None:
        load = self.load
        self.polling.pop(key, None)
        if answer is None or key not in load.places or self.positions.get(key, 0) != position:
            self.guess.pop(key, None)
            return
        part = answer.responses[0].partitions[0]
        if part.error_code != ErrorCode.NONE:
            self.guess.pop(key, None)
            if part.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                load.checkers.fail("12: only listed refusals", f"broker {broker} answered a fetch with -1")
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                load.out_of_range(self, key, position, broker)
            return
        if part.records:
            self.positions[key] = load.read(key, position, part)


class Workload:
    def __init__(
        self, world: World, checkers: Checkers, history: History, rng: Random, in_flight: int = 1
    ) -> None:
        self.in_flight = in_flight
        """How many batches of a partition an idempotent producer may have under way."""
        self.world = world
        self.checkers = checkers
        self.history = history
        self.rng = rng
        self.places: dict[Key, tuple[str, int]] = {}
        """Partitions that exist as far as clients know."""
        self.counts: dict[str, int] = {}
        self.producers = [Producer(self, number) for number in PRODUCERS]
        self.consumer = Consumer(self, 0)
        self.latecomer = Consumer(self, 1)
        """Begins when all is well, and reads everything from the beginning."""
        checkers.oracle.on_excused = self.excused
        self._values = 0
        self._side_topics = 0

    def stranger(self, address: int) -> Process:
        found = self.world.process_at(address)
        return found if found is not None else self.world.stranger(address)

    def adopt_topic(self, name: str) -> None:
        """Clients know a topic that exists."""
        image = self.world.controller.image
        topic = image.topic(name)
        assert topic is not None
        for index, _ in image.partitions_of(topic.id):
            self.places[topic.id, index] = (name, index)

    def start(self) -> None:
        self.consumer.poll()

    def read_again(self) -> None:
        self.latecomer.poll()

    # Whom to ask.

    def any_broker(self) -> int:
        ids = [address for address in self.world.machines if address < STRANGER]
        return ids[int(self.rng.random() * len(ids))]

    def leader_of(self, key: Key, guess: dict[Key, int]) -> int:
        """What the client remembers, or what some broker would tell it."""
        found = guess.get(key)
        if found is None:
            told_by = self.world.process_at(self.any_broker())
            topic, index = self.places[key]
            state = None if told_by is None else told_by.core.image.partition(topic, index)
            found = state.leader if state is not None and state.leader >= 0 else self.any_broker()
            guess[key] = found
        return found

    # Steps.

    def do(self, step: Step) -> None:
        getattr(self, "_" + step.kind.replace("-", "_"))(step)
        self.counts[step.kind] = self.counts.get(step.kind, 0) + 1

    def _produce(self, step: Step) -> None:
        """`salt` chooses the partition, `ms` the producer."""
        if not self.places:
            return
        keys = list(self.places)
        key = keys[step.salt % len(keys)]
        producer = self.producers[step.ms % len(self.producers)]
        self._values += 1
        value = b"v%d" % self._values
        producer.send(self.history.sends(value, key, producer.number, producer.acks, producer.idempotent))

    def _create_topic(self, step: Step) -> None:
        self._side_topics += 1
        name = f"side-{self._side_topics}"
        ids = sorted(address for address in self.world.machines if address < STRANGER)
        first = step.salt % len(ids)
        replicas = (ids + ids)[first : first + 3]
        self._ask(client.create_request(name, (replicas,), min_insync_replicas="2"), client.CREATE_VERSION)

    def _delete_topic(self, step: Step) -> None:
        name = f"side-{self._side_topics}"
        for key in [key for key, place in self.places.items() if place[0] == name]:
            del self.places[key]
            self.history.forget(key)
        self._ask(client.delete_request(name), client.DELETE_VERSION)

    def _use_side_topic(self, step: Step) -> None:
        """Clients hear of the newest topic, if it exists."""
        name = f"side-{self._side_topics}"
        topic = self.checkers.truth.topic(name)
        if topic is not None:
            for index, _ in self.checkers.truth.partitions_of(topic.id):
                self.places[topic.id, index] = (name, index)

    def _reassign(self, step: Step) -> None:
        """Another order, and where there is a fourth broker another set."""
        places = [place for place in self.places.values() if place[0] == "t"]
        if not places:
            return
        topic, index = places[step.salt % len(places)]
        ids = sorted(address for address in self.world.machines if address < STRANGER)
        first = (step.salt // 7) % len(ids)
        replicas = (ids + ids)[first : first + 3]
        self._operate(client.reassign_request(topic, index, replicas), 0)

    def _cancel_reassign(self, step: Step) -> None:
        places = list(self.places.values())
        if places:
            topic, index = places[step.salt % len(places)]
            self._operate(client.reassign_request(topic, index, None), 0)

    def _elect(self, step: Step) -> None:
        """The preferred replicas are to lead again."""
        self._operate(client.elect_request(), 2)

    def _climb(self, step: Step) -> None:
        self._operate(client.climb_request(FeatureLevel(step.ms)), 1)

    def _ask(self, request: Any, version: int) -> None:
        self.world.ask(self.any_broker(), request, version, timeout_ms=TIMEOUT_MS)

    def _operate(self, request: Any, version: int) -> None:
        self.world.ask(CONTROLLER, request, version, control=True, timeout_ms=TIMEOUT_MS)

    # What clients see.

    def read(self, key: Key, position: int, part: Any) -> int:
        """Check what a consumer got; its next position."""
        content = memoryview(bytes(part.records))
        committed = self.checkers.oracle.committed(key)
        for at, header in records.headers(content):
            if header.next_offset <= position:
                self.checkers.fail(
                    "nonmonotonic-poll", f"a consumer at {position} got offset {header.base_offset} again"
                )
            batch = committed.at(header.base_offset)
            if (
                batch is None or batch.crc != header.crc or batch.epoch != header.partition_leader_epoch
            ) and not self._was_excused(key, header.base_offset):
                self.checkers.fail(
                    "7: readers see what is committed",
                    f"a consumer got offset {header.base_offset} of epoch {header.partition_leader_epoch}; "
                    f"committed there: {batch}",
                )
            for record in records.decode_batch(content, at, header):
                if record.offset < position:
                    continue
                if record.offset != position:
                    self.checkers.fail("poll-skip", f"a consumer was led from {position} to {record.offset}")
                wrong = self.history.reads(key, record.offset, bytes(record.value or b""))
                if wrong is not None and not self._was_excused(key, record.offset):
                    self.checkers.fail(wrong.split(":")[0], wrong)
                position = record.offset + 1
        return position

    def _was_excused(self, key: Key, offset: int) -> bool:
        from_ = self.checkers.oracle.committed(key).excused_from
        return from_ is not None and offset >= from_

    def excused(self, key: Key, offset: int) -> None:
        self.history.excuse(key, offset)
        for consumer in (self.consumer, self.latecomer):
            if consumer.positions.get(key, 0) > offset:
                consumer.positions[key] = offset

    def leads(self, broker: int, key: Key) -> bool:
        """Whether that broker leads in the present epoch. One that was replaced may know less."""
        state = self.checkers.truth.partition(*key)
        process = self.world.process_at(broker)
        if state is None or process is None or state.leader != broker:
            return False
        replica = self.checkers.replica(process, key)
        return replica is not None and replica.leader_epoch == state.leader_epoch

    def out_of_range(self, consumer: Consumer, key: Key, position: int, broker: int) -> None:
        committed = self.checkers.oracle.committed(key)
        if committed.excused_from is None and position <= committed.end and self.leads(broker, key):
            self.checkers.fail(
                "lost-write", f"the leader {broker} has nothing at offset {position}, which was read"
            )

    def sequence_lost(self, sent: Sent, broker: int, error: ErrorCode) -> None:
        if self.checkers.oracle.committed(sent.key).excused_from is None:
            self.checkers.fail(
                "duplicate", f"broker {broker} forgot the sequence of {sent.value!r}: {error.name}"
            )

    # The end.

    def idle(self) -> str | None:
        """What clients still wait for."""
        waiting = [sent for sent in self.producers[IDEMPOTENT].owed if sent.key in self.places]
        return f"{waiting[0].value!r} is not acknowledged" if waiting else None

    def read_everything(self) -> bool:
        """Whether both consumers have read all that is committed."""
        return all(
            consumer.positions.get(key, 0) >= self.checkers.oracle.committed(key).end
            for consumer in (self.consumer, self.latecomer)
            for key in self.places
        )

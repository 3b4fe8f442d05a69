"""Rules taken away one at a time, in the simulator alone, to see whether anything notices.

Every rule of `fencing/` is a mutant: it is switched off by its name. The others are patches: a core without
one of its habits, for as long as a context lasts. A mutant that nothing notices alone is covered by others:
it belongs to a `pair`, which is noticed in a run that every part of it, put back alone, would have saved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import msgspec

from epoka.broker import following, leadership, metadata_feed, replicas, waiting
from epoka.broker.api import fetch as fetch_api
from epoka.broker.api import produce as produce_api
from epoka.broker.core import BrokerCore
from epoka.broker.isr_changes import IsrChanges
from epoka.broker.pipelines import Pipelines
from epoka.broker.replica import Replica
from epoka.controller import (
    alter_partition,
    controlled_shutdown,
    elections,
    partition_change,
    push,
    registration,
    registry_mode,
)
from epoka.controller.decision import Decision
from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.coordination.metadata_log import encode_batch as encode_metadata_batch
from epoka.fencing import RULES
from epoka.log.producers import ProducerStates
from epoka.model.levels import FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.metadata_records import RegisterBrokerRecord

if TYPE_CHECKING:
    from epoka.sim.world import World

LOG, ZOOKEEPER = "log", "zookeeper"


class Mutant(msgspec.Struct, frozen=True):
    name: str
    about: str
    """What is missing, in a sentence."""
    profile: str
    """The bias that aims at it."""
    mode: str = LOG
    level: FeatureLevel | None = None
    """Where it has to be looked for; None: the highest."""
    document: str = ""
    without: tuple[str, ...] = ()
    """Fencing rules that are off."""
    patch: Callable[[ExitStack], None] | None = None
    world: Callable[[World], None] | None = None
    parts: tuple[str, ...] = ()
    """Of a pair: the mutants that it is made of. Each of them alone saves the run."""
    covered_by: str = ""
    """The pair that it is noticed in, if nothing notices it alone."""


MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(
    name: str, about: str, profile: str, **more: Any
) -> Callable[[Callable[[ExitStack], None]], Callable[[ExitStack], None]]:
    """Enter a patch into the table."""

    def enter(patch: Callable[[ExitStack], None]) -> Callable[[ExitStack], None]:
        MUTANTS[name] = Mutant(name, about, profile, patch=patch, **more)
        return patch

    return enter


def rule_off(name: str, profile: str, **more: Any) -> None:
    MUTANTS[name] = Mutant(name, RULES[name].refuses_when, profile, without=(name,), **more)


def pair(about: str, profile: str, *parts: str, **more: Any) -> None:
    """Several mutants at once, where each alone goes unnoticed because of the others."""
    name = "+".join(parts)
    MUTANTS[name] = Mutant(name, about, profile, parts=parts, **more)


@contextlib.contextmanager
def applied(names: Sequence[str]) -> Iterator[None]:
    """The cores as they are without those rules, for as long as the context lasts."""
    with ExitStack() as stack:
        for each in _single(names):
            if each.patch is not None:
                each.patch(stack)
        yield


def set_up(world: World, names: Sequence[str]) -> None:
    """What a mutant changes in the world rather than in the cores."""
    for each in _single(names):
        if each.world is not None:
            each.world(world)


def rules_off(names: Sequence[str]) -> tuple[str, ...]:
    """The fencing rules that these mutants switch off."""
    return tuple(rule for each in _single(names) for rule in each.without)


def _single(names: Sequence[str]) -> list[Mutant]:
    """The mutants of those names, pairs taken apart."""
    found = [MUTANTS[name] for name in names]
    return [MUTANTS[part] for each in found for part in each.parts or (each.name,)]


def _replace(stack: ExitStack, where: Any, name: str, new: Any) -> None:
    stack.enter_context(mock.patch.object(where, name, new))


# The rules of fencing/.

rule_off("isr.generation", "stale-join", document="KIP-903")
rule_off("isr.eligible", "fenced-join", document="KIP-841")
rule_off("leader.eligible", "fast-bounces", document="KIP-841")
rule_off("isr.partition-epoch", "slow-proposals", document="KIP-497")
rule_off(
    "fetch.leader-epoch",
    "zombie-followers",
    document="KIP-320, KAFKA-6880",
    covered_by="fetch.leader-epoch+divergence-asked-once",
)
rule_off("heartbeat.contact", "isolation", document="KIP-343")
rule_off("heartbeat.session", "isolation", document="KIP-343")
rule_off("heartbeat.generation", "late-heartbeats", document="KIP-343")
rule_off("registration.incarnation", "doubles", document="KIP-343")
rule_off("registration.cluster", "strangers")
rule_off(
    "isr.fetched-generation",
    "deaf-newborns",
    document="KIP-903",
    covered_by="isr.fetched-generation+fetch.generation+isr.generation",
)
rule_off("fetch.generation", "late-fetches", document="KAFKA-15221")
rule_off(
    "isr.leader-epoch",
    "regained-leadership",
    document="KIP-497",
    covered_by="isr.leader-epoch+isr.partition-epoch",
)
rule_off(
    "isr.leader",
    "deposed-leaders",
    document="KIP-343",
    covered_by="isr.leader+isr.leader-epoch+isr.partition-epoch",
)
rule_off("isr.ahead", "lost-offices", mode=ZOOKEEPER, document="KAFKA-14154")
rule_off(
    "requester.generation",
    "reborn-leaders",
    level=FeatureLevel.ELIGIBLE_ISR,
    document="KIP-380",
    covered_by="requester.generation+isr.leader-epoch+isr.partition-epoch",
)
rule_off(
    "control.generation",
    "stale-control",
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    document="KIP-380",
)
rule_off("control.max-generation", "stale-control", mode=ZOOKEEPER, document="the cache KIP")
rule_off("control.controller", "zombie-controllers", mode=ZOOKEEPER, document="KIP-380")
rule_off("control.connection", "late-updates", mode=ZOOKEEPER, document="found by the simulator")
rule_off(
    "shutdown.generation",
    "late-shutdowns",
    mode=ZOOKEEPER,
    level=FeatureLevel.GENERATIONS,
    document="KIP-380",
)
rule_off("registry.bounce", "fast-bounces", mode=ZOOKEEPER, document="KIP-380")
rule_off("reply.generation", "disk-replies", mode=ZOOKEEPER, document="KIP-380")

# Rules that are only needed when others are missing.

pair(
    "a follower that has missed two leaderships goes on with records of the third",
    "zombie-followers",
    "fetch.leader-epoch",
    "divergence-asked-once",
    document="KIP-320, KAFKA-6880",
)
pair(
    "a fetch of an earlier life is believed by the leader, and what it proposes by the controller",
    "deaf-newborns",
    "isr.fetched-generation",
    "fetch.generation",
    "isr.generation",
    document="KIP-903",
)
pair(
    "a proposal of an earlier leadership counts, if the same broker leads again",
    "regained-leadership",
    "isr.leader-epoch",
    "isr.partition-epoch",
    document="KIP-497",
)
pair(
    "a proposal of a leader that has been replaced counts",
    "deposed-leaders",
    "isr.leader",
    "isr.leader-epoch",
    "isr.partition-epoch",
    document="KIP-343",
)
pair(
    "a proposal of an earlier life of the leader counts, if it leads again",
    "reborn-leaders",
    "requester.generation",
    "isr.leader-epoch",
    "isr.partition-epoch",
    level=FeatureLevel.ELIGIBLE_ISR,
    document="KIP-380",
)
pair(
    "a refusal is neither taken for one by the leader nor told of by a new partition epoch",
    "fenced-join",
    "never-revert",
    "refusal-without-trace",
    document="KIP-841",
)
pair(
    "that a broker is stopping is written nowhere, and it goes on fetching until it ends",
    "shutdown-failover",
    "stopping-in-memory",
    "fetching-on",
    document="KIP-841",
)


# Habits of the broker.


@mutant(
    "ack-before-high-watermark", "acks=all is answered as soon as the leader has appended", "lossy-leaders"
)
def _ack_before_high_watermark(stack: ExitStack) -> None:
    def answer_now(core: Any, request: Any, done: Any, waits: Any, timeout_ms: int, now: int) -> None:
        core.respond(request, produce_api._response(done))

    _replace(stack, produce_api, "_park", answer_now)


@mutant(
    "high-watermark-of-committed-isr",
    "the high watermark counts the committed ISR alone, not who may already be in it",
    "slow-answers",
    document="KIP-497",
)
def _high_watermark_of_committed_isr(stack: ExitStack) -> None:
    def high_watermark(
        self: Any, leader_end: int, min_isr: int, now: int, lag_time_max_ms: int, eligible: Any
    ) -> int | None:
        if len(self.isr) < min(min_isr, len(self.replicas)):
            return None
        ends: list[int] = [each.end_offset for each in self.followers.values() if each.broker_id in self.isr]
        return min([leader_end, *ends])

    _replace(stack, leadership.Leadership, "maximal_isr", property(lambda self: self.isr))
    _replace(stack, leadership.Leadership, "high_watermark", high_watermark)


@mutant(
    "high-watermark-below-min-isr",
    "the high watermark moves while the ISR is smaller than min.insync.replicas",
    "lossy-leaders",
    document="KAFKA-15583",
)
def _high_watermark_below_min_isr(stack: ExitStack) -> None:
    original = leadership.Leadership.high_watermark

    def high_watermark(
        self: Any, leader_end: int, min_isr: int, now: int, lag_time_max_ms: int, eligible: Any
    ) -> int | None:
        return original(self, leader_end, 0, now, lag_time_max_ms, eligible)

    _replace(stack, leadership.Leadership, "high_watermark", high_watermark)


@mutant(
    "join-without-epoch-start",
    "a follower may join once past the high watermark, though not past the start of the leader epoch",
    "lagging-marks",
    document="KAFKA-7128",
)
def _join_without_epoch_start(stack: ExitStack) -> None:
    original = leadership.Leadership.__init__

    def begin(self: Any, **about: Any) -> None:
        original(self, **about)
        self.start_offset = 0

    _replace(stack, leadership.Leadership, "__init__", begin)


@mutant(
    "truncate-to-high-watermark",
    "a follower cuts its log at its high watermark instead of asking the leader's epochs",
    "role-changes",
    document="KIP-101",
)
def _truncate_to_high_watermark(stack: ExitStack) -> None:
    original = following.Following.follow

    def follow(self: Any, replica: Any, leader_id: int, now: int) -> None:
        if leader_id >= 0:
            replica.log.truncate_to(replica.high_watermark)
        original(self, replica, leader_id, now)

    _replace(stack, following.Following, "follow", follow)


@mutant("no-truncation", "a follower never cuts what diverges", "role-changes", document="KIP-101")
def _no_truncation(stack: ExitStack) -> None:
    _replace(stack, fetch_api, "_divergence", lambda replica, asked: None)


@mutant(
    "divergence-asked-once",
    "a follower says what its last record is until the leader has found nothing wrong, and then no more",
    "zombie-followers",
    document="KIP-279 instead of KIP-595",
    covered_by="fetch.leader-epoch+divergence-asked-once",
)
def _divergence_asked_once(stack: ExitStack) -> None:
    original = following.Fetcher._take
    last_epoch: Callable[[Any], int] = vars(Replica)["last_record_epoch"].fget
    settled: dict[int, tuple[Any, int]] = {}

    def taken(self: Any, question: Any, answer: Any, now: int) -> bool:
        replica = question.replica
        fits = original(self, question, answer, now)
        if fits and answer.error_code == ErrorCode.NONE and answer.diverging_epoch.epoch < 0:
            settled[id(replica)] = (replica, question.leader_epoch)
        return fits

    def last_record_epoch(self: Any) -> int:
        _, epoch = settled.get(id(self), (None, -1))
        return -1 if epoch == self.leader_epoch else last_epoch(self)

    _replace(stack, following.Fetcher, "_take", taken)
    _replace(stack, Replica, "last_record_epoch", property(last_record_epoch))


@mutant(
    "generation-from-metadata",
    "the leader proposes the generation it finds in metadata, not the one that fetched",
    "stale-join",
    document="KIP-903",
)
def _generation_from_metadata(stack: ExitStack) -> None:
    original = IsrChanges._send

    def send(self: Any) -> None:
        for key, (replica, proposal) in list(self._queue.items()):
            known = [self.core.image.broker(member) for member in proposal.isr]
            epochs = tuple(-1 if each is None else each.epoch for each in known)
            named = msgspec.structs.replace(proposal, epochs=epochs)
            if replica.leadership is not None and replica.leadership.pending is proposal:
                replica.leadership.pending = named
            self._queue[key] = (replica, named)
        original(self)

    def fetched(self: Any, broker_epoch: int, *rest: int) -> None:
        original_fetched(self, -1, *rest)

    original_fetched = leadership.Follower.fetched
    _replace(stack, leadership.Follower, "fetched", fetched)
    _replace(stack, IsrChanges, "_send", send)


@mutant(
    "revert-when-unsure",
    "a proposal without an answer is taken back, though the controller may have carried it out",
    "slow-answers",
    document="KIP-841",
)
def _revert_when_unsure(stack: ExitStack) -> None:
    original = IsrChanges._answered

    def answered(self: Any, batch: Any, version: int, reply: Any, now: int) -> None:
        if reply is None:
            for key, (replica, proposal) in batch.items():
                self._queue.pop(key, None)
                if replica.leadership is not None and replica.leadership.pending is proposal:
                    replica.leadership.pending = None
        original(self, batch, version, reply, now)

    _replace(stack, IsrChanges, "_answered", answered)


@mutant(
    "never-revert",
    "a leader does not go back to the committed ISR when a member was ineligible",
    "fenced-join",
    document="KIP-841",
    covered_by="never-revert+refusal-without-trace",
)
def _never_revert(stack: ExitStack) -> None:
    _replace(stack, leadership, "REVERTING", frozenset())
    _replace(
        stack,
        leadership,
        "WAITING_FOR_METADATA",
        leadership.WAITING_FOR_METADATA | {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED},
    )


@mutant(
    "untied-fetch-answers",
    "a fetch answer is applied although the role or the log has changed since the question",
    "role-changes",
    document="KAFKA-18991",
)
def _untied_fetch_answers(stack: ExitStack) -> None:
    original = following.Fetcher._take

    def taken(self: Any, question: Any, answer: Any, now: int) -> bool:
        self.members.setdefault(question.replica.key, question.replica)
        return original(self, question, answer, now)

    _replace(stack, following.Fetcher, "_take", taken)
    _replace(stack, following.Asked, "holds", lambda self: True)


@mutant(
    "waits-outlive-roles",
    "produces that wait are not given up when the partition changes hands",
    "quick-returns",
    document="timers of a role",
)
def _waits_outlive_roles(stack: ExitStack) -> None:
    _replace(stack, waiting.PartitionWaits, "abandon", lambda self, error: None)


@mutant(
    "acts-before-own-registration",
    "a new life acts on metadata of the life before it",
    "fast-bounces",
    document="found by the simulator",
)
def _acts_before_own_registration(stack: ExitStack) -> None:
    _replace(stack, metadata_feed.MetadataFeed, "_knows_own_life", lambda self, image: True)


@mutant("readers-see-everything", "consumers read past the high watermark", "lossy-leaders")
def _readers_see_everything(stack: ExitStack) -> None:
    original = fetch_api._Answer._read_one

    def read_one(self: Any, key: Any, asked: Any, left: int) -> Any:
        before, self.replica_id = self.replica_id, 0
        try:
            return original(self, key, asked, left)
        finally:
            self.replica_id = before

    _replace(stack, fetch_api._Answer, "_read_one", read_one)


@mutant("no-sequence-check", "a leader does not know the numbers of idempotent producers", "lost-acks")
def _no_sequence_check(stack: ExitStack) -> None:
    _replace(stack, ProducerStates, "check", lambda self, header: None)


@mutant(
    "pipelines-in-any-order",
    "a leader takes what comes behind a refused batch",
    "pipelines",
    document="KAFKA-15591",
)
def _pipelines_in_any_order(stack: ExitStack) -> None:
    _replace(stack, Pipelines, "waits_for", lambda self, *about: None)


@mutant(
    "produce-without-leading",
    "a replica that does not lead takes produces",
    "role-changes",
)
def _produce_without_leading(stack: ExitStack) -> None:
    original = replicas.Replicas._obey

    def obey(self: Any, replica: Any, state: Any, now: int) -> None:
        led = replica.leadership
        original(self, replica, state, now)
        if led is not None and replica.leadership is None:
            replica.leadership = led
            self.core.following.leave(replica)

    _replace(stack, replicas.Replicas, "_obey", obey)


# Habits of the controller.


@mutant(
    "refusal-without-trace",
    "a refused proposal leaves the partition epoch as it was, so that a copy of it may still be taken",
    "late-copies",
    document="KIP-841",
)
def _refusal_without_trace(stack: ExitStack) -> None:
    _replace(stack, alter_partition, "TAKEN_BACK", frozenset())


@mutant(
    "registration-by-disk-alone",
    "whoever has the log directories of a broker counts as its next life, an earlier one too",
    "late-registrations",
    document="found by the simulator",
)
def _registration_by_disk_alone(stack: ExitStack) -> None:
    original = registration._incarnation

    def incarnation(state: Any, request: Any, now: int) -> Any:
        known = state.image.broker(request.broker_id)
        if known is not None:
            request = msgspec.structs.replace(request, last_broker_epoch=known.epoch)
        return original(state, request, now)

    _replace(stack, registration, "_incarnation", incarnation)


@mutant(
    "bounce-keeps-isr",
    "a new life of a broker keeps the leaderships and ISR places of the one before",
    "fast-bounces",
    document="KIP-380, log mode",
)
def _bounce_keeps_isr(stack: ExitStack) -> None:
    _replace(stack, registration, "leave_all", lambda state, broker_id: [])


@mutant(
    "one-generation", "a new life gets the generation of the one before", "stale-join", document="KIP-380"
)
def _one_generation(stack: ExitStack) -> None:
    original = registration.on_broker_registration

    def register(state: Any, request: Any, now: int) -> Any:
        known = state.image.broker(request.broker_id)
        decision = original(state, request, now)
        if known is None or decision.response.error_code != ErrorCode.NONE:
            return decision
        records = [
            msgspec.structs.replace(record, broker_epoch=known.epoch)
            if isinstance(record, RegisterBrokerRecord)
            else record
            for record in decision.records
        ]
        response = msgspec.structs.replace(decision.response, broker_epoch=known.epoch)
        return msgspec.structs.replace(decision, records=records, response=response)

    _replace(stack, registration, "on_broker_registration", register)


@mutant(
    "stopping-in-memory",
    "that a broker is stopping is known to one controller and written nowhere",
    "shutdown-failover",
    document="KIP-841",
    covered_by="stopping-in-memory+fetching-on",
)
def _stopping_in_memory(stack: ExitStack) -> None:
    _replace(stack, controlled_shutdown, "_is_persisted", lambda state: False)


@mutant(
    "fetching-on",
    "a stopping broker that has left an ISR goes on fetching until it ends",
    "shutdown-failover",
    document="KIP-841",
    covered_by="stopping-in-memory+fetching-on",
)
def _fetching_on(stack: ExitStack) -> None:
    original = replicas.Replicas._obey

    def obey(self: Any, replica: Any, state: Any, now: int) -> None:
        with mock.patch.object(BrokerCore, "stopping", lambda core: False):
            original(self, replica, state, now)

    _replace(stack, replicas.Replicas, "_obey", obey)


@mutant("unflushed-metadata", "the controller answers before its decision is on the disk", "failovers")
def _unflushed_metadata(stack: ExitStack) -> None:
    def append(self: Any, records: Sequence[bytes]) -> int:
        base_offset: int = self.end_offset
        self._blob.append([encode_metadata_batch(base_offset, records)])
        self._records.extend(records)
        return base_offset

    _replace(stack, StoredMetadataLog, "append", append)


@mutant("unclean-elections", "a replica outside the ISR may be elected", "isolation")
def _unclean_elections(stack: ExitStack) -> None:
    _replace(stack, elections, "election_for", lambda state, topic: partition_change.Election.UNCLEAN)


@mutant("empty-isr", "the last member may leave the ISR", "isolation", document="KIP-903")
def _empty_isr(stack: ExitStack) -> None:
    original = partition_change.change

    def change(topic_id: Any, index: int, state: Any, may_lead: Any, **wanted: Any) -> Any:
        record = original(topic_id, index, state, may_lead, **wanted)
        isr = wanted.get("isr")
        if record is not None and isr is not None and not list(isr):
            return msgspec.structs.replace(record, isr=())
        return record

    for module in (partition_change, elections, alter_partition, controlled_shutdown, registry_mode):
        _replace(stack, module, "change", change)


@mutant(
    "start-before-failure",
    "a bounce is handled start first, failure second",
    "fast-bounces",
    mode=ZOOKEEPER,
    document="KIP-380",
)
def _start_before_failure(stack: ExitStack) -> None:
    def bounce(self: Any, entry: Any, now: int) -> Any:
        known = self._state.image.broker(entry.id)
        effects = self._begin(entry, f"after generation {known.epoch}", now)
        self._state.sessions.drop(known.id)
        return effects + self._decide(
            lambda: Decision(None, elections.leave_all(self._state, entry.id)), now, None
        )

    _replace(stack, registry_mode.RegistryMode, "_bounce", bounce)


@mutant(
    "max-of-living",
    "the maximum generation is taken over brokers that are active, not over all that are registered",
    "stale-control",
    mode=ZOOKEEPER,
    document="the cache KIP",
)
def _max_of_living(stack: ExitStack) -> None:
    original = push.Push.registry_read

    def registry_read(self: Any, registrations: Any) -> None:
        original(self, registrations)
        living = [each.epoch for each in self._state.image.brokers.values() if each.active]
        self._requests.max_epoch = max(living, default=-1)

    _replace(stack, push.Push, "registry_read", registry_read)


# The runtime's habits.


def _confuse_replies(world: World) -> None:
    world.network.confuses_replies = True


def _split_reads(world: World) -> None:
    assert world.keeper is not None
    world.keeper.splits_reads = True


MUTANTS["replies-by-kind"] = Mutant(
    "replies-by-kind",
    "an answer is matched by what it is about, not by its correlation id",
    "late-replies",
    document="answers belong to requests",
    world=_confuse_replies,
)
MUTANTS["two-reads"] = Mutant(
    "two-reads",
    "the registrations are read one after the other, so that two bounces fit between two of them",
    "double-bounces",
    mode=ZOOKEEPER,
    document="the cache KIP",
    world=_split_reads,
)

"""What a healed cluster must have become: each question is asked of a cluster that is not well in that way.

That a run asks them is shown in `test_planted_runs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from epoka.broker.leadership import Proposal
from epoka.broker.lifecycle import LifeState
from epoka.model.image import ClusterImage, register_broker_record
from epoka.model.partitions import PartitionState
from epoka.sim import CONTROLLER, World
from epoka.sim.runner import Options, Run
from epoka.wire.messages.metadata_records import (
    ConfigRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.sim.watched import Watched


def _amend(image: ClusterImage, *records: Any) -> None:
    """Change what a node knows and let it believe that it has read no further."""
    for record in records:
        image.apply(record, image.offset)


def _registered(watched: Watched, node: int, **about: Any) -> RegisterBrokerRecord:
    broker = watched.world.controller.image.broker(node)
    assert broker is not None
    return register_broker_record(msgspec.structs.replace(broker, **about))


def _state(watched: Watched, **about: Any) -> PartitionState:
    return msgspec.structs.replace(watched.world.partition("t"), **about)


def _decided(watched: Watched, **about: Any) -> None:
    watched.world.controller.image.tell_partition(watched.topic.id, 0, _state(watched, **about))


def _led_by_two(watched: Watched) -> None:
    watched.replica(2).leadership = watched.replica(1).leadership


def _led_by_none(watched: Watched) -> None:
    watched.replica(1).leadership = None


def _earlier_epoch(watched: Watched) -> None:
    watched.replica(2).leader_epoch -= 1


def _asks_for_a_member(watched: Watched) -> None:
    leadership = watched.replica(1).leadership
    leadership.pending = Proposal(leadership.isr, (), leadership.leader_epoch, leadership.partition_epoch, 3)


UNWELL: dict[str, tuple[Callable[[Watched], Any], str]] = {
    "no controller": (lambda it: it.world.crash(CONTROLLER), "there is no controller"),
    "not running": (
        lambda it: setattr(it.world.broker(2).lifecycle, "state", LifeState.RECOVERY),
        "is recovery, fenced: False",
    ),
    "fenced": (lambda it: setattr(it.world.broker(2).lifecycle, "fenced", True), "is running, fenced: True"),
    "self-fenced": (lambda it: setattr(it.world.broker(2).lifecycle, "self_fenced", True), "fenced itself"),
    "unregistered": (
        lambda it: _amend(it.world.controller.image, UnregisterBrokerRecord(2, it.world.generation(2))),
        "): None",
    ),
    "inactive": (
        lambda it: _amend(it.world.controller.image, _registered(it, 2, fenced=True)),
        "does not count on broker 2",
    ),
    "another generation": (
        lambda it: _amend(it.world.controller.image, _registered(it, 2, epoch=it.world.generation(2) + 1)),
        "does not count on broker 2",
    ),
    "metadata behind": (lambda it: it.decree(NoOpRecord()), "has read to"),
    "no leader": (lambda it: _decided(it, leader=-1), "t-0 has leader -1"),
    "small ISR": (lambda it: _decided(it, isr=(1, 2)), "ISR [1, 2] of [1, 2, 3]"),
    "adding": (lambda it: _decided(it, adding=(3,)), "t-0 is still being reassigned"),
    "removing": (lambda it: _decided(it, removing=(3,)), "t-0 is still being reassigned"),
    "no replica": (lambda it: it.world.broker(3).replicas.by_name.clear(), "broker 3 has no t-0"),
    "two leaders": (_led_by_two, "broker 2 is wrong about who leads t-0"),
    "nobody leads": (_led_by_none, "broker 1 is wrong about who leads t-0"),
    "earlier epoch": (_earlier_epoch, "broker 2 knows leader epoch -1 of t-0"),
    "pending change": (_asks_for_a_member, "an ISR change of t-0 is still pending at 1"),
    "another ISR": (
        lambda it: setattr(it.replica(1).leadership, "isr", (1, 2)),
        "an ISR change of t-0 is still pending at 1",
    ),
}


@pytest.mark.parametrize(("spoil", "missing"), UNWELL.values(), ids=list(UNWELL))
def test_liveness_says_what_is_missing(
    watched: Watched, spoil: Callable[[Watched], Any], missing: str
) -> None:
    spoil(watched)
    assert missing in (watched.checkers.converged() or "")


MISTAKEN: dict[str, tuple[Callable[[Watched, ClusterImage], Any], str]] = {
    "a broker is unknown": (
        lambda it, image: _amend(image, UnregisterBrokerRecord(3, it.world.generation(3))),
        "takes broker 3 for None",
    ),
    "a broker is fenced": (
        lambda it, image: _amend(image, _registered(it, 3, fenced=True)),
        "takes broker 3 for (",
    ),
    "an earlier life of a broker": (
        lambda it, image: _amend(image, _registered(it, 3, epoch=it.world.generation(3) - 1)),
        "takes broker 3 for (",
    ),
    "an earlier leader epoch": (
        lambda it, image: image.tell_partition(it.topic.id, 0, _state(it, leader_epoch=-1)),
        "takes t-0 for PartitionState(",
    ),
    "an earlier partition epoch": (
        lambda it, image: image.tell_partition(it.topic.id, 0, _state(it, partition_epoch=-1)),
        "takes t-0 for PartitionState(",
    ),
    "a partition is unknown": (
        lambda it, image: _amend(image, RemoveTopicRecord(it.topic.id)),
        "takes t-0 for None",
    ),
    "a topic is gone": (
        lambda it, image: _amend(image, TopicRecord("gone", it.world.new_id())),
        "still knows the topic gone",
    ),
}


@pytest.mark.parametrize(("tell", "missing"), MISTAKEN.values(), ids=list(MISTAKEN))
def test_a_broker_of_zookeeper_mode_that_was_told_something_else_is_missed(
    tell: Callable[[Watched, ClusterImage], Any], missing: str
) -> None:
    watched = Watched("zookeeper")
    assert watched.checkers.converged() is None
    tell(watched, watched.world.broker(2).image)
    assert f"{watched.process(2)} {missing}" in (watched.checkers.converged() or "")


# In log mode a run compares how far brokers have read. What they have made of it:


def _misread(world: World) -> list[str]:
    """Brokers whose metadata is not the controller's, record by record."""
    decided = world.controller.image.to_records()
    return [repr(process) for process in world.brokers() if process.core.image.to_records() != decided]


@pytest.mark.parametrize("seed", range(40))
def test_every_broker_of_log_mode_ends_with_the_metadata_of_the_controller(seed: int) -> None:
    run = Run(seed, Options())
    assert run.go().ok
    assert len(run.world.brokers()) == run.plan.brokers
    assert _misread(run.world) == []


MISREAD: dict[str, Callable[[Watched, ClusterImage], Any]] = {
    "a config": lambda it, image: _amend(image, ConfigRecord(2, "t", "min.insync.replicas", "1")),
    "a generation": lambda it, image: _amend(image, _registered(it, 3, epoch=it.world.generation(3) - 1)),
    "an ISR": lambda it, image: image.tell_partition(it.topic.id, 0, _state(it, isr=(1, 2))),
    "a topic": lambda it, image: _amend(image, TopicRecord("gone", it.world.new_id())),
}


@pytest.mark.parametrize("misread", MISREAD.values(), ids=list(MISREAD))
def test_a_broker_of_log_mode_that_has_read_to_the_end_and_knows_something_else_is_found(
    watched: Watched, misread: Callable[[Watched, ClusterImage], Any]
) -> None:
    assert _misread(watched.world) == []
    misread(watched, watched.world.broker(2).image)
    assert _misread(watched.world) == [repr(watched.process(2))]

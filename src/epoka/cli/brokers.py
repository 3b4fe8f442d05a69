"""Any Kafka cluster as a client sees it: who leads what, and a connection to a broker when one is needed.

Blocking and plain: commands ask one thing after the other. What a broker answers is passed on; only the three
questions "who is the controller", "who is the coordinator" and "who leads" are answered here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from epoka.cli.finding import addresses, connect
from epoka.cli.output import EXIT_USAGE, Failed
from epoka.cluster.calls import Caller, CallFailed
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import EncodeError
from epoka.wire.messages.find_coordinator import FindCoordinatorRequest
from epoka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from epoka.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T = TypeVar("T")

PATIENCE_S = 15.0
RETRY_S = 0.1
SEVERAL_COORDINATORS = 4
"""The version of FindCoordinator from which on several groups are asked for at once."""
EARLIEST, LATEST = -2, -1
TopicPartition = tuple[str, int]


class Brokers:
    def __init__(self, bootstrap: Sequence[tuple[str, int]]) -> None:
        self._bootstrap = list(bootstrap)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._controller_id = -1
        self._callers: dict[int, Caller] = {}
        self._first: Caller | None = None

    def close(self) -> None:
        for caller in self._callers.values():
            caller.close()
        self._callers.clear()
        if self._first is not None:
            self._first.close()
            self._first = None

    def any(self) -> Caller:
        """A connection to the first broker that answers."""
        if self._first is None:
            reasons = []
            for host, port in dict.fromkeys([*self._addresses.values(), *self._bootstrap]):
                try:
                    self._first = connect(host, port)
                    break
                except CallFailed as error:
                    reasons.append(str(error))
            else:
                raise CallFailed("; ".join(dict.fromkeys(reasons)))
        return self._first

    def broker(self, broker_id: int) -> Caller:
        if broker_id not in self._addresses:
            self.metadata(())
        if broker_id not in self._addresses:
            raise CallFailed(f"broker {broker_id} is not there")
        if broker_id not in self._callers:
            self._callers[broker_id] = connect(*self._addresses[broker_id])
        return self._callers[broker_id]

    @property
    def ids(self) -> list[int]:
        """Every broker that was in the last metadata."""
        if not self._addresses:
            self.metadata(())
        return sorted(self._addresses)

    def forget(self) -> None:
        """Connections may be broken: make new ones."""
        self.close()

    def metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        """The brokers and these topics; None stands for all. Nothing is created by asking."""
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        answer: MetadataResponse = self.any().ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        self._controller_id = answer.controller_id
        return answer

    def topic(self, name: str) -> MetadataResponseTopic:
        """One topic; Failed when it does not exist."""
        (found,) = self.metadata((name,)).topics
        check(found.error_code, None, f"topic {name}")
        return found

    def partitions(self, name: str) -> dict[int, MetadataResponsePartition]:
        return {each.partition_index: each for each in self.topic(name).partitions}

    def controller(self) -> Caller:
        """Where changes are asked for: in old clusters only the controller takes them."""
        if not self._addresses:
            self.metadata(())
        if self._controller_id in self._addresses:
            return self.broker(self._controller_id)
        return self.any()

    def coordinator(self, group: str) -> Caller:
        return self.broker(self.coordinators([group])[group])

    def coordinators(self, groups: Sequence[str]) -> dict[str, int]:
        """The broker that coordinates each group, asked again while the answer is being made."""
        return self.patiently(lambda: self._coordinators(groups), "the group coordinator")

    def _coordinators(self, groups: Sequence[str]) -> dict[str, int]:
        caller = self.any()
        found = {}
        if caller.version_for(FindCoordinatorRequest.API_KEY) >= SEVERAL_COORDINATORS:
            answer = caller.ask(FindCoordinatorRequest(coordinator_keys=tuple(groups)))
            for each in answer.coordinators:
                _worth_a_retry(each.error_code, f"the coordinator of group {each.key}")
                found[each.key] = each.node_id
        else:
            for group in groups:
                answer = caller.ask(FindCoordinatorRequest(key=group))
                _worth_a_retry(answer.error_code, f"the coordinator of group {group}")
                found[group] = answer.node_id
        if not set(found.values()) <= set(self._addresses):
            self.metadata(())
        return found

    def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset that each partition's leader has for a timestamp, EARLIEST or LATEST; -1 for none."""
        return self.patiently(lambda: self._offsets(wanted), "the offsets of partitions")

    def _offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        leaders = self.leaders(sorted({topic for topic, _ in wanted}))
        found = {}
        for leader in sorted({leaders.get(each, -1) for each in wanted}):
            led = {each: when for each, when in wanted.items() if leaders.get(each, -1) == leader}
            if leader < 0:
                raise _Again(f"{name(min(led))} has no leader")
            topics = [
                ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        ListOffsetsPartition(partition_index=partition, timestamp=when)
                        for (of, partition), when in sorted(led.items())
                        if of == topic
                    ),
                )
                for topic in sorted({topic for topic, _ in led})
            ]
            answer = self.broker(leader).ask(ListOffsetsRequest(topics=tuple(topics)))
            for topic in answer.topics:
                for each in topic.partitions:
                    _worth_a_retry(each.error_code, f"the offsets of {topic.name}-{each.partition_index}")
                    found[topic.name, each.partition_index] = each.offset
        return found

    def leaders(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """The leader of every partition of the topics, -1 for none; Failed for a topic that is not there."""
        found = {}
        for topic in self.metadata(topics).topics:
            check(topic.error_code, None, f"topic {topic.name}")
            for each in topic.partitions:
                found[topic.name or "", each.partition_index] = each.leader_id
        return found

    def patiently(self, ask: Callable[[], T], what: str, *, patience_s: float = PATIENCE_S) -> T:
        """Ask again while brokers say that the answer is about to change, or are on their way."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return ask()
            except (_Again, CallFailed) as error:
                if time.monotonic() >= deadline or (isinstance(error, CallFailed) and not self._addresses):
                    raise Failed(f"{what} cannot be had: {error}") from error
                self.forget()
                time.sleep(RETRY_S)


class _Again(Exception):
    """A broker said to ask again."""


@contextmanager
def asking(bootstrap: str | None, data: Path | None) -> Iterator[Brokers]:
    """The cluster that is meant; what it does not answer becomes the command's failure."""
    brokers = Brokers(addresses(bootstrap, data))
    try:
        yield brokers
    except CallFailed as error:
        raise Failed(str(error)) from error
    except EncodeError as error:
        # What the user gave does not fit what travels: a number too large, a name too long.
        raise Failed(str(error), EXIT_USAGE) from error
    finally:
        brokers.close()


def check(error_code: int, message: str | None, what: str) -> None:
    """Failed when a broker refused."""
    if error_code:
        code = ErrorCode.of(error_code)
        raise Failed(f"{what}: {message or code.message} ({code.name})")


def name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def by_topic(partitions: dict[TopicPartition, Any]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _worth_a_retry(error_code: int, what: str) -> None:
    if error_code and ErrorCode.of(error_code).retriable:
        raise _Again(f"{what}: {ErrorCode.of(error_code).message}")
    check(error_code, None, what)

"""DeleteGroups 0-2, OffsetDelete 0, deleted topics and old offsets: all that ends in tombstones.

What is removed is gone when its tombstone is committed, and not before. Whatever is written behind the
tombstone outlives it: a group that someone joins while its deletion is on its way goes on. A group without
members goes with its last offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from epoka.broker.groups.config import GroupConfig
from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.offsets import CommittedOffset, TopicPartition
from epoka.broker.groups.outbox import Continuation, Outbox, Waiting
from epoka.broker.groups.rebalances import Rebalances
from epoka.broker.groups.records import group_tombstone, offset_entry
from epoka.broker.groups.refusals import group_store_error
from epoka.broker.groups.registry import Registry
from epoka.broker.groups.timers import Timer, TimerKind, Timers
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from epoka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Heard = Callable[[ErrorCode], None]

_RETENTION: Final = Timer(TimerKind.RETENTION)


class RemovalStore(Continuation, frozen=True):
    """Tombstones are on their way to the log."""

    group: Group
    ticket: int
    offsets: dict[TopicPartition, CommittedOffset | None]
    """The partitions whose offsets go."""
    vanishes: bool
    """The group itself has a tombstone as well."""
    heard: Heard | None
    """Who wants to know how it ended, in the words of a coordinator."""


class Removals:
    def __init__(
        self,
        config: GroupConfig,
        registry: Registry,
        outbox: Outbox,
        timers: Timers,
        rebalances: Rebalances,
    ) -> None:
        self._config = config
        self._registry = registry
        self._outbox = outbox
        self._timers = timers
        self._rebalances = rebalances

    # DeleteGroups

    def on_delete_groups(self, waiting: Waiting, request: DeleteGroupsRequest) -> None:
        results: dict[str, ErrorCode | None] = {}
        """By group; None while its tombstones are on their way."""

        def settle(group_id: str, error: ErrorCode) -> None:
            results[group_id] = error
            self._answer_when_settled(waiting, results)

        for group_id in dict.fromkeys(request.groups_names):
            results[group_id] = self._delete(group_id, partial(settle, group_id))
        self._answer_when_settled(waiting, results)

    def _delete(self, group_id: str, heard: Heard) -> ErrorCode | None:
        refusal = self._registry.refusal(group_id, may_be_nameless=True)
        if refusal is not None:
            return refusal
        group = self._registry.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        is_on_its_way = self._remove(group, group.offsets.known, vanishes=True, heard=heard)
        return None if is_on_its_way else ErrorCode.NONE

    def _answer_when_settled(self, waiting: Waiting, results: dict[str, ErrorCode | None]) -> None:
        settled = {group_id: error for group_id, error in results.items() if error is not None}
        if len(settled) == len(results):
            self._outbox.answer(
                waiting.token,
                DeleteGroupsResponse(
                    results=tuple(
                        DeletableGroupResult(group_id=group_id, error_code=error)
                        for group_id, error in settled.items()
                    )
                ),
            )

    # OffsetDelete

    def on_offset_delete(self, waiting: Waiting, request: OffsetDeleteRequest) -> None:
        def answer(error: ErrorCode) -> None:
            message = OffsetDeleteResponse(error_code=error)
            if error is ErrorCode.NONE:
                message = _offsets_deleted(request, subscribed)
            self._outbox.answer(waiting.token, message)

        subscribed: frozenset[str] = frozenset()
        refusal = self._registry.refusal(request.group_id)
        if refusal is not None:
            answer(refusal)
            return
        group = self._registry.get(request.group_id)
        if group is None:
            answer(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.state is not GroupState.EMPTY:
            if not group.is_consumer_group:
                answer(ErrorCode.NON_EMPTY_GROUP)
                return
            subscribed = frozenset(t.name for t in request.topics if group.is_subscribed_to(t.name))
        partitions = [
            (topic.name, partition.partition_index)
            for topic in request.topics
            if topic.name not in subscribed
            for partition in topic.partitions
        ]
        if not self._remove(group, partitions, heard=answer):
            answer(ErrorCode.NONE)

    # Topics and time

    def on_topics_deleted(self, names: Iterable[str]) -> None:
        gone = frozenset(names)
        for group in self._registry.groups:
            partitions = [partition for partition in group.offsets.known if partition[0] in gone]
            if partitions:
                self._remove(group, partitions)

    def watch_retention(self, now: int) -> None:
        """Look for old offsets every now and then, for as long as there are groups to look at."""
        if self._registry.is_idle:
            self._timers.cancel(_RETENTION)
        elif not self._timers.is_set(_RETENTION):
            self._timers.set(_RETENTION, now + self._config.offsets_retention_check_interval_ms)

    def on_retention_check(self, now: int) -> None:
        for group in self._registry.groups:
            self._remove(group, group.expired_offsets(now, self._config.offsets_retention_ms))
        self.watch_retention(now)

    # All of them

    def _remove(
        self,
        group: Group,
        partitions: Iterable[TopicPartition],
        *,
        vanishes: bool = False,
        heard: Heard | None = None,
    ) -> bool:
        """Remove offsets, and the group itself if it `vanishes` or has nothing left.

        False if the log knows nothing of what is removed, so that no tombstone is needed.
        """
        known = dict.fromkeys(group.offsets.known)
        offsets: dict[TopicPartition, CommittedOffset | None] = {
            partition: None for partition in partitions if partition in known
        }
        vanishes = vanishes or (group.is_deserted and len(offsets) == len(known))
        tombstones = [offset_entry(group.group_id, partition, None) for partition in offsets]
        if vanishes and group.generation_id > 0:
            tombstones.append(group_tombstone(group.group_id))
        if not tombstones:
            if vanishes:
                self._forget(group)
            return False
        ticket = self._outbox.store(
            group.partition,
            tombstones,
            lambda ticket: RemovalStore(group.partition, group, ticket, offsets, vanishes, heard),
        )
        group.offsets.begin(ticket, offsets)
        return True

    def on_removal_stored(self, stored: RemovalStore, error: ErrorCode) -> None:
        is_stored = error is ErrorCode.NONE
        group = stored.group
        group.offsets.finish(stored.ticket, stored.offsets, is_stored)
        is_left = group.is_deserted and not group.offsets and group.record_ticket < stored.ticket
        if is_stored and stored.vanishes and is_left:
            self._forget(group)
        if stored.heard is not None:
            stored.heard(group_store_error(error))

    def _forget(self, group: Group) -> None:
        self._rebalances.abandon(group)
        self._registry.discard(group)


def _offsets_deleted(request: OffsetDeleteRequest, subscribed: frozenset[str]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=(
                            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                            if topic.name in subscribed
                            else ErrorCode.NONE
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )

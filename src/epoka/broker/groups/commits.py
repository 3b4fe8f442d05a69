"""OffsetCommit 2-9 and OffsetFetch 1-9: how far a group has read.

A member of the present generation may commit, and anyone may into a group without members. A commit is
answered when its records are committed, and read back only from then on. Whether the topics exist is for the
caller to ask, before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from epoka.broker.groups.config import GroupConfig
from epoka.broker.groups.group import Group, GroupState
from epoka.broker.groups.offsets import CommittedOffset, TopicPartition
from epoka.broker.groups.outbox import Continuation, Outbox, Waiting
from epoka.broker.groups.rebalances import Rebalances
from epoka.broker.groups.records import offset_entry
from epoka.broker.groups.refusals import offset_store_error
from epoka.broker.groups.registry import Registry
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from epoka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

LAST_MS = (1 << 63) - 1
"""The last moment that a record can name."""


class CommitStore(Continuation, frozen=True):
    """The offsets of one request are on their way to the log."""

    group: Group
    ticket: int
    waiting: Waiting
    request: OffsetCommitRequest
    offsets: dict[TopicPartition, CommittedOffset]
    """Those that were good enough to be stored."""


class Found(msgspec.Struct, frozen=True):
    """What is known of one partition's offset."""

    index: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class Commits:
    def __init__(
        self, config: GroupConfig, registry: Registry, outbox: Outbox, rebalances: Rebalances
    ) -> None:
        self._config = config
        self._registry = registry
        self._outbox = outbox
        self._rebalances = rebalances

    # OffsetCommit

    def on_offset_commit(self, waiting: Waiting, request: OffsetCommitRequest, now: int) -> None:
        refusal = self._commit_refusal(request, waiting.version)
        if refusal is not None:
            self._outbox.answer(waiting.token, _committed(request, {}, refusal))
            return
        group = self._registry.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if group is not None and member is not None:
            self._rebalances.heard_of(group, member, now)
        offsets = self._acceptable(request, now)
        if not offsets:
            self._outbox.answer(waiting.token, _committed(request, {}, ErrorCode.NONE))
            return
        self._store(group or self._registry.create(request.group_id, now), waiting, request, offsets)

    def _store(
        self,
        group: Group,
        waiting: Waiting,
        request: OffsetCommitRequest,
        offsets: dict[TopicPartition, CommittedOffset],
    ) -> None:
        ticket = self._outbox.store(
            group.partition,
            [offset_entry(group.group_id, partition, offset) for partition, offset in offsets.items()],
            lambda ticket: CommitStore(group.partition, group, ticket, waiting, request, offsets),
        )
        group.offsets.begin(ticket, offsets)

    def on_commit_stored(self, stored: CommitStore, error: ErrorCode) -> None:
        stored.group.offsets.finish(stored.ticket, stored.offsets, error is ErrorCode.NONE)
        self._outbox.answer(
            stored.waiting.token, _committed(stored.request, stored.offsets, offset_store_error(error))
        )

    def _commit_refusal(self, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        refusal = self._registry.refusal(request.group_id, may_be_nameless=True)
        if refusal is not None:
            return refusal
        group = self._registry.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        if group is None:
            if generation_id < 0:
                return None
            return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return None
        refusal = group.refusal(request.member_id, request.group_instance_id)
        if refusal is not None:
            return refusal
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The member has joined the new generation and does not know yet what it may read there.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def _acceptable(self, request: OffsetCommitRequest, now: int) -> dict[TopicPartition, CommittedOffset]:
        kept_ms = request.retention_time_ms
        expires_at = -1 if kept_ms < 0 else min(now + kept_ms, LAST_MS)
        return {
            (topic.name, partition.partition_index): CommittedOffset(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata or "",
                commit_timestamp=now,
                expire_timestamp=expires_at,
            )
            for topic in request.topics
            for partition in topic.partitions
            if len(partition.committed_metadata or "") <= self._config.offset_metadata_max_bytes
        }

    # OffsetFetch

    def on_offset_fetch(self, waiting: Waiting, request: OffsetFetchRequest) -> None:
        stable = request.require_stable
        if waiting.version >= 8:
            groups = tuple(
                self._fetch_group(
                    group_id,
                    None if topics is None else [(t.name, t.partition_indexes) for t in topics],
                    stable,
                )
                for group_id, topics in dict.fromkeys((each.group_id, each.topics) for each in request.groups)
            )
            self._outbox.answer(waiting.token, OffsetFetchResponse(groups=groups))
            return
        wanted = None if request.topics is None else [(t.name, t.partition_indexes) for t in request.topics]
        refusal = self._registry.refusal(request.group_id, may_be_nameless=True)
        if refusal is None:
            topics = self._find(request.group_id, wanted, stable)
            answer = OffsetFetchResponse(topics=_single_group_topics(topics))
        elif waiting.version >= 2:
            answer = OffsetFetchResponse(error_code=refusal)
        else:
            refused = {
                name: [Found(index, error=refusal) for index in indexes] for name, indexes in wanted or ()
            }
            answer = OffsetFetchResponse(topics=_single_group_topics(refused))
        self._outbox.answer(waiting.token, answer)

    def _fetch_group(
        self, group_id: str, wanted: Iterable[tuple[str, Iterable[int]]] | None, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        refusal = self._registry.refusal(group_id, may_be_nameless=True)
        if refusal is not None:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=refusal)
        topics = tuple(
            OffsetFetchResponseTopics(
                name=name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=each.index,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error,
                    )
                    for each in found
                ),
            )
            for name, found in self._find(group_id, wanted, require_stable).items()
        )
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    def _find(
        self, group_id: str, wanted: Iterable[tuple[str, Iterable[int]]] | None, require_stable: bool
    ) -> dict[str, list[Found]]:
        """What is committed for these topics, or for all the group has offsets of."""
        group = self._registry.get(group_id)
        if wanted is None:
            partitions = [] if group is None else group.offsets.partitions
        else:
            partitions = [(name, index) for name, indexes in wanted for index in indexes]
        topics: dict[str, list[Found]] = {}
        for partition in partitions:
            topics.setdefault(partition[0], []).append(_find_one(group, partition, require_stable))
        return topics


def _find_one(group: Group | None, partition: TopicPartition, require_stable: bool) -> Found:
    index = partition[1]
    if group is None:
        return Found(index)
    if require_stable and group.offsets.is_pending(partition):
        return Found(index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = group.offsets.get(partition)
    if committed is None:
        return Found(index)
    return Found(index, committed.offset, committed.leader_epoch, committed.metadata)


def _single_group_topics(topics: dict[str, list[Found]]) -> tuple[OffsetFetchResponseTopic, ...]:
    return tuple(
        OffsetFetchResponseTopic(
            name=name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=each.index,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error,
                )
                for each in found
            ),
        )
        for name, found in topics.items()
    )


def _committed(
    request: OffsetCommitRequest, stored: dict[TopicPartition, CommittedOffset], error: ErrorCode
) -> OffsetCommitResponse:
    """The answer to a commit: `error` for all that was stored, and for all alike when the commit was refused.

    What passed every check and was not stored had too much metadata.
    """
    refused = not stored and error is not ErrorCode.NONE
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=(
                            error
                            if refused or (topic.name, partition.partition_index) in stored
                            else ErrorCode.OFFSET_METADATA_TOO_LARGE
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )

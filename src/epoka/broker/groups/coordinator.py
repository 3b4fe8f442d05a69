"""The group coordinator: one door for every request about groups.

Nothing is decided here. Each request is opened, handed to the file that has its rules, and what comes of it
is returned in order. A request is answered exactly once, now or later, unless its client goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from epoka.broker.groups.commits import Commits, CommitStore
from epoka.broker.groups.config import GroupConfig
from epoka.broker.groups.effects import GroupEffect
from epoka.broker.groups.joins import Join, Joins, ReplacementStore
from epoka.broker.groups.listings import describe_groups, list_groups
from epoka.broker.groups.loading import LoggedEntry, groups_in
from epoka.broker.groups.membership import Membership
from epoka.broker.groups.outbox import Outbox, Waiting
from epoka.broker.groups.rebalances import AssignmentStore, Rebalances
from epoka.broker.groups.registry import Registry
from epoka.broker.groups.removals import Removals, RemovalStore
from epoka.broker.groups.timers import TimerKind, Timers
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.delete_groups import DeleteGroupsRequest
from epoka.wire.messages.describe_groups import DescribeGroupsRequest
from epoka.wire.messages.heartbeat import HeartbeatRequest
from epoka.wire.messages.join_group import JoinGroupRequest
from epoka.wire.messages.leave_group import LeaveGroupRequest
from epoka.wire.messages.list_groups import ListGroupsRequest
from epoka.wire.messages.offset_commit import OffsetCommitRequest
from epoka.wire.messages.offset_delete import OffsetDeleteRequest
from epoka.wire.messages.offset_fetch import OffsetFetchRequest
from epoka.wire.messages.sync_group import SyncGroupRequest


class GroupCoordinator:
    def __init__(self, config: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        """`new_member_id` makes an id that was never used before out of a client id or an instance id."""
        self._registry = Registry(config.partitions)
        self._outbox = Outbox()
        self._timers = Timers()
        self._rebalances = Rebalances(config, self._registry, self._outbox, self._timers)
        self._joins = Joins(config, self._registry, self._outbox, self._rebalances, new_member_id)
        self._membership = Membership(self._registry, self._outbox, self._rebalances)
        self._commits = Commits(config, self._registry, self._outbox, self._rebalances)
        self._removals = Removals(config, self._registry, self._outbox, self._timers, self._rebalances)
        self.unread_records = 0
        """Records of `__consumer_offsets` that were passed over because they could not be read."""

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates a group."""
        return self._registry.partition_for(group_id)

    @property
    def deadline(self) -> int | None:
        """When `wake` should be called next."""
        return self._timers.deadline

    # Partitions come and go

    def load_started(self, partition: int) -> None:
        """This broker leads a partition now, and reads it; until it has, clients are asked to wait."""
        self._registry.start_loading(partition)

    def load(self, partition: int, records: Iterable[LoggedEntry], now: int) -> list[GroupEffect]:
        """A partition has been read, so its groups are coordinated here. One that is here already stays."""
        if not self._registry.is_active(partition):
            groups, unread = groups_in(partition, records, now)
            self.unread_records += unread
            self._registry.activate(partition)
            for group in groups:
                self._registry.put(group)
                self._rebalances.resume(group, now)
            self._removals.watch_retention(now)
        return self._outbox.drain()

    def unload(self, partition: int, now: int) -> list[GroupEffect]:
        """Another broker leads a partition now: everyone who waits is sent there."""
        for group in self._registry.deactivate(partition):
            self._rebalances.abandon(group)
        for continuation in self._outbox.take_partition(partition):
            match continuation:
                case CommitStore():
                    self._commits.on_commit_stored(continuation, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                case RemovalStore():
                    self._removals.on_removal_stored(continuation, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._removals.watch_retention(now)
        return self._outbox.drain()

    # Requests

    def join_group(
        self,
        token: int,
        version: int,
        client_id: str | None,
        client_host: str,
        request: JoinGroupRequest,
        now: int,
    ) -> list[GroupEffect]:
        join = Join.of(self._open(token, version), client_id or "", client_host, request)
        self._joins.on_join_group(request.group_id, join, now)
        return self._outbox.drain()

    def sync_group(self, token: int, version: int, request: SyncGroupRequest, now: int) -> list[GroupEffect]:
        self._membership.on_sync_group(self._open(token, version), request, now)
        return self._outbox.drain()

    def heartbeat(self, token: int, version: int, request: HeartbeatRequest, now: int) -> list[GroupEffect]:
        self._membership.on_heartbeat(self._open(token, version), request, now)
        return self._outbox.drain()

    def leave_group(
        self, token: int, version: int, request: LeaveGroupRequest, now: int
    ) -> list[GroupEffect]:
        self._membership.on_leave_group(self._open(token, version), request, now)
        return self._outbox.drain()

    def offset_commit(
        self, token: int, version: int, request: OffsetCommitRequest, now: int
    ) -> list[GroupEffect]:
        self._commits.on_offset_commit(self._open(token, version), request, now)
        return self._outbox.drain()

    def offset_fetch(
        self, token: int, version: int, request: OffsetFetchRequest, now: int
    ) -> list[GroupEffect]:
        self._commits.on_offset_fetch(self._open(token, version), request)
        return self._outbox.drain()

    def offset_delete(
        self, token: int, version: int, request: OffsetDeleteRequest, now: int
    ) -> list[GroupEffect]:
        self._removals.on_offset_delete(self._open(token, version), request)
        return self._outbox.drain()

    def describe_groups(
        self, token: int, version: int, request: DescribeGroupsRequest, now: int
    ) -> list[GroupEffect]:
        self._open(token, version)
        self._outbox.answer(token, describe_groups(self._registry, version, request))
        return self._outbox.drain()

    def list_groups(
        self, token: int, version: int, request: ListGroupsRequest, now: int
    ) -> list[GroupEffect]:
        self._open(token, version)
        self._outbox.answer(token, list_groups(self._registry, version, request))
        return self._outbox.drain()

    def delete_groups(
        self, token: int, version: int, request: DeleteGroupsRequest, now: int
    ) -> list[GroupEffect]:
        self._removals.on_delete_groups(self._open(token, version), request)
        return self._outbox.drain()

    def _open(self, token: int, version: int) -> Waiting:
        self._outbox.open(token)
        return Waiting(token, version)

    # Everything else that happens

    def stored(self, ticket: int, error: ErrorCode, now: int) -> list[GroupEffect]:
        """The records of a `Store` are committed, or never will be."""
        match self._outbox.take(ticket):
            case AssignmentStore() as stored:
                self._rebalances.on_assignment_stored(stored, error, now)
            case ReplacementStore() as stored:
                self._joins.on_replacement_stored(stored, error, now)
            case CommitStore() as stored:
                self._commits.on_commit_stored(stored, error)
            case RemovalStore() as stored:
                self._removals.on_removal_stored(stored, error)
        return self._outbox.drain()

    def topics_deleted(self, names: Iterable[str], now: int) -> list[GroupEffect]:
        """Topics are gone, and with them all that groups have read of them."""
        self._removals.on_topics_deleted(names)
        return self._outbox.drain()

    def disconnected(self, tokens: Iterable[int]) -> None:
        """These requests need no answer any more. Their members stay until their sessions end."""
        self._outbox.disconnected(tokens)

    def wake(self, now: int) -> list[GroupEffect]:
        """Do what is due by now."""
        while (timer := self._timers.take(now)) is not None:
            if timer.kind is TimerKind.RETENTION:
                self._removals.on_retention_check(now)
                continue
            group = self._registry.get(timer.group_id)
            if group is None:
                continue
            match timer.kind:
                case TimerKind.SESSION:
                    self._rebalances.on_session_timeout(group, timer.member_id, now)
                case TimerKind.PENDING:
                    self._rebalances.remove_pending(group, timer.member_id, now)
                case TimerKind.JOIN:
                    self._rebalances.on_join_timeout(group, now)
                case TimerKind.SYNC:
                    self._rebalances.on_sync_timeout(group, now)
        return self._outbox.drain()

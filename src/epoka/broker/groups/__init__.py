"""Consumer groups: the coordinator as a synchronous state machine, without clock, log or sockets.

A broker that leads a partition of `__consumer_offsets` coordinates the groups whose ids hash to it. What must
outlive the broker goes out as `Store` and comes back in `load`; what a client waits for goes out as `Answer`.

    class Answer: token, message                    answer a waiting request
    class Store: partition, records, ticket         append, and call stored(ticket, ...) once committed
    GroupEffect = Answer | Store
    class GroupConfig: min_session_timeout_ms, max_session_timeout_ms, max_size, initial_rebalance_delay_ms,
        offsets_retention_ms, partitions, offset_metadata_max_bytes, ...

    class GroupCoordinator(config, new_member_id):
        partition_for(group_id) -> int
        deadline -> int | None                      when to call wake(now)
        load_started(partition)                     becoming coordinator: clients are asked to wait
        load(partition, records, now)               records are (key, value, offset, timestamp), in log order
        unload(partition, now)                      ceasing to be coordinator
        join_group(token, version, client_id, client_host, request, now)
        sync_group, heartbeat, leave_group, offset_commit, offset_fetch, offset_delete, describe_groups,
            list_groups, delete_groups (token, version, request, now)
        stored(ticket, error, now)
        topics_deleted(names, now)
        wake(now)                                   sessions, rebalances, old offsets
        disconnected(tokens) -> None                these need no answer any more

Everything without another type returns `list[GroupEffect]`, in the order in which it must take place. Stores
of one partition must be appended in the order of their tickets. A token names one request and is answered
exactly once; a ticket that comes back after its partition was unloaded is ignored.

    joins.py        JoinGroup               group.py        states, generations, leader, protocol
    membership.py   SyncGroup, Heartbeat,   rebalances.py   from one generation to the next, and all timeouts
                    LeaveGroup              offsets.py      committed, and on their way
    commits.py      OffsetCommit, -Fetch    registry.py     which groups are coordinated here
    removals.py     DeleteGroups,           records.py      the formats of `__consumer_offsets`
                    OffsetDelete, expiry    loading.py      a partition read back into groups
    listings.py     DescribeGroups,         outbox.py       who waits for an answer, what waits for the log
                    ListGroups              timers.py       what is due when
"""

from epoka.broker.groups.config import GroupConfig
from epoka.broker.groups.coordinator import GroupCoordinator
from epoka.broker.groups.effects import Answer, Entry, GroupEffect, Store
from epoka.broker.groups.loading import LoggedEntry

__all__ = ["Answer", "Entry", "GroupConfig", "GroupCoordinator", "GroupEffect", "LoggedEntry", "Store"]

"""Which groups this broker coordinates.

A group belongs to the partition of `__consumer_offsets` that its id hashes to, and to whichever broker leads
that partition. A group is here only while its partition is: whoever finds it need not ask further.
"""

from __future__ import annotations

from functools import lru_cache

from epoka.broker.groups.group import Group
from epoka.wire.error_codes import ErrorCode


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 units, as an unsigned number."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(units[::2], units[1::2]):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


class Registry:
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._groups: dict[str, Group] = {}
        self._active: set[int] = set()
        self._loading: set[int] = set()

    def partition_for(self, group_id: str) -> int:
        return (java_hash(group_id) & 0x7FFFFFFF) % self._partitions

    # Partitions

    def start_loading(self, partition: int) -> None:
        if partition not in self._active:
            self._loading.add(partition)

    def activate(self, partition: int) -> None:
        self._loading.discard(partition)
        self._active.add(partition)

    def deactivate(self, partition: int) -> list[Group]:
        """Give a partition up; returns its groups, which are no longer here."""
        self._loading.discard(partition)
        self._active.discard(partition)
        groups = [group for group in self._groups.values() if group.partition == partition]
        for group in groups:
            del self._groups[group.group_id]
        return groups

    def is_active(self, partition: int) -> bool:
        return partition in self._active

    @property
    def is_idle(self) -> bool:
        return not self._active

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    # Groups

    def refusal(self, group_id: str, *, may_be_nameless: bool = False) -> ErrorCode | None:
        """Why this broker cannot speak for a group.

        Offsets may be kept under the empty group id, as they were before groups had members.
        """
        if not group_id and not may_be_nameless:
            return ErrorCode.INVALID_GROUP_ID
        if group_id in self._groups:
            return None
        partition = self.partition_for(group_id)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if partition not in self._active:
            return ErrorCode.NOT_COORDINATOR
        return None

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def create(self, group_id: str, now: int) -> Group:
        group = Group(group_id, self.partition_for(group_id), now)
        self._groups[group_id] = group
        return group

    def put(self, group: Group) -> None:
        self._groups[group.group_id] = group

    def discard(self, group: Group) -> None:
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    @property
    def groups(self) -> list[Group]:
        return list(self._groups.values())

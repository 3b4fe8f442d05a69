"""Consumer groups in pages: state, members, and how far each is behind. Asks; decides nothing."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from epoka.client.cluster import ClusterClient, TopicPartition
from epoka.client.errors import ClientError
from epoka.client.groups import committed, describe, list_groups
from epoka.dashboard.offsets import ends
from epoka.model.image import ClusterImage

PATIENCE_S: Final = 5.0
"""After this no more groups of a page are asked for."""
MOST_MEMBERS: Final = 200
MOST_COUNTED: Final = 5_000
"""Partitions whose lag is added up for one group; beyond that the sum is left open."""


def groups_page(
    client: ClusterClient, image: ClusterImage, query: str, page: int, size: int
) -> dict[str, Any]:
    wanted = query.casefold()
    found = [line for line in list_groups(client) if not wanted or wanted in line.group.casefold()]
    rows = []
    deadline = time.monotonic() + PATIENCE_S
    for line in found[page * size : (page + 1) * size]:
        row: dict[str, Any] = {**msgspec.to_builtins(line), "members": None, "lag": None, "partitions": None}
        if time.monotonic() > deadline:
            rows.append({**row, "problem": "the brokers are slow; open it to ask again"})
            continue
        try:
            known, offsets = describe(client, line.group), committed(client, line.group)
            row["members"], row["partitions"] = len(known.members), len(offsets)
            row["state"] = known.state
            row["lag"] = _sum_of_lags(client, image, offsets)
        except ClientError as error:
            # One group that cannot be asked hides no other.
            row["problem"] = str(error)
        rows.append(row)
    return {"total": len(found), "page": page, "size": size, "rows": rows}


def group_page(
    client: ClusterClient, image: ClusterImage, group: str, page: int, size: int
) -> dict[str, Any] | None:
    """One group: its members, and one page of the partitions that it has or has committed."""
    known, offsets = describe(client, group), committed(client, group)
    if not known.exists and not offsets:
        return None
    owners = {each: member for member in known.members for each in member.partitions}
    partitions = sorted({*offsets, *owners})
    shown = partitions[page * size : (page + 1) * size]
    known_ends = ends(client, image, shown)
    return {
        "group": group,
        "state": known.state,
        "protocol": known.protocol,
        "coordinator": known.coordinator,
        "lag": _sum_of_lags(client, image, offsets),
        "members": [
            {**msgspec.to_builtins(member), "partitions": len(member.partitions)}
            for member in known.members[:MOST_MEMBERS]
        ],
        "members_total": len(known.members),
        "total": len(partitions),
        "page": page,
        "size": size,
        "rows": [
            {
                "topic": topic,
                "partition": partition,
                "committed": offsets.get((topic, partition)),
                "end": known_ends.get((topic, partition)),
                "lag": _lag(offsets.get((topic, partition)), known_ends.get((topic, partition))),
                "member": owners[topic, partition].member_id if (topic, partition) in owners else None,
                "client": owners[topic, partition].client_id if (topic, partition) in owners else None,
            }
            for topic, partition in shown
        ],
    }


def _sum_of_lags(
    client: ClusterClient, image: ClusterImage, offsets: dict[TopicPartition, int]
) -> int | None:
    """How far a group is behind in all; None when a part of it cannot be told."""
    if len(offsets) > MOST_COUNTED:
        return None
    known = ends(client, image, offsets)
    lags = [_lag(offset, known.get(each)) for each, offset in offsets.items()]
    return None if any(lag is None for lag in lags) else sum(max(0, lag) for lag in lags if lag is not None)


def _lag(offset: int | None, end: int | None) -> int | None:
    """Below zero for a commit beyond the end of the log, which was cut since."""
    return None if offset is None or end is None else end - offset

"""Records of a topic for people: newest, oldest, from an offset or from a time, a page at a time.

Decides what part of a record is shown and how: text only where it is text, bytes otherwise, cut where it is
long, and nothing that could pass for something else on a screen. Reads a bounded amount, whatever is there.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from epoka.client import vectors
from epoka.client.cluster import EARLIEST, LATEST, ClusterClient
from epoka.client.columns import BytesColumn, Columns, decode, next_offset_of
from epoka.client.errors import ClientError, CorruptBatch, Unreachable
from epoka.client.fetching import Range, RangeReader
from epoka.client.sampling import bytes_per_offset
from epoka.dashboard.asking import FETCH_BYTES
from epoka.wire.errors import WireError

STARTS: Final = ("newest", "oldest", "offset", "time")
FORMS: Final = ("auto", "text", "hex", "base64")
MOST_MESSAGES: Final = 200
MOST_PARTITIONS: Final = 64
MOST_HEADERS: Final = 20
MOST_BYTES: Final = 4 << 20
"""What is fetched for one page, about."""
PREVIEW_BYTES: Final = 400
WHOLE_BYTES: Final = 64 << 10
"""What is shown of one key or value that somebody has opened."""


class BadQuestion(ClientError):
    """What was asked for cannot be meant."""


class Row(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    time_ms: int
    appended: bool
    """Whether the time is the broker's."""
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    headers: list[dict[str, Any]]
    headers_left_out: int


def messages_page(
    client: ClusterClient,
    topic: str,
    partition: int | None,
    *,
    start: str = "newest",
    at: int | None = None,
    cursor: str = "",
    size: int = 50,
    form: str = "auto",
) -> dict[str, Any]:
    """One page, and where the next one begins; `at` is an offset or a time in milliseconds."""
    known = client.refresh(topic).partitions
    there = sorted(known)
    if partition is not None and partition not in there:
        raise BadQuestion(f"{topic} has no partition {partition}; it has {len(there)}")
    wanted = there[:MOST_PARTITIONS] if partition is None else [partition]
    chosen = [each for each in wanted if known[each].leader >= 0]
    if not chosen:
        raise Unreachable(f"{topic} cannot be read: {'it' if partition is None else partition} has no leader")
    first, end = (
        {
            key[1]: found.offset
            for key, found in client.offsets({(topic, each): when for each in chosen}).items()
        }
        for when in (EARLIEST, LATEST)
    )
    bounds = _bounds(client, topic, first, end, start, at, cursor)
    back = start == "newest"
    budget = MOST_BYTES // len(chosen)
    lists: dict[int, list[Row]] = {}
    reached: dict[int, int] = {}
    for each, bound in bounds.items():
        reach = _back if back else _on
        limit = first[each] if back else end[each]
        lists[each], reached[each] = reach(client, topic, each, bound, limit, size, budget, form)
    # Each partition stays in its own order, whatever its times say, so that a page leaves no gap behind it.
    merged = heapq.merge(*lists.values(), key=lambda row: -row.time_ms if back else row.time_ms)
    rows = [row for row, _ in zip(merged, range(size), strict=False)]
    following = dict(reached)
    for each, found in lists.items():
        taken = sum(row.partition == each for row in rows)
        if taken < len(found):
            following[each] = bounds[each] if not taken else found[taken - 1].offset + (not back)
    more = {each: at for each, at in following.items() if (at > first[each] if back else at < end[each])}
    return {
        "topic": topic,
        "start": start,
        "rows": msgspec.to_builtins(rows),
        "cursor": ",".join(f"{each}:{at}" for each, at in following.items()) if more else "",
        "partitions": len(there),
        "partitions_shown": len(chosen),
        "first": min(first.values(), default=0),
        "end": max(end.values(), default=0),
        "records": sum(end[each] - first[each] for each in chosen),
    }


def message(
    client: ClusterClient, topic: str, partition: int, offset: int, form: str = "auto"
) -> dict[str, Any] | None:
    """One record, and more of it than a page shows; None when the log has none with that offset."""
    client.refresh(topic)
    for row in _rows(client, Range(topic, partition, offset, offset + 1), WHOLE_BYTES, form):
        return {"topic": topic, **msgspec.to_builtins(row)}
    return None


def shown(content: bytes | None, limit: int, form: str = "auto") -> dict[str, Any] | None:
    """A key, a value or a header for the page: how it is written, its size, and its beginning."""
    if content is None:
        return None
    head, about = content[:limit], {"size": len(content), "cut": len(content) > limit}
    if form in ("auto", "text"):
        text = _text(head, cut=len(content) > limit)
        if text is not None:
            return {"as": "text", "text": text, **about}
        if form == "text":
            return {"as": "text", "text": _safe(head.decode("utf-8", "replace")), **about}
    if form == "base64":
        return {"as": "base64", "text": base64.b64encode(head).decode(), **about}
    return {"as": "hex", "text": head.hex(" "), **about}


def _text(head: bytes, *, cut: bool) -> str | None:
    """The text that the bytes are; None when they are none."""
    for left_out in range(4 if cut else 1):
        # The cut may have gone through a character.
        try:
            text = head[: len(head) - left_out].decode()
        except UnicodeDecodeError:
            continue
        return None if any(each < " " and each not in "\t\n\r" for each in text) else _safe(text)
    return None


def _safe(text: str) -> str:
    """Characters that cannot be seen, or that turn what follows around, by their numbers."""
    if text.isprintable():
        return text
    return "".join(
        each if each in "\t\n\r" or each.isprintable() else f"\\u{{{ord(each):x}}}" for each in text
    )


def _bounds(
    client: ClusterClient,
    topic: str,
    first: dict[int, int],
    end: dict[int, int],
    start: str,
    at: int | None,
    cursor: str,
) -> dict[int, int]:
    """Where reading begins in each partition: upwards from there, or for the newest downwards."""
    if cursor:
        given = _decoded(cursor)
        return {each: min(max(given.get(each, first[each]), first[each]), end[each]) for each in first}
    if start == "newest":
        return end
    if start == "oldest":
        return first
    if at is None or at < 0:
        raise BadQuestion(f"from which {start}?")
    if start == "offset":
        if len(first) == 1 and not min(first.values()) <= at <= max(end.values()):
            (only,) = first
            raise BadQuestion(f"{topic}-{only} holds offsets {first[only]} to {end[only]}, not {at}")
        return {each: min(max(at, first[each]), end[each]) for each in first}
    found = client.offsets({(topic, each): at for each in first})
    return {each: end[each] if found[topic, each].offset < 0 else found[topic, each].offset for each in first}


def _decoded(cursor: str) -> dict[int, int]:
    given = {}
    for each in cursor.split(","):
        partition, colon, offset = each.partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal() and len(each) < 32):
            raise BadQuestion("this is no place to go on from")
        given[int(partition)] = int(offset)
    return given


def _on(
    client: ClusterClient, topic: str, partition: int, bound: int, end: int, size: int, budget: int, form: str
) -> tuple[list[Row], int]:
    """Up to `size` records from an offset on, and the offset behind what was looked at."""
    stop = min(bound + size, end)
    before = client.received_bytes
    rows: list[Row] = []
    for row in _rows(client, Range(topic, partition, bound, stop), PREVIEW_BYTES, form):
        rows.append(row)
        if client.received_bytes - before > budget:
            return rows, row.offset + 1
    return rows, stop


def _back(
    client: ClusterClient,
    topic: str,
    partition: int,
    bound: int,
    first: int,
    size: int,
    budget: int,
    form: str,
) -> tuple[list[Row], int]:
    """Up to `size` records before an offset, newest first, and the offset above which all was looked at."""
    begin = max(first, bound - size)
    if begin < bound:
        # Large records: fewer of them, for what is read forwards cannot be broken off before the newest.
        worth = bytes_per_offset(client, topic, partition, begin)
        begin = max(begin, bound - max(1, int(budget / worth)))
    return list(_rows(client, Range(topic, partition, begin, bound), PREVIEW_BYTES, form))[::-1], begin


def _rows(client: ClusterClient, wanted: Range, limit: int, form: str) -> Iterator[Row]:
    for columns in _columns(client, wanted):
        for row in range(len(columns)):
            yield _row(columns, row, wanted.partition, limit, form)


def _columns(client: ClusterClient, wanted: Range) -> Iterator[Columns]:
    """A range, one answer after the other: what was asked for is used up before more is asked for."""
    position = wanted.first
    while position < wanted.end:
        reader = RangeReader(client, msgspec.structs.replace(wanted, first=position))
        records = client.patiently(wanted.name, partial(reader.peek, FETCH_BYTES))
        try:
            following = next_offset_of(records, position)
        except WireError as error:
            raise CorruptBatch(f"{wanted.name}, at offset {position}: {error}") from error
        if following <= position:
            raise Unreachable(f"{wanted.name} has nothing at offset {position}")
        # Compiled code is quicker from the first hundred thousand records on, and takes seconds to load.
        yield from decode(records, position, wanted.end, about=wanted.name, kernel=vectors)
        position = following


def _row(columns: Columns, row: int, partition: int, limit: int, form: str) -> Row:
    headers: list[dict[str, Any]] = []
    begin, stop = 0, 0
    if columns.headers is not None:
        begin, stop = int(columns.headers.ends[row]), int(columns.headers.ends[row + 1])
        for at in range(begin, min(stop, begin + MOST_HEADERS)):
            name = shown(columns.headers.names[at] or b"", limit, "text")
            value = shown(columns.headers.values[at], limit, form)
            headers.append({"name": "" if name is None else name["text"], "value": value})
    return Row(
        partition,
        int(columns.offsets[row]),
        int(columns.timestamps_us[row]) // 1000,
        bool(columns.timestamp_types[row]),
        shown(_cell(columns.keys, row), limit, form),
        shown(_cell(columns.values, row), limit, form),
        headers,
        max(0, stop - begin - MOST_HEADERS),
    )


def _cell(column: BytesColumn | None, row: int) -> bytes | None:
    return None if column is None else column[row]

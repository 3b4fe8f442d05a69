"""Bodies of control requests, written straight from the image's columns into one buffer.

A full UpdateMetadata for half a million partitions is 28 MB of bytes; as objects it would be ten times that,
and bytes for each of two hundred brokers would be two hundred times that. So no partition becomes an object
here: rows are written some thousands at a time, and every receiver shares what comes out (`Encoded`).

Everything but the rows is written by the codec, and the bytes are those that the codec would write for the
same request. Only versions that name each topic once are known here. Which rows, and to whom, is decided
elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from epoka.model.image import ClusterImage
from epoka.model.partitions import PartitionTable, Rows
from epoka.wire import codec
from epoka.wire.encoded import Encoded
from epoka.wire.messages.leader_and_isr import LeaderAndIsrRequest
from epoka.wire.messages.update_metadata import UpdateMetadataRequest

ROWS_AT_A_TIME: Final = 1 << 13
"""What is held beside the body, some hundred bytes a row, stays small and in the processor's cache."""
TOPIC_IDS_SINCE: Final = 8
WORD: Final = 4
"""Everything about a partition is numbers of four bytes, but for the one byte `is_new`."""

_HEAD: Final = 16
"""Controller id, controller epoch and greatest generation; the number of topics stands behind them."""
_COUNT: Final = struct.Struct(">i")
_NAME_LENGTH: Final = struct.Struct(">h")

Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int32]


def update_metadata(request: UpdateMetadataRequest, version: int, image: ClusterImage, rows: Rows) -> Encoded:
    """The request with these rows of the image behind its own topics; rows of a topic stand together.

    A replica is offline when its broker is not registered.
    """
    table = image.partitions
    registered = np.array(sorted(image.brokers), np.int32)
    offline = _offline_counts(table, rows, registered)
    sizes = _sizes(table, rows, 8 * WORD)
    sizes += WORD * offline.astype(np.int32)

    def write(part: slice) -> memoryview:
        some, away = rows[part], offline[part].astype(np.int64)
        return _one_behind_the_other(
            sizes[part] // WORD,
            (
                (places, _metadata_rows(table, some[places], away.item(places[0]), request, registered))
                for places in _alike(_shape(table, some) | away << 32)
            ),
        )

    return _body(request, version, image, rows, sizes, write, with_ids=version >= TOPIC_IDS_SINCE)


def leader_and_isr(
    request: LeaderAndIsrRequest, version: int, image: ClusterImage, rows: Rows, is_new: Flags
) -> Encoded:
    """The request with these rows of the image behind its own topics; rows of a topic stand together."""
    table = image.partitions
    sizes = _sizes(table, rows, 7 * WORD + 1)

    def write(part: slice) -> memoryview:
        some, new = rows[part], is_new[part]
        return _one_behind_the_other(
            sizes[part],
            (
                (places, _role_rows(table, some[places], new[places], request))
                for places in _alike(_shape(table, some))
            ),
        )

    return _body(request, version, image, rows, sizes, write, with_ids=False)


# Rows of one shape: as many replicas and as many members of the ISR each.


def _metadata_rows(
    table: PartitionTable, rows: Rows, away: int, request: UpdateMetadataRequest, registered: Ids
) -> npt.NDArray[Any]:
    fields = _fields(table, rows, request.controller_epoch, more=1 + away)
    fields[:, -1 - away] = away
    if away:
        replicas = _replicas(table, rows)
        fields[:, -away:] = replicas[_absent(replicas, registered)].reshape(-1, away)
    return fields.byteswap(inplace=True)


def _role_rows(
    table: PartitionTable, rows: Rows, is_new: Flags, request: LeaderAndIsrRequest
) -> npt.NDArray[Any]:
    fields = _fields(table, rows, request.controller_epoch, more=0).byteswap(inplace=True).view(np.uint8)
    return np.concatenate((fields, is_new.view(np.uint8)[:, None]), axis=1)


def _fields(table: PartitionTable, rows: Rows, controller_epoch: int, *, more: int) -> Ids:
    """What both requests say of a partition, in their order, and room for `more` numbers."""
    replicas, isr = table.replicas_length.item(rows[0]), table.isr_length.item(rows[0])
    fields = np.empty((len(rows), 7 + isr + replicas + more), np.int32)
    fields[:, 0] = table.index[rows]
    fields[:, 1] = controller_epoch
    fields[:, 2] = table.leader[rows]
    fields[:, 3] = table.leader_epoch[rows]
    fields[:, 4] = isr
    block = table.block[rows].astype(np.int64)
    for place in range(isr):
        fields[:, 5 + place] = table.pool[block + (replicas + place)]
    fields[:, 5 + isr] = table.partition_epoch[rows]
    fields[:, 6 + isr] = replicas
    for place in range(replicas):
        fields[:, 7 + isr + place] = table.pool[block + place]
    return fields


def _replicas(table: PartitionTable, rows: Rows) -> Ids:
    places = np.arange(table.replicas_length.item(rows[0]))
    replicas: Ids = table.pool[table.block[rows].astype(np.int64)[:, None] + places]
    return replicas


def _sizes(table: PartitionTable, rows: Rows, fixed: int) -> Ids:
    """How many bytes each row takes, `fixed` and one word for each replica and member of the ISR."""
    sizes = table.replicas_length[rows].astype(np.int32)
    sizes += table.isr_length[rows]
    sizes *= WORD
    sizes += fixed
    return sizes


def _shape(table: PartitionTable, rows: Rows) -> Rows:
    return table.replicas_length[rows].astype(np.int64) << 16 | table.isr_length[rows]


def _offline_counts(table: PartitionTable, rows: Rows, registered: Ids) -> npt.NDArray[np.int16]:
    counts = np.zeros(len(rows), np.int16)
    for part in _parts(len(rows)):
        some, found = rows[part], counts[part]
        for places in _alike(table.replicas_length[some]):
            found[places] = _absent(_replicas(table, some[places]), registered).sum(axis=1)
    return counts


def _absent(ids: Ids, registered: Ids) -> Flags:
    if not len(registered):
        return np.ones(ids.shape, np.bool_)
    nearest = np.minimum(np.searchsorted(registered, ids), len(registered) - 1)
    absent: Flags = registered[nearest] != ids
    return absent


# The body.


def _body(
    request: UpdateMetadataRequest | LeaderAndIsrRequest,
    version: int,
    image: ClusterImage,
    rows: Rows,
    sizes: Ids,
    write: Callable[[slice], memoryview],
    *,
    with_ids: bool,
) -> Encoded:
    """What the codec writes for the request, with the rows between its topics and what stands behind them."""
    frame = codec.encode(request, version)
    tail = codec.encode(msgspec.structs.replace(request, topic_states=()), version)[_HEAD + _COUNT.size :]
    own_topics = frame[_HEAD + _COUNT.size : len(frame) - len(tail)]
    firsts, headers = _topics(image, rows, with_ids=with_ids)
    start = frame[:_HEAD] + _COUNT.pack(len(request.topic_states) + len(headers)) + own_topics
    # Memory of this size comes from the system and goes back to it at once.
    length = len(start) + sum(map(len, headers)) + int(sizes.sum(dtype=np.int64)) + len(tail)
    body = np.empty(length, np.uint8).data
    position = _put(body, 0, start)
    topic = 0
    firsts.append(len(rows) + 1)
    for part in _parts(len(rows)):
        written = write(part)
        ends = np.cumsum(sizes[part], dtype=np.int64)
        done = 0
        while firsts[topic] < part.stop:
            here = firsts[topic] - part.start
            upto = ends.item(here - 1) if here else 0
            position = _put(body, position, written[done:upto])
            position = _put(body, position, headers[topic])
            done = upto
            topic += 1
        position = _put(body, position, written[done:])
    position = _put(body, position, tail)
    assert position == len(body), "a body of another size than was reckoned"
    return Encoded(type(request), version, body)


def _topics(image: ClusterImage, rows: Rows, *, with_ids: bool) -> tuple[list[int], list[bytes]]:
    """Where in the rows each topic begins, and what stands before its partitions."""
    slots = image.partitions.topic[rows]
    firsts: list[int] = np.flatnonzero(np.diff(slots, prepend=-1)).tolist()
    headers = []
    for first, stop in pairwise([*firsts, len(rows)]):
        topic = image.topic_in(slots.item(first))
        name = topic.name.encode()
        topic_id = topic.id.bytes if with_ids else b""
        headers.append(_NAME_LENGTH.pack(len(name)) + name + topic_id + _COUNT.pack(stop - first))
    return firsts, headers


def _put(body: memoryview, position: int, piece: bytes | memoryview) -> int:
    stop = position + len(piece)
    body[position:stop] = piece
    return stop


# Columns.


def _parts(length: int) -> Iterator[slice]:
    for start in range(0, length, ROWS_AT_A_TIME):
        yield slice(start, min(start + ROWS_AT_A_TIME, length))


def _alike(keys: npt.NDArray[Any]) -> list[Rows]:
    """The places of equal keys, key by key."""
    if (keys == keys[0]).all():
        return [np.arange(len(keys))]
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def _one_behind_the_other(lengths: Ids, blocks: Iterable[tuple[Rows, npt.NDArray[Any]]]) -> memoryview:
    """The bytes of rows in their order; they come in blocks of equal length, with their places."""
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    total = int(lengths.sum(dtype=np.int64))
    whole: npt.NDArray[Any] | None = None
    for places, block in blocks:
        if len(places) == len(lengths):
            whole = block.reshape(-1)
        else:
            if whole is None:
                whole = np.empty(total, block.dtype)
            whole[starts[places][:, None] + np.arange(block.shape[1])] = block
    assert whole is not None
    return whole.view(np.uint8).data

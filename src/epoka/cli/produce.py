"""`epoka produce`: records from standard input into a topic, as `kcat -P` does it."""

from __future__ import annotations

import base64
import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from epoka.cli.brokers import asking
from epoka.cli.format import unescaped
from epoka.cli.output import EXIT_GOOD, Failed, say_json, usage
from epoka.cli.writing import Writer
from epoka.client.errors import Unreachable
from epoka.wire.compression import Codec, codec_named
from epoka.wire.records import Record

READ_BYTES = 256 * 1024
ROUND_BYTES = 1024 * 1024
"""What is gathered at most before it is sent; less when nothing more comes at once."""
ACKS = {"all": -1, "-1": -1, "1": 1}

Headers = tuple[tuple[str, bytes | None], ...]


class Shape(msgspec.Struct, frozen=True):
    """How a piece of input becomes a record."""

    partition: int | None
    key: bytes | None
    key_delimiter: bytes | None
    headers: Headers
    empty_is_null: bool
    from_json: bool


def produce(
    topic: str,
    bootstrap: str | None,
    data: Path | None,
    partition: int | None,
    key: str | None,
    key_delimiter: str | None,
    delimiter: str,
    header: list[str],
    compression: str,
    acks: str,
    null: bool,
    from_json: bool,
    count: int | None,
    timeout: float,
    json: bool,
) -> int:
    if key is not None and key_delimiter is not None:
        usage("-k gives every record the same key, -K takes it from the input; give one")
    if key_delimiter == "":
        usage("-K is at least one byte")
    if from_json:
        own = {"-k": key is not None, "-K": key_delimiter is not None, "-Z": null}
        if given := [name for name, is_given in own.items() if is_given]:
            usage(f"-J: every record says itself what its key is and what is null; leave {given[0]} out")
    if acks not in ACKS:
        usage(f"--acks is all or 1, not {acks!r}")
    if sys.stdin is None:
        raise Failed("standard input is closed")
    codec = _codec(compression)
    shape = Shape(
        partition,
        None if key is None else key.encode(),
        None if key_delimiter is None else unescaped(key_delimiter),
        tuple(_header(each) for each in header),
        null,
        from_json,
    )
    patience_ms = int(timeout * 1000)
    ours = {"acks": ACKS[acks], "delivery_timeout_ms": patience_ms}
    with asking(bootstrap, data, patience_ms=patience_ms, **ours) as client:
        writer = Writer(client, topic, codec)
        done = 0
        for pieces in _rounds(sys.stdin.fileno(), unescaped(delimiter) or b"\n"):
            if count is not None:
                pieces = pieces[: count - done]
            try:
                _write(writer, pieces, shape, done)
            except Unreachable as error:
                raise Failed(f"{topic} cannot be written: {error}") from error
            done += len(pieces)
            if count is not None and done >= count:
                break
    if json:
        partitions = {
            str(each.partition): {
                "records": each.count,
                "first_offset": each.first_offset,
                "last_offset": each.last_offset,
            }
            for each in writer.written
        }
        say_json({"topic": topic, "records": done, "partitions": partitions})
    return EXIT_GOOD


def _write(writer: Writer, pieces: list[bytes], shape: Shape, before: int) -> None:
    now = int(time.time() * 1000)
    chosen = writer.partition_for(None)
    records: dict[int, list[Record]] = {}
    for number, piece in enumerate(pieces, before + 1):
        partition, record = (
            _from_json(piece, now, number, shape.headers)
            if shape.from_json
            else (None, _plain(piece, now, shape))
        )
        if shape.partition is not None:
            partition = shape.partition
        elif partition is None:
            partition = chosen if record.key is None else writer.partition_for(record.key)
        records.setdefault(partition, []).append(record)
    writer.write(records)


def _plain(piece: bytes, now: int, shape: Shape) -> Record:
    key, value = shape.key, piece
    if shape.key_delimiter is not None:
        first, found, rest = piece.partition(shape.key_delimiter)
        # Without the delimiter the whole piece is the value, as in kcat.
        key, value = (first, rest) if found else (None, piece)
    if shape.empty_is_null:
        return Record(0, now, key or None, value or None, shape.headers)
    return Record(0, now, key, value, shape.headers)


def _from_json(piece: bytes, now: int, number: int, more: Headers = ()) -> tuple[int | None, Record]:
    """What `epoka consume --json` and `kcat -J` write; `more` are headers besides its own."""
    try:
        given = msgspec.json.decode(piece, type=dict[str, Any])
        headers = given.get("headers") or ()
        if isinstance(headers, dict):
            headers = [text for pair in headers.items() for text in pair]
        encoded = given.get("headers_base64") or [None] * (len(headers) // 2)
        pairs = tuple(
            (str(name), _bytes(value, text))
            for name, value, text in zip(headers[::2], headers[1::2], encoded, strict=True)
        )
        partition = given.get("partition")
        when = int(given.get("ts", now))
        if not -1 <= when < 1 << 62:
            raise ValueError(f"ts is {when}")
        record = Record(
            0,
            when,
            _bytes(given.get("key"), given.get("key_base64")),
            _bytes(given.get("payload"), given.get("payload_base64")),
            (*pairs, *more),
        )
        return None if partition is None else int(partition), record
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise Failed(f"record {number} is not one that `epoka consume --json` writes: {error}") from error


def _bytes(value: Any, encoded: str | None = None) -> bytes | None:
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _rounds(source: int, delimiter: bytes) -> Iterator[list[bytes]]:
    """Whole pieces as they come: many when they come fast, few when somebody types them."""
    rest = b""
    ended = False
    while not ended:
        gathered = [rest]
        size = 0
        while size < ROUND_BYTES:
            if size and not select.select([source], [], [], 0)[0]:
                break
            try:
                chunk = os.read(source, READ_BYTES)
            except OSError as error:
                raise Failed(f"standard input cannot be read: {error.strerror}") from error
            if not chunk:
                ended = True
                break
            gathered.append(chunk)
            size += len(chunk)
        *pieces, rest = b"".join(gathered).split(delimiter)
        if ended and rest:
            pieces.append(rest)
        if pieces:
            yield pieces


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    if not name:
        usage(f"a header is written as name=value, not {text!r}")
    return name, value.encode() if separator else None


def _codec(name: str) -> Codec:
    try:
        return codec_named(name)
    except ValueError:
        usage(f"-z is one of {', '.join(each.name.lower() for each in Codec)}, not {name!r}")

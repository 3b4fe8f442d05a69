"""How `epoka consume` writes a record: kcat's format tokens, or kcat's JSON. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from epoka.wire.records import Record

TIMESTAMP_TYPES = ("create", "logappend")
"""Who has said when a record was written: its producer, or the log. By the number that a batch has for it."""


class Writes(Protocol):
    def __call__(self, topic: str, partition: int, record: Record, tstype: int = 0) -> bytes:
        """The bytes that stand for a record."""


Part = Callable[[str, int, Record], bytes]

TOKENS = {
    "s": ("payload", lambda topic, partition, record: record.value or b""),
    "S": ("payload length, -1 for null", lambda topic, partition, record: _length(record.value)),
    "R": (
        "payload length as four bytes",
        lambda topic, partition, record: (-1 if record.value is None else len(record.value)).to_bytes(
            4, "big", signed=True
        ),
    ),
    "k": ("key", lambda topic, partition, record: record.key or b""),
    "K": ("key length, -1 for null", lambda topic, partition, record: _length(record.key)),
    "T": ("timestamp in milliseconds", lambda topic, partition, record: b"%d" % record.timestamp),
    "h": ("headers as name=value,...", lambda topic, partition, record: _headers(record)),
    "t": ("topic", lambda topic, partition, record: topic.encode()),
    "p": ("partition", lambda topic, partition, record: b"%d" % partition),
    "o": ("offset", lambda topic, partition, record: b"%d" % record.offset),
    "%": ("a percent sign", lambda topic, partition, record: b"%"),
}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


class BadFormat(ValueError):
    """A format that has no meaning; the text says where."""


def compiled(template: str) -> Writes:
    """The writer of a format such as `%t [%p] %o: %s\\n`; BadFormat for a token that nobody knows."""
    parts: list[bytes | Part] = []
    for match in re.finditer(r"%(.?)|([^%]+)", template, re.S):
        token, text = match.groups()
        if text is not None:
            parts.append(unescaped(text))
        elif token in TOKENS:
            parts.append(TOKENS[token][1])
        else:
            raise BadFormat(
                f"there is no %{token} in a format; there are {', '.join('%' + t for t in TOKENS)}"
            )

    def write(topic: str, partition: int, record: Record, tstype: int = 0) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(topic, partition, record) for part in parts)

    return write


def plain(key_delimiter: bytes | None, delimiter: bytes) -> Writes:
    """The payload, behind its key if a delimiter for that is given."""
    if key_delimiter is None:
        return lambda topic, partition, record, tstype=0: (record.value or b"") + delimiter
    return lambda topic, partition, record, tstype=0: b"".join(
        (record.key or b"", key_delimiter, record.value or b"", delimiter)
    )


def as_json(topic: str, partition: int, record: Record, tstype: int = 0) -> bytes:
    """One line, in the words of `kcat -J`; bytes that are no text are written as base64 beside a null."""
    encoded = [_base64(value) for _, value in record.headers]
    told: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "tstype": TIMESTAMP_TYPES[tstype],
        "ts": record.timestamp,
        "headers": [each for name, value in record.headers for each in (name, _text(value))],
        # One a header, null for what stands in the headers themselves.
        **({"headers_base64": encoded} if any(encoded) else {}),
        **_named("key", record.key),
        **_named("payload", record.value),
    }
    return msgspec.json.encode(told) + b"\n"


def unescaped(text: str) -> bytes:
    r"""Text with `\n`, `\t`, `\r`, `\0`, `\\` and `\xHH` as the bytes that they stand for."""
    written = bytearray()
    at = 0
    for match in re.finditer(r"\\(?:x([0-9a-fA-F]{2})|([nrt0\\]))", text):
        written += text[at : match.start()].encode()
        written += bytes.fromhex(match[1]) if match[1] else _ESCAPES[match[2]]
        at = match.end()
    return bytes(written + text[at:].encode())


def _length(value: bytes | None) -> bytes:
    return b"-1" if value is None else b"%d" % len(value)


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers
    )


def _named(name: str, value: bytes | None) -> dict[str, str | None]:
    encoded = _base64(value)
    return {name: _text(value)} if encoded is None else {name: None, f"{name}_base64": encoded}


def _base64(value: bytes | None) -> str | None:
    """What is no text; None for what is."""
    return None if value is None or _text(value) is not None else base64.b64encode(value).decode()


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None

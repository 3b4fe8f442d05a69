"""Messages to bytes and back.

Encoders and decoders are compiled on first use, one for every class and version, from the schema of the
class's module. Whatever bytes a peer sends, `decode` gives a message or raises a WireError; whatever
message of ours does not fit its schema, `encode` raises EncodeError and says which field it was.
"""

from __future__ import annotations

import struct
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from epoka.wire.decoder import Decoder, compile_decoder
from epoka.wire.diagnosis import diagnosis
from epoka.wire.encoded import Encoded
from epoka.wire.encoder import Encoder, compile_encoder
from epoka.wire.errors import EncodeError, Malformed, Truncated, UnsupportedVersion
from epoka.wire.notation import Schema, Section, parse, struct_fields
from epoka.wire.varint import Buffer

M = TypeVar("M", bound=msgspec.Struct)

DEFAULT_MAX_ELEMENTS = 1_000_000
# Byte strings longer than this are not copied together with their neighbours by `encode_parts`.
SEPARATE_FROM = 1024

# What an encoder raises when a value does not fit; a field that must not be lost raises EncodeError itself.
_UNFIT = (struct.error, TypeError, AttributeError, ValueError, OverflowError)

_SCHEMA_FOLDER = Path(__file__).with_name("schemas")
_schemas: dict[str, Schema] = {}
_encoders: dict[tuple[type, int], Encoder] = {}
_bytes_decoders: dict[tuple[type, int], Decoder] = {}
_any_decoders: dict[tuple[type, int], Decoder] = {}


def encode(message: msgspec.Struct | Encoded, version: int) -> bytes:
    """The bytes of a message at a version."""
    key = (type(message), version)
    encoder = _encoders.get(key) or _new_encoder(*key)
    try:
        return b"".join(encoder(message))
    except _UNFIT as error:
        raise _explained(message, version, error) from error


def encode_parts(message: msgspec.Struct | Encoded, version: int) -> list[bytes | memoryview]:
    """As `encode`, but large byte strings stay the objects they are, for one gathering write."""
    key: tuple[type, int] = (type(message), version)
    encoder = _encoders.get(key) or _new_encoder(*key)
    try:
        parts = encoder(message)
        if not _has_records(key[0]):
            return [b"".join(parts)]
        gathered: list[bytes | memoryview] = []
        start = 0
        for index, part in enumerate(parts):
            if len(part) > SEPARATE_FROM:
                if start < index:
                    gathered.append(b"".join(parts[start:index]))
                gathered.append(part)
                start = index + 1
        if start < len(parts):
            gathered.append(b"".join(parts[start:]))
        return gathered
    except _UNFIT as error:
        raise _explained(message, version, error) from error


def decode(
    cls: type[M],
    version: int,
    buffer: Buffer,
    *,
    position: int = 0,
    max_elements: int = DEFAULT_MAX_ELEMENTS,
    whole: bool = True,
) -> M:
    """The message that fills the buffer from a position to its end, or only begins there unless `whole`."""
    if type(buffer) is not bytes and not _has_records(cls):
        # A copy costs less than reading strings through another kind of buffer.
        buffer = bytes(buffer)
    message, stop = decode_prefix(cls, version, buffer, position, max_elements=max_elements)
    if whole and stop != len(buffer):
        raise Malformed(f"{cls.__name__} v{version}: {len(buffer) - stop} bytes behind the message")
    return message


def decode_prefix(
    cls: type[M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    max_elements: int = DEFAULT_MAX_ELEMENTS,
) -> tuple[M, int]:
    """The message at a position, and the position behind it."""
    key = (cls, version)
    if type(buffer) is bytes:
        decoder = _bytes_decoders.get(key) or _new_decoder(cls, version, from_bytes=True)
    else:
        decoder = _any_decoders.get(key) or _new_decoder(cls, version, from_bytes=False)
    end = len(buffer)
    if not 0 <= position <= end:
        raise Truncated(f"{cls.__name__} v{version}: position {position} of {end} bytes")
    try:
        message, stop = decoder(buffer, position, end, max_elements)
    except (IndexError, struct.error):
        raise Truncated(f"{cls.__name__} v{version}: the bytes end at {end}, the message does not") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"{cls.__name__} v{version}: a string is not UTF-8: {error.reason}") from None
    if stop > end:
        raise Truncated(f"{cls.__name__} v{version}: the bytes end at {end}, the message at {stop}")
    return message, stop


def class_of(message: Any) -> type[Any]:
    """What the receiver of a message will hold."""
    return message.message_class if isinstance(message, Encoded) else type(message)


def opened(message: Any, *, max_elements: int = DEFAULT_MAX_ELEMENTS) -> Any:
    """The message itself, also of one that is bytes already."""
    if isinstance(message, Encoded):
        return decode(message.message_class, message.version, message.body, max_elements=max_elements)
    return message


def schema_of(cls: type) -> Schema:
    """The schema that a message class was generated from."""
    module = cls.__module__
    if module not in _schemas:
        stem = module.rpartition(".")[2]
        path = _SCHEMA_FOLDER / f"{stem}.msg"
        if module != f"epoka.wire.messages.{stem}" or not path.exists():
            raise EncodeError(f"{cls.__qualname__} is not a message class")
        _schemas[module] = parse(path.read_text(encoding="utf-8"), path.name)
    return _schemas[module]


def adopt(module: str, schema: Schema) -> None:
    """Lets the classes of a module that lies elsewhere be encoded and decoded by a schema."""
    _schemas[module] = schema


def section_of(cls: type) -> tuple[Schema, Section]:
    schema = schema_of(cls)
    try:
        return schema, schema.section_of(cls.__name__)
    except KeyError:
        raise EncodeError(f"{cls.__qualname__} is not in {schema.file}") from None


@cache
def _has_records(cls: type) -> bool:
    """Whether a class holds byte strings that are worth not copying."""
    if cls is Encoded:
        return True
    schema, _ = section_of(cls)
    fields = struct_fields(schema.structs[cls.__name__], schema.structs)
    return any(field.type.name in ("records", "bytes") for field in fields)


def _new_encoder(cls: type, version: int) -> Encoder:
    if cls is Encoded:
        _encoders[cls, version] = partial(Encoded.at, version=version)
        return _encoders[cls, version]
    schema, section = section_of(cls)
    if version not in section.versions:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    classes = vars(sys.modules[cls.__module__])
    encoder = compile_encoder(schema, section, cls.__name__, classes, version)
    _encoders[cls, version] = encoder
    return encoder


def _new_decoder(cls: type, version: int, *, from_bytes: bool) -> Decoder:
    schema, section = section_of(cls)
    if version not in section.versions:
        raise UnsupportedVersion(f"{cls.__name__} has no version {version}")
    classes = vars(sys.modules[cls.__module__])
    decoder = compile_decoder(schema, section, cls.__name__, classes, version, from_bytes=from_bytes)
    (_bytes_decoders if from_bytes else _any_decoders)[cls, version] = decoder
    return decoder


def _explained(message: Any, version: int, error: Exception) -> EncodeError:
    schema, section = section_of(type(message))
    found = diagnosis(message, schema, section, version) or f"{type(error).__name__}: {error}"
    return EncodeError(f"{type(message).__name__} v{version}: {found}")

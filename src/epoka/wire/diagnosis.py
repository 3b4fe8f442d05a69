"""Finds the field that keeps a message from being encoded.

Encoders check little, so that they are fast; this walk runs only after one has failed and names the first
value that does not fit its schema. It decides nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from epoka.wire.encoder import MAX_STRING
from epoka.wire.notation import INTEGER_BITS, Field, Schema, Section, StructType

EXPECTED: dict[str, tuple[type, ...]] = {
    "bool": (object,),
    "uuid": (UUID,),
    "float64": (int, float),
    "bytes": (bytes, bytearray, memoryview),
    "records": (bytes, bytearray, memoryview),
}


def diagnosis(message: Any, schema: Schema, section: Section, version: int) -> str | None:
    """A sentence about the first value that does not fit, or None when all do."""
    return _struct(message, schema.structs[type(message).__name__], schema, section, version, "")


def _struct(
    value: Any, struct: StructType, schema: Schema, section: Section, version: int, path: str
) -> str | None:
    if type(value).__name__ != struct.name:
        return f"{path} is {type(value).__name__}, not {struct.name}"
    for field in struct.fields:
        if version in field.versions:
            inner = f"{path}.{field.name}" if path else field.name
            found = _field(getattr(value, field.name), field, schema, section, version, inner)
            if found is not None:
                return found
    return None


def _field(value: Any, field: Field, schema: Schema, section: Section, version: int, path: str) -> str | None:
    if value is None:
        return (
            None if field.nullable_at(version) else f"{path} is None, but version {version} has no null there"
        )
    if not field.type.array:
        return _single(value, field, schema, section, version, path)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{path} is {type(value).__name__}, not a sequence"
    for index, element in enumerate(value):
        found = _single(element, field, schema, section, version, f"{path}[{index}]")
        if found is not None:
            return found
    return None


def _single(
    value: Any, field: Field, schema: Schema, section: Section, version: int, path: str
) -> str | None:
    name = field.type.name
    if field.type.is_struct:
        return _struct(value, schema.structs[name], schema, section, version, path)
    if name in INTEGER_BITS:
        if not isinstance(value, int):
            return f"{path} is {type(value).__name__}, not {name}"
        bits = INTEGER_BITS[name]
        low, high = (0, 1 << bits) if name.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
        return None if low <= value < high else f"{path} is {value}, which does not fit {name}"
    if name == "string":
        return _string(value, path)
    if not isinstance(value, EXPECTED[name]):
        return f"{path} is {type(value).__name__}, not {name}"
    return None


def _string(value: Any, path: str) -> str | None:
    if not isinstance(value, str):
        return f"{path} is {type(value).__name__}, not string"
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        return f"{path} cannot be written as UTF-8: {error.reason}"
    return None if size <= MAX_STRING else f"{path} has {size} bytes; the most is {MAX_STRING}"

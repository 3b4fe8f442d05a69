"""Python source under construction, and what it refers to.

The encoder and the decoder of a message at one version are straight-line functions, written here line by
line and compiled once. Names are handed out, never chosen, so nothing in a schema can reach into the
code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from epoka.wire.notation import FIXED, Field, Schema, Section, StructType


class Source:
    """Lines, indentation, fresh names and the constants the lines refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0
        self.constants: dict[str, Any] = {}
        self.known: dict[tuple[str, str], str] = {}

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.emit(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, value: object, prefix: str = "k") -> str:
        name = self.fresh(prefix)
        self.constants[name] = value
        return name

    def packer(self, method: str, formats: str) -> str:
        """The name of a bound method of the struct with these formats."""
        key = (method, formats)
        if key not in self.known:
            self.known[key] = self.constant(getattr(struct.Struct(">" + formats), method), "s")
        return self.known[key]

    def function(self, name: str, title: str) -> Callable[..., Any]:
        text = "\n".join(self.lines)
        namespace = dict(self.constants)
        exec(compile(text, f"<{title}>", "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function


class Layout:
    """A section at one version: which fields are there, and how large they are at least."""

    def __init__(self, schema: Schema, section: Section, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = section.flexible_at(version)

    def struct(self, name: str) -> StructType:
        return self.schema.structs[name]

    def present(self, struct: StructType) -> list[Field]:
        """The fields in their order on the wire, without tagged ones."""
        return [field for field in struct.fields if field.tag is None and self.version in field.versions]

    def tagged(self, struct: StructType) -> list[Field]:
        """The tagged fields of this version by ascending tag."""
        fields = [
            field for field in struct.fields if field.tag is not None and self.version in field.versions
        ]
        return sorted(fields, key=lambda field: field.tag or 0)

    def minimum(self, field: Field) -> int:
        """The least bytes that a field takes."""
        if field.type.array:
            return 1 if self.flexible else 4
        if field.type.is_struct and field.nullable_at(self.version):
            return 1
        return self.element_minimum(field)

    def element_minimum(self, field: Field) -> int:
        """The least bytes that the field, or an element of it, takes when it is not null."""
        name = field.type.name
        if field.type.is_struct:
            struct = self.struct(name)
            return sum(map(self.minimum, self.present(struct))) + (1 if self.flexible else 0)
        if name in FIXED:
            return FIXED[name][1]
        if self.flexible:
            return 1
        return 2 if name == "string" else 4

    def counted_integers(self, field: Field) -> bool:
        """Whether a field is an array, never null, of numbers."""
        name = field.type.name
        return field.type.array and name in FIXED and name != "uuid" and not field.nullable_at(self.version)

    def fusible(self, struct: StructType) -> bool:
        """Whether a struct is numbers and arrays of numbers alone, so that lengths decide its layout."""
        fields = self.present(struct)
        arrays = [field for field in fields if field.type.array]
        if not arrays or not all(map(self.counted_integers, arrays)):
            return False
        return all(field.type.name in FIXED for field in fields if not field.type.array)

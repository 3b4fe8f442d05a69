"""Compiles the decoder of one message at one version.

A decoder reads one message from a buffer and says where it ended. Neighbouring fields of fixed size, and
the length of what follows them, are read by one `struct.unpack_from`. An array of structs that are
numbers and arrays of numbers alone is read by guessing its lengths, see `guessing`.

Nothing is allocated by a number that the peer has written before that number was compared with the bytes
left and with the budget of elements. Every read moves the position forward, and whatever would move it
past the end raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID, SafeUUID

from epoka.wire.encoder import MAX_STRING
from epoka.wire.errors import Malformed, TooLarge, Truncated, WireError
from epoka.wire.guessing import Guesses
from epoka.wire.notation import FIXED, ZERO_UUID, Field, Schema, Section, StructType
from epoka.wire.source import Layout, Source
from epoka.wire.varint import Buffer, read_more, read_uvarint

# (buffer, position, end, budget of elements) -> (message, position)
Decoder = Callable[[Buffer, int, int, int], tuple[Any, int]]

_CACHED_ARRAY = 512
_new_uuid = UUID.__new__
_set_int = UUID.__dict__["int"].__set__
_set_safety = UUID.__dict__["is_safe"].__set__


@lru_cache(maxsize=16384)
def uuid_of(raw: bytes) -> UUID:
    """A UUID from its bytes; remembered, because the same topic ids come by all the time."""
    value = _new_uuid(UUID)
    _set_int(value, int.from_bytes(raw, "big"))
    _set_safety(value, SafeUUID.unknown)
    return value


class ArrayUnpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """Length to the `unpack_from` of an array of one kind of number."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        unpack = struct.Struct(f">{length}{self.code}").unpack_from
        if length <= _CACHED_ARRAY:
            self[length] = unpack
        return unpack


ARRAYS = {code: ArrayUnpackers(code) for code, _ in FIXED.values() if code != "16s"}


def bad_length(label: str, length: int, position: int, end: int) -> WireError:
    """Why a length that was just read cannot be right; `length` is -1 for null."""
    if length == -1:
        return Malformed(f"{label} is null")
    if length < 0:
        return Malformed(f"{label} has length {length}")
    return Truncated(f"{label} needs {length} bytes at {position}, but the bytes end at {end}")


def bad_count(label: str, count: int, position: int, end: int) -> WireError:
    """Why a count that was just read cannot be right; `count` is -1 for null."""
    if count == -1:
        return Malformed(f"{label} is null")
    if count < 0:
        return Malformed(f"{label} has {count} elements")
    return Truncated(f"{label} announces {count} elements at {position}, but the bytes end at {end}")


def too_many(label: str) -> TooLarge:
    return TooLarge(f"{label}: more elements in one message than this node accepts")


def read_long_string(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The compact length of a string that is not short."""
    length, position = read_more(buffer, position, first)
    if length > MAX_STRING + 1:
        raise Malformed(f"a string of {length - 1} bytes; the most is {MAX_STRING}")
    return length, position


def read_tag_count(buffer: Buffer, position: int, end: int, first: int) -> tuple[int, int]:
    """The number of tagged fields, which take two bytes each at least."""
    count = first
    if first > 127:
        count, position = read_more(buffer, position, first)
    if count * 2 > end - position:
        raise Truncated(f"{count} tagged fields announced at {position}, but the bytes end at {end}")
    return count, position


def read_tag(buffer: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """Tag, position of the value and position behind it."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    stop = position + size
    if stop > end:
        raise Truncated(f"tagged field {tag} needs {size} bytes at {position}, but the bytes end at {end}")
    return tag, position, stop


def skip_tags(buffer: Buffer, position: int, end: int, first: int) -> int:
    """The position behind tagged fields of which none is known."""
    count, position = read_tag_count(buffer, position, end, first)
    for _ in range(count):
        _, _, position = read_tag(buffer, position, end)
    return position


def repeated_tag(label: str) -> Malformed:
    return Malformed(f"{label} comes twice among the tagged fields")


def wrong_tag_size(label: str, position: int, stop: int) -> Malformed:
    return Malformed(f"{label} ended at {position}, but its tagged field ends at {stop}")


def compile_decoder(
    schema: Schema,
    section: Section,
    name: str,
    classes: Mapping[str, type],
    version: int,
    *,
    from_bytes: bool,
) -> Decoder:
    """The decoder of a struct of a schema at a version; `from_bytes` if the buffer is always `bytes`."""
    return _DecoderSource(schema, section, classes, version, from_bytes).compile(schema.structs[name])


class _DecoderSource(Source):
    def __init__(
        self, schema: Schema, section: Section, classes: Mapping[str, type], version: int, from_bytes: bool
    ) -> None:
        super().__init__()
        self.layout = Layout(schema, section, version)
        self.classes = classes
        self.version = version
        self.from_bytes = from_bytes
        self.flexible = self.layout.flexible
        self.pending: list[tuple[str, str]] = []
        self.class_names: dict[str, str] = {}
        self.needs_view = False
        self.constants.update(
            more=read_more,
            long_string=read_long_string,
            bad_length=bad_length,
            bad_count=bad_count,
            too_many=too_many,
            read_tag_count=read_tag_count,
            read_tag=read_tag,
            skip_tags=skip_tags,
            repeated_tag=repeated_tag,
            wrong_tag_size=wrong_tag_size,
            Malformed=Malformed,
            uuid_of=uuid_of,
            ZERO_UUID=ZERO_UUID,
        )
        for code, unpackers in ARRAYS.items():
            self.constants[f"array_{ord(code)}"] = unpackers

    def compile(self, struct_type: StructType) -> Decoder:
        with self.block("def decode(buf, pos, end, budget):"):
            first = len(self.lines)
            value = self.read_struct(struct_type, struct_type.name)
            if self.needs_view:
                self.lines.insert(first, "    view = memoryview(buf)")
            self.emit(f"return {value}, pos")
        return self.function("decode", f"decode {struct_type.name} v{self.version}")

    def flush(self) -> None:
        """Reads the fixed fields that have been waiting for company."""
        if not self.pending:
            return
        formats = "".join(code for code, _ in self.pending)
        targets = [target for _, target in self.pending]
        size = struct.calcsize(">" + formats)
        if formats == "B":
            self.emit(f"{targets[0]} = buf[pos]")
        else:
            left = ", ".join(targets) + ("," if len(targets) == 1 else "")
            self.emit(f"{left} = {self.packer('unpack_from', formats)}(buf, pos)")
        self.emit(f"pos += {size}")
        self.pending = []

    def class_name(self, name: str) -> str:
        if name not in self.class_names:
            self.class_names[name] = self.constant(self.classes[name], "C")
        return self.class_names[name]

    def default(self, field: Field) -> str:
        if field.default is ...:
            return self.constant(self.classes[field.type.name]())
        if field.type.name == "uuid" and field.default is not None and not field.type.array:
            return "ZERO_UUID"
        return self.constant(field.default) if isinstance(field.default, str) else repr(field.default)

    def call(self, struct_type: StructType, values: dict[str, str]) -> str:
        """The constructor; fields that the version lacks at the end are left to their defaults."""
        arguments = [values.get(field.name) or self.default(field) for field in struct_type.fields]
        while arguments and struct_type.fields[len(arguments) - 1].name not in values:
            arguments.pop()
        return f"{self.class_name(struct_type.name)}({', '.join(arguments)})"

    def read_struct(self, struct_type: StructType, label: str) -> str:
        """Emits the reading of a struct; the expression that makes it."""
        values: dict[str, str] = {}
        for field in self.layout.present(struct_type):
            values[field.name] = self.read_field(field, f"{label}.{field.name}")
        if self.flexible:
            self.read_tagged(self.layout.tagged(struct_type), values, label)
        else:
            self.flush()
        return self.call(struct_type, values)

    def read_tagged(self, tagged: list[Field], values: dict[str, str], label: str) -> None:
        count = self.fresh("t")
        self.pending.append(("B", count))
        self.flush()
        if not tagged:
            with self.block(f"if {count}:"):
                self.emit(f"pos = skip_tags(buf, pos, end, {count})")
            return
        for field in tagged:
            values[field.name] = self.fresh()
            self.emit(f"{values[field.name]} = {self.default(field)}")
        with self.block(f"if {count}:"):
            tag, stop, outer, seen = self.fresh("t"), self.fresh("q"), self.fresh("e"), self.fresh("b")
            self.emit(f"{count}, pos = read_tag_count(buf, pos, end, {count})")
            self.emit(f"{outer} = end")
            self.emit(f"{seen} = 0")
            with self.block(f"for _ in range({count}):"):
                self.emit(f"{tag}, pos, {stop} = read_tag(buf, pos, end)")
                for number, field in enumerate(tagged):
                    inner = f"{label}.{field.name}"
                    with self.block(f"{'el' if number else ''}if {tag} == {field.tag}:"):
                        with self.block(f"if {seen} & {1 << number}:"):
                            self.emit(f"raise repeated_tag({inner!r})")
                        self.emit(f"{seen} |= {1 << number}")
                        self.emit(f"end = {stop}")
                        value = self.read_field(field, inner)
                        self.flush()
                        self.emit(f"{values[field.name]} = {value}")
                        self.emit(f"end = {outer}")
                        with self.block(f"if pos != {stop}:"):
                            self.emit(f"raise wrong_tag_size({inner!r}, pos, {stop})")
                with self.block("else:"):
                    self.emit(f"pos = {stop}")

    def read_field(self, field: Field, label: str) -> str:
        nullable = field.nullable_at(self.version)
        name = field.type.name
        if field.type.array:
            return self.read_array(field, nullable, label)
        if field.type.is_struct:
            return self.read_inner(field, nullable, label)
        if name not in FIXED:
            return self.read_counted_bytes(name, nullable, label)
        value = self.fresh()
        self.pending.append((FIXED[name][0], value))
        return f"uuid_of({value})" if name == "uuid" else value

    def read_length(self, fixed_code: str, more: str) -> str:
        """Emits the reading of a length; null is -1 in both encodings."""
        length = self.fresh("n")
        self.pending.append(("B" if self.flexible else fixed_code, length))
        self.flush()
        if self.flexible:
            with self.block(f"if {length} > 127:"):
                self.emit(f"{length}, pos = {more}(buf, pos, {length})")
            self.emit(f"{length} -= 1")
        return length

    def read_counted_bytes(self, name: str, nullable: bool, label: str) -> str:
        length = self.read_length(
            "h" if name == "string" else "i", "long_string" if name == "string" else "more"
        )
        value, stop = self.fresh(), self.fresh("q")
        if nullable:
            with self.block(f"if {length} == -1:"):
                self.emit(f"{value} = None")
            with self.block("else:"):
                self.read_raw(name, value, length, stop, label)
        else:
            self.read_raw(name, value, length, stop, label)
        return value

    def read_raw(self, name: str, value: str, length: str, stop: str, label: str) -> None:
        self.emit(f"{stop} = pos + {length}")
        with self.block(f"if {length} < 0 or {stop} > end:"):
            self.emit(f"raise bad_length({label!r}, {length}, pos, end)")
        if name == "records":
            self.needs_view = True
            self.emit(f"{value} = view[pos:{stop}]")
        elif name == "bytes":
            self.emit(
                f"{value} = buf[pos:{stop}]" if self.from_bytes else f"{value} = bytes(buf[pos:{stop}])"
            )
        elif self.from_bytes:
            self.emit(f"{value} = buf[pos:{stop}].decode()")
        else:
            self.emit(f'{value} = str(buf[pos:{stop}], "utf-8")')
        self.emit(f"pos = {stop}")

    def read_inner(self, field: Field, nullable: bool, label: str) -> str:
        struct_type = self.layout.struct(field.type.name)
        if not nullable:
            return self.read_struct(struct_type, label)
        value, mark = self.fresh(), self.fresh("n")
        self.pending.append(("b", mark))
        self.flush()
        with self.block(f"if {mark} == -1:"):
            self.emit(f"{value} = None")
        with self.block(f"elif {mark} < 0:"):
            self.emit(f"raise bad_length({label!r}, {mark}, pos, end)")
        with self.block("else:"):
            made = self.read_struct(struct_type, label)
            self.emit(f"{value} = {made}")
        return value

    def read_array(self, field: Field, nullable: bool, label: str) -> str:
        count = self.read_length("i", "more")
        value = self.fresh()
        if nullable:
            with self.block(f"if {count} == -1:"):
                self.emit(f"{value} = None")
            with self.block("else:"):
                self.read_elements(field, count, value, label)
        else:
            self.read_elements(field, count, value, label)
        return value

    def read_elements(self, field: Field, count: str, value: str, label: str) -> None:
        minimum = self.layout.element_minimum(field)
        needed = count if minimum == 1 else f"{count} * {minimum}"
        with self.block(f"if {count} < 0 or {needed} > end - pos:"):
            self.emit(f"raise bad_count({label!r}, {count}, pos, end)")
        self.emit(f"budget -= {count}")
        with self.block("if budget < 0:"):
            self.emit(f"raise too_many({label!r})")
        name = field.type.name
        if name == "uuid":
            self.emit(
                f"{value} = tuple([uuid_of(bytes(buf[i:i + 16])) for i in range(pos, pos + {needed}, 16)])"
            )
            self.emit(f"pos += {needed}")
            return
        if name in FIXED:
            self.emit(f"{value} = array_{ord(FIXED[name][0])}[{count}](buf, pos)")
            self.emit(f"pos += {needed}")
            return
        elements, append = self.fresh("l"), self.fresh("a")
        self.emit(f"{elements} = []")
        self.emit(f"{append} = {elements}.append")
        if field.type.is_struct and self.layout.fusible(self.layout.struct(name)):
            self.read_guessed(self.layout.struct(name), count, elements, append, f"{label}[]")
        else:
            with self.block(f"for _ in range({count}):"):
                if field.type.is_struct:
                    element = self.read_struct(self.layout.struct(name), f"{label}[]")
                else:
                    element = self.read_counted_bytes(name, nullable=False, label=f"{label}[]")
                self.emit(f"{append}({element})")
        self.emit(f"{value} = tuple({elements})")

    def read_guessed(
        self, struct_type: StructType, count: str, elements: str, append: str, label: str
    ) -> None:
        self.needs_view = True
        guesses, left = self.constant(self.guesses(struct_type), "g"), self.fresh("n")
        run = f"pos, {count}, budget = {guesses}.run(view, pos, end, {count}, budget, {elements})"
        self.emit(run)
        with self.block(f"while {count}:"):
            self.emit(f"{left} = {count}")
            with self.block(f"if {guesses}.turn(view, pos, end):"):
                self.emit(run)
            with self.block(f"if {count} == {left}:"):
                element = self.read_struct(struct_type, label)
                self.emit(f"{append}({element})")
                self.emit(f"{count} -= 1")

    def guesses(self, struct_type: StructType) -> Guesses:
        values = {field.name: f"{{f{index}}}" for index, field in enumerate(self.layout.present(struct_type))}
        constructor = self.call(struct_type, values)
        fields = [(FIXED[field.type.name][0], field.type.array) for field in self.layout.present(struct_type)]
        return Guesses(fields, constructor, self.constants, self.flexible)

"""Compiles the encoder of one message at one version.

An encoder turns a message into a list of byte strings. Neighbouring fields of fixed size, and the length
of what follows them, are written by one `struct.pack`. A struct made of numbers and arrays of numbers
alone is written by one `pack` too, chosen by the lengths of its arrays.

The code checks nothing that `struct` checks anyway: a value out of range raises there, and `diagnosis`
finds out which one it was. It must never write a field that the version does not have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from epoka.wire.errors import EncodeError
from epoka.wire.notation import FIXED, ZERO_UUID, Field, Schema, Section, StructType
from epoka.wire.source import Layout, Source
from epoka.wire.varint import ONE_BYTE, write_uvarint

Encoder = Callable[[Any], list[bytes | memoryview]]

MAX_STRING = 0x7FFF
# A compact length up to here is one byte, so that a shape of lengths has one size.
SHORT = 126
MAX_CACHED_SHAPES = 1024
_CACHED_ARRAY = 512


class ArrayPackers(dict[int, Callable[..., bytes]]):
    """Length to the `pack` of an array of one kind of number."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, length: int) -> Callable[..., bytes]:
        pack = struct.Struct(f">{length}{self.code}").pack
        if length <= _CACHED_ARRAY:
            self[length] = pack
        return pack


class ShapePackers(dict[Any, Callable[..., bytes]]):
    """The lengths of a struct's arrays to the `pack` of the whole struct.

    `formats` holds the format between the arrays; an array is its element's code, behind its length.
    """

    def __init__(self, formats: list[str], codes: list[str], flexible: bool) -> None:
        super().__init__()
        self.formats = formats
        self.codes = codes
        self.flexible = flexible

    def __missing__(self, key: int | tuple[int, ...]) -> Callable[..., bytes]:
        lengths = (key,) if isinstance(key, int) else key
        short = all(length <= SHORT for length in lengths)
        pack = self.short(lengths) if short or not self.flexible else self.long(lengths)
        if short and len(self) < MAX_CACHED_SHAPES:
            self[key] = pack
        return pack

    def short(
        self, lengths: tuple[int, ...], prefixes: tuple[str, ...] | None = None
    ) -> Callable[..., bytes]:
        prefixes = prefixes or ("B" if self.flexible else "i",) * len(lengths)
        parts = [">", self.formats[0]]
        for length, code, prefix, behind in zip(lengths, self.codes, prefixes, self.formats[1:]):
            parts += [prefix, f"{length}{code}", behind]
        return struct.Struct("".join(parts)).pack

    def long(self, lengths: tuple[int, ...]) -> Callable[..., bytes]:
        """As `short`, but the lengths among the arguments are turned into varints first."""
        positions = []
        position = 0
        for length, before in zip(lengths, self.formats):
            position += len(before.replace("x", "").replace("16s", "s"))
            positions.append(position)
            position += 1 + length
        prefixes = tuple(f"{len(write_uvarint(length + 1))}s" for length in lengths)
        pack = self.short(lengths, prefixes)

        def pack_long(*values: Any) -> bytes:
            arguments = list(values)
            for position in positions:
                arguments[position] = write_uvarint(arguments[position])
            return pack(*arguments)

        return pack_long


ARRAYS = {code: ArrayPackers(code) for code, _ in FIXED.values() if code != "16s"}


def long_string(length: int) -> bytes:
    """The compact prefix of a string that is not short."""
    if length > MAX_STRING + 1:
        raise OverflowError(f"a string of {length - 1} bytes; the most is {MAX_STRING}")
    return write_uvarint(length)


def lost(label: str, version: int) -> NoReturn:
    raise EncodeError(f"{label} is set but version {version} cannot carry it")


def tagged_field(tag: bytes, body: bytes) -> bytes:
    return tag + write_uvarint(len(body)) + body


def compile_encoder(
    schema: Schema, section: Section, name: str, classes: Mapping[str, type], version: int
) -> Encoder:
    """The encoder of a struct of a schema at a version."""
    return _EncoderSource(schema, section, classes, version).compile(schema.structs[name])


class _EncoderSource(Source):
    def __init__(self, schema: Schema, section: Section, classes: Mapping[str, type], version: int) -> None:
        super().__init__()
        self.layout = Layout(schema, section, version)
        self.classes = classes
        self.version = version
        self.flexible = self.layout.flexible
        self.append = "append"
        self.pending: list[tuple[str, str]] = []
        self.constants.update(
            ONE=ONE_BYTE,
            uvarint=write_uvarint,
            long_string=long_string,
            lost=lost,
            tagged_field=tagged_field,
            ZERO_UUID=ZERO_UUID,
        )
        for code, packers in ARRAYS.items():
            self.constants[f"array_{ord(code)}"] = packers

    def compile(self, struct_type: StructType) -> Encoder:
        with self.block("def encode(m):"):
            self.emit("parts = []")
            self.emit("append = parts.append")
            self.write_struct(struct_type, "m", struct_type.name)
            self.flush()
            self.emit("return parts")
        return self.function("encode", f"encode {struct_type.name} v{self.version}")

    def flush(self) -> None:
        """Writes the fixed fields that have been waiting for company."""
        if self.pending:
            self.emit(f"{self.append}({self.packed(self.pending)})")
            self.pending = []

    def packed(self, pending: list[tuple[str, str]]) -> str:
        formats = "".join(code for code, _ in pending)
        if set(formats) == {"x"}:
            return repr(bytes(len(formats)))
        values = ", ".join(value for code, value in pending if code != "x")
        return f"{self.packer('pack', formats)}({values})"

    def flush_with_length(self, length: str, long: str = "uvarint") -> None:
        """Writes waiting fields and a compact length, in one go when the length is one byte."""
        if not self.pending:
            self.emit(f"{self.append}(ONE[{length}] if {length} < 128 else {long}({length}))")
            return
        with self.block(f"if {length} < 128:"):
            self.emit(f"{self.append}({self.packed([*self.pending, ('B', length)])})")
        with self.block("else:"):
            self.emit(f"{self.append}({self.packed(self.pending)})")
            self.emit(f"{self.append}({long}({length}))")
        self.pending = []

    def write_struct(self, struct_type: StructType, var: str, label: str) -> None:
        for field in struct_type.fields:
            if field.must_keep and self.version not in field.versions:
                with self.block(f"if {self.differs(field, f'{var}.{field.name}')}:"):
                    self.emit(f"lost({f'{label}.{field.name}'!r}, {self.version})")
        tagged = self.layout.tagged(struct_type)
        if not tagged and self.layout.fusible(struct_type):
            self.write_fused(struct_type, var)
            return
        for field in self.layout.present(struct_type):
            self.write_field(field, f"{var}.{field.name}", f"{label}.{field.name}")
        if not self.flexible:
            return
        if tagged:
            self.write_tagged(tagged, var, label)
        else:
            self.pending.append(("x", ""))

    def write_fused(self, struct_type: StructType, var: str) -> None:
        formats, codes, values, lengths = [""], [], [], []
        if self.pending:
            self.flush()
        for field in self.layout.present(struct_type):
            code = FIXED[field.type.name][0]
            value = f"{var}.{field.name}"
            if not field.type.array:
                formats[-1] += code
                values.append(f"{value}.bytes" if code == "16s" else value)
                continue
            array, length = self.fresh(), self.fresh("n")
            self.emit(f"{array} = {value}")
            self.emit(f"{length} = len({array})")
            values += [f"{length} + 1" if self.flexible else length, f"*{array}"]
            lengths.append(length)
            codes.append(code)
            formats.append("")
        if self.flexible:
            formats[-1] += "x"
        shapes = self.constant(ShapePackers(formats, codes, self.flexible), "shapes")
        self.emit(f"{self.append}({shapes}[{', '.join(lengths)}]({', '.join(values)}))")

    def write_tagged(self, tagged: list[Field], var: str, label: str) -> None:
        self.flush()
        bodies = self.fresh("t")
        self.emit(f"{bodies} = []")
        outer = self.append
        for field in tagged:
            value = self.fresh()
            self.emit(f"{value} = {var}.{field.name}")
            with self.block(f"if {self.differs(field, value)}:"):
                parts = self.fresh("p")
                self.emit(f"{parts} = []")
                self.append = f"{parts}.append"
                self.write_field(field, value, f"{label}.{field.name}")
                self.flush()
                self.append = outer
                self.emit(
                    f"{bodies}.append(tagged_field({write_uvarint(field.tag or 0)!r}, b''.join({parts})))"
                )
        self.emit(f"{self.append}(ONE[len({bodies})])")
        with self.block(f"for b in {bodies}:"):
            self.emit(f"{self.append}(b)")

    def differs(self, field: Field, value: str) -> str:
        """A condition: the value is not the default."""
        if field.default is None:
            return f"{value} is not None"
        if field.default is ...:
            return f"{value} != {self.constant(self.classes[field.type.name]())}"
        if field.type.array or field.type.name in ("bytes", "records"):
            none = f"{value} is None or " if field.nullable is not None else ""
            return f"{none}len({value})"
        if field.type.name == "uuid":
            return f"{value} != ZERO_UUID"
        return f"{value} != {field.default!r}"

    def write_field(self, field: Field, value: str, label: str) -> None:
        nullable = field.nullable_at(self.version)
        name = field.type.name
        if field.type.array:
            self.write_array(field, value, nullable, label)
        elif field.type.is_struct:
            self.write_inner(field, value, nullable, label)
        elif name in FIXED:
            self.pending.append((FIXED[name][0], f"{value}.bytes" if name == "uuid" else value))
        else:
            self.write_counted_bytes(name, value, nullable)

    def write_counted_bytes(self, name: str, value: str, nullable: bool) -> None:
        """A string, bytes or records: a length, then the bytes."""
        data, length = self.fresh(), self.fresh("n")
        fetched = f"{value}.encode()" if name == "string" else value
        plus = " + 1" if self.flexible else ""
        if nullable:
            self.emit(f"{data} = {value}")
            with self.block(f"if {data} is None:"):
                self.emit(f"{data} = b''")
                self.emit(f"{length} = {0 if self.flexible else -1}")
            with self.block("else:"):
                if name == "string":
                    self.emit(f"{data} = {data}.encode()")
                self.emit(f"{length} = len({data}){plus}")
        else:
            self.emit(f"{data} = {fetched}")
            self.emit(f"{length} = len({data}){plus}")
        if self.flexible:
            self.flush_with_length(length, "long_string" if name == "string" else "uvarint")
        else:
            self.pending.append(("h" if name == "string" else "i", length))
            self.flush()
        self.emit(f"{self.append}({data})")

    def write_inner(self, field: Field, value: str, nullable: bool, label: str) -> None:
        inner = self.fresh("m")
        struct_type = self.layout.struct(field.type.name)
        self.emit(f"{inner} = {value}")
        if not nullable:
            self.write_struct(struct_type, inner, label)
            return
        self.flush()
        with self.block(f"if {inner} is None:"):
            self.emit(f"{self.append}(b'\\xff')")
        with self.block("else:"):
            self.pending.append(("b", "1"))
            self.write_struct(struct_type, inner, label)
            self.flush()

    def write_array(self, field: Field, value: str, nullable: bool, label: str) -> None:
        array, length = self.fresh(), self.fresh("n")
        self.emit(f"{array} = {value}")
        plus = " + 1" if self.flexible else ""
        if nullable:
            with self.block(f"if {array} is None:"):
                self.emit(f"{array} = ()")
                self.emit(f"{length} = {0 if self.flexible else -1}")
            with self.block("else:"):
                self.emit(f"{length} = len({array}){plus}")
        else:
            self.emit(f"{length} = len({array}){plus}")
        if self.flexible:
            self.flush_with_length(length)
        else:
            self.pending.append(("i", length))
            self.flush()
        self.write_elements(field, array, label)

    def write_elements(self, field: Field, array: str, label: str) -> None:
        name = field.type.name
        if name == "uuid":
            self.emit(f"{self.append}(b''.join([u.bytes for u in {array}]))")
            return
        if name in FIXED:
            with self.block(f"if {array}:"):
                self.emit(f"{self.append}(array_{ord(FIXED[name][0])}[len({array})](*{array}))")
            return
        element = self.fresh("m")
        with self.block(f"for {element} in {array}:"):
            if field.type.is_struct:
                self.write_struct(self.layout.struct(name), element, f"{label}[]")
                self.flush()
                if self.lines[-1].endswith(":"):
                    self.emit("pass")
            else:
                self.write_counted_bytes(name, element, nullable=False)

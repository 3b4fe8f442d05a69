"""Reads the schema notation: text in, `Schema` out.

A `.msg` file describes one API or one family of records. Indentation is nesting, two spaces a level:

    # Fetch: what a consumer or a follower asks a leader for.
    api 1 Fetch

    request 4-17 flexible 12+
      replica_id: int32 0-14 = -1
      topics: [FetchTopic]
        topic: string 0-12
        partitions: [FetchPartition]
          partition: int32
      cluster_id: string? 12+ @0 = null        # a tagged field

A field is `name: type [versions] [@tag] [= default] [# about]`. `?` behind a type allows null, `?7+`
allows it in those versions only. `!` behind the type or the versions marks a field that must not be lost:
a value other than the default cannot be encoded at a version without the field. A struct is declared
where it is first used and reused by its name. Sections are `request`, `response`, `record KEY NAME` and
`struct NAME`, each with its versions.

This module decides what a schema says. It never looks at bytes or at classes.
"""

from __future__ import annotations

import keyword
import re
import uuid
from collections.abc import Iterator

import msgspec

ANY_VERSION = 1 << 15
ZERO_UUID = uuid.UUID(int=0)

# The struct format and the size of every type that has one size in every version.
FIXED: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
VARIABLE = ("string", "bytes", "records")

type_zero: dict[str, object] = {
    **dict.fromkeys(INTEGER_BITS, 0),
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": ZERO_UUID,
}


class NotationError(Exception):
    """A schema file that cannot be understood, with its file and line."""


class Versions(msgspec.Struct, frozen=True):
    """An inclusive range of versions."""

    first: int = 0
    last: int = ANY_VERSION

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class Type(msgspec.Struct, frozen=True):
    """A primitive, or a struct by its name; `array` says one of them or a sequence."""

    name: str
    array: bool = False

    @property
    def is_struct(self) -> bool:
        return self.name not in type_zero


class Field(msgspec.Struct, frozen=True):
    """One line of a struct. `default` is None for null, for structs it is null or Ellipsis (all defaults)."""

    name: str
    type: Type
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: object
    must_keep: bool
    about: str

    def nullable_at(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable


class StructType(msgspec.Struct, frozen=True):
    """A named sequence of fields."""

    name: str
    fields: tuple[Field, ...]
    about: str


class Section(msgspec.Struct, frozen=True):
    """A message that stands alone: a request, a response, a record or a bare structure."""

    kind: str
    name: str
    key: int | None
    versions: Versions
    flexible_from: int | None
    struct: StructType

    def flexible_at(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


class Schema(msgspec.Struct, frozen=True):
    """One file. `structs` holds every struct, each behind the ones it is made of."""

    file: str
    about: str
    api_key: int | None
    api_name: str | None
    sections: tuple[Section, ...]
    structs: dict[str, StructType]

    def section_of(self, struct_name: str) -> Section:
        """The section named so, or the first one that contains the struct."""
        for section in self.sections:
            if section.name == struct_name:
                return section
        for section in self.sections:
            if struct_name in reachable(self, section.struct):
                return section
        raise KeyError(struct_name)


def reachable(schema: Schema, struct: StructType) -> Iterator[str]:
    """The names of a struct and of all structs inside it."""
    yield struct.name
    for field in struct.fields:
        if field.type.is_struct:
            yield from reachable(schema, schema.structs[field.type.name])


RANGE = r"\d+\+|\d+-\d+|\d+"
FIELD = re.compile(
    rf"""(?P<name>\w+)\s*:\s*
    (?P<type>\[\s*\w+\s*\]|\w+)
    (?P<null>\?(?P<null_versions>{RANGE})?)?
    (?P<keep>!)?
    (?:\s+(?P<versions>{RANGE})(?P<keep_too>!)?)?
    (?:\s+@(?P<tag>\d+))?
    (?:\s*=\s*(?P<default>"[^"]*"|\S+))?
    \s*$""",
    re.VERBOSE,
)
SECTION = re.compile(
    rf"(?P<kind>request|response|record|struct)"
    rf"(?:\s+(?P<key>\d+))??(?:\s+(?P<name>[A-Z]\w*))?\s+(?P<versions>{RANGE})"
    rf"(?:\s+flexible\s+(?P<flexible>\d+\+|none))?\s*$"
)
API = re.compile(r"api\s+(?P<key>\d+)\s+(?P<name>[A-Z]\w*)\s*$")
COMMENT = re.compile(r"""^((?:[^"#]|"[^"]*")*?)\s*\#\s?(.*)$""")
FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*$")
STRUCT_NAME = re.compile(r"[A-Z]\w*$")


class Line(msgspec.Struct, frozen=True):
    number: int
    depth: int
    text: str
    comment: str


def versions_of(text: str | None) -> Versions:
    if text is None:
        return Versions()
    if text.endswith("+"):
        return Versions(int(text[:-1]))
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def parse(text: str, file: str = "<text>") -> Schema:
    """The schema that a file's text describes; NotationError names the line that is wrong."""
    return Parser(text, file).schema()


class Parser:
    """One pass over the lines of a file."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.about = ""
        self.lines = self.split(text)
        self.position = 0
        self.structs: dict[str, StructType] = {}
        self.unfinished: list[str] = []
        self.bounds = Versions()

    def fail(self, number: int, reason: str) -> NotationError:
        return NotationError(f"{self.file}:{number}: {reason}")

    def split(self, text: str) -> list[Line]:
        """Lines with their depth. A comment line belongs to the line below, the first block to the file."""
        lines: list[Line] = []
        above: list[str] = []
        for number, raw in enumerate(text.splitlines(), 1):
            if "\t" in raw:
                raise self.fail(number, "tabs are not indentation; use two spaces a level")
            stripped = raw.strip()
            if not stripped or stripped.startswith("#"):
                if stripped:
                    above.append(stripped[1:].removeprefix(" ").rstrip())
                elif not lines and not self.about:
                    self.about, above = "\n".join(above).strip(), []
                continue
            if not lines and not self.about:
                self.about, above = "\n".join(above).strip(), []
            body, comment = stripped, ""
            if "#" in stripped and (match := COMMENT.match(stripped)):
                body, comment = match.group(1), match.group(2).strip()
            indent = len(raw) - len(raw.lstrip(" "))
            if indent % 2:
                raise self.fail(number, f"indented by {indent} spaces; a level is two")
            about = " ".join(word for word in (" ".join(above), comment) if word)
            lines.append(Line(number, indent // 2, body, about))
            above = []
        return lines

    def schema(self) -> Schema:
        sections: list[Section] = []
        api_key: int | None = None
        api_name: str | None = None
        while self.position < len(self.lines):
            line = self.lines[self.position]
            self.position += 1
            if line.depth:
                raise self.fail(line.number, f"{line.text!r} is indented but belongs to no section")
            if match := API.match(line.text):
                if api_name is not None:
                    raise self.fail(line.number, "a file describes one API")
                api_key, api_name = int(match["key"]), match["name"]
                continue
            match = SECTION.match(line.text)
            if match is None:
                raise self.fail(line.number, f"neither an api, a section nor a field: {line.text!r}")
            sections.append(self.section(line, match, api_key, api_name))
        if not sections:
            raise self.fail(1, "no section")
        return Schema(self.file, self.about, api_key, api_name, tuple(sections), self.structs)

    def section(self, line: Line, match: re.Match[str], api_key: int | None, api_name: str | None) -> Section:
        kind, name = match["kind"], match["name"]
        key = None if match["key"] is None else int(match["key"])
        if kind in ("request", "response"):
            if api_name is None:
                raise self.fail(line.number, f"a {kind} needs an api line above it")
            if name is not None or key is not None:
                raise self.fail(line.number, f"a {kind} is named by its api")
            name, key = api_name + kind.capitalize(), api_key
        elif name is None:
            raise self.fail(line.number, f"a {kind} needs a name")
        elif (kind == "record") != (key is not None):
            raise self.fail(line.number, "a record needs a key, a struct has none")
        versions = versions_of(match["versions"])
        if versions.last == ANY_VERSION:
            raise self.fail(line.number, "a section names its last version")
        if versions.last < versions.first:
            raise self.fail(line.number, "versions run backwards")
        flexible = match["flexible"]
        flexible_from = None if flexible in (None, "none") else int(flexible[:-1])
        self.bounds = versions
        struct = self.struct(name, line, 1)
        for field in struct_fields(struct, self.structs):
            if field.tag is not None and (
                flexible_from is None or max(field.versions.first, versions.first) < flexible_from
            ):
                raise self.fail(
                    line.number, f"{name}: {field.name} is tagged in a version that is not flexible"
                )
        return Section(kind, name, key, versions, flexible_from, struct)

    def struct(self, name: str, line: Line, depth: int) -> StructType:
        if name in self.structs or name in self.unfinished:
            raise self.fail(line.number, f"struct {name} is declared twice")
        self.unfinished.append(name)
        fields: list[Field] = []
        while self.position < len(self.lines) and self.lines[self.position].depth >= depth:
            inner = self.lines[self.position]
            if inner.depth > depth:
                raise self.fail(inner.number, f"{inner.text!r} is indented too deep")
            self.position += 1
            field = self.field(inner, depth)
            if any(other.name == field.name for other in fields):
                raise self.fail(inner.number, f"field {field.name} is declared twice")
            if field.tag is not None and any(other.tag == field.tag for other in fields):
                raise self.fail(inner.number, f"tag {field.tag} is used twice")
            fields.append(field)
        self.unfinished.remove(name)
        struct = StructType(name, tuple(fields), line.comment)
        self.structs[name] = struct
        return struct

    def field(self, line: Line, depth: int) -> Field:
        match = FIELD.match(line.text)
        if match is None:
            raise self.fail(line.number, f"not a field: {line.text!r}")
        name = match["name"]
        if not FIELD_NAME.match(name) or keyword.iskeyword(name):
            raise self.fail(line.number, f"{name!r} is not a snake_case field name")
        written = match["type"].strip("[] ")
        type_ = Type(written, match["type"].startswith("["))
        nested = self.position < len(self.lines) and self.lines[self.position].depth > depth
        if not type_.is_struct:
            if nested:
                raise self.fail(line.number, f"{written} has no fields of its own")
        elif not STRUCT_NAME.match(written):
            raise self.fail(line.number, f"unknown type {written!r}")
        elif nested:
            self.struct(written, line, depth + 1)
        elif written not in self.structs:
            raise self.fail(line.number, f"struct {written} has no fields and is not declared above")
        versions = versions_of(match["versions"])
        if versions.last < versions.first:
            raise self.fail(line.number, "versions run backwards")
        nullable = versions_of(match["null_versions"]) if match["null"] else None
        if nullable is not None and not (type_.array or type_.is_struct or written in VARIABLE):
            raise self.fail(line.number, f"{written} cannot be null")
        return Field(
            name=name,
            type=type_,
            versions=versions,
            nullable=nullable,
            tag=None if match["tag"] is None else int(match["tag"]),
            default=self.default(line, type_, nullable, match["default"]),
            must_keep=bool(match["keep"] or match["keep_too"]),
            about=line.comment,
        )

    def default(self, line: Line, type_: Type, nullable: Versions | None, text: str | None) -> object:
        if text == "null":
            if nullable is None:
                raise self.fail(line.number, "the default is null, but the type is not nullable")
            return None
        if type_.array or type_.is_struct:
            if text is not None:
                raise self.fail(line.number, "arrays and structs have no default but null")
            return () if type_.array else ...
        if text is None:
            return type_zero[type_.name]
        try:
            return literal(type_.name, text)
        except ValueError:
            raise self.fail(line.number, f"{text} is not a default for {type_.name}") from None


def literal(type_name: str, text: str) -> object:
    if type_name == "string":
        return text[1:-1] if text.startswith('"') else text
    if type_name == "bool":
        return {"true": True, "false": False}[text] if text in ("true", "false") else _no(text)
    if type_name == "float64":
        return float(text)
    if type_name in INTEGER_BITS:
        value = int(text, 0)
        bits = INTEGER_BITS[type_name]
        low, high = (0, 1 << bits) if type_name.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
        return value if low <= value < high else _no(text)
    return _no(text)


def _no(text: str) -> object:
    raise ValueError(text)


def struct_fields(struct: StructType, structs: dict[str, StructType]) -> Iterator[Field]:
    """All fields of a struct and of the structs inside it."""
    for field in struct.fields:
        yield field
        if field.type.is_struct:
            yield from struct_fields(structs[field.type.name], structs)

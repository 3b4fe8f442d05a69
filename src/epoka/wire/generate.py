"""Writes the message classes from the schemas: `python -m epoka.wire.generate [--check]`.

Every `schemas/x.msg` becomes `messages/x.py` with one frozen struct a message, and `messages/index.py` lists
the APIs, so that the table of APIs can be read without importing them all. The same schemas always give the
same text. With `--check` nothing is written and the exit status is 1 when a file is stale.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from epoka.wire.notation import Field, NotationError, Schema, Section, StructType, parse

WIRE = Path(__file__).parent
PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes | memoryview",
    "records": "bytes | memoryview",
    "uuid": "UUID",
}
WIDTH = 110


def python_type(field: Field) -> str:
    name = field.type.name if field.type.is_struct else PYTHON_TYPES.get(field.type.name, "int")
    if field.type.array:
        name = f"tuple[{name}, ...]"
    return name if field.nullable is None else f"{name} | None"


def python_default(field: Field) -> str:
    if field.default is ...:
        return f"{field.type.name}()"
    if field.type.name == "uuid" and not field.type.array:
        return "ZERO_UUID"
    if isinstance(field.default, str):
        return '"' + field.default.replace("\\", "\\\\") + '"'
    if isinstance(field.default, bytes):
        return 'b""'
    return repr(field.default)


def wrapped(text: str, indent: str, first: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent + first, subsequent_indent=indent + first)


def docstring(text: str, indent: str) -> list[str]:
    """A docstring; text is wrapped unless it already has lines of its own."""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text += " "
    if len(indent) + len(text) + 6 <= WIDTH and "\n" not in text:
        return [f'{indent}"""{text}"""']
    lines = text.split("\n")
    out: list[str] = []
    for number, line in enumerate(lines):
        opening = '"""' if number == 0 else ""
        out += wrapped(opening + line, indent) or [""]
    return [*out, f'{indent}"""']


def spoken(section: Section) -> str:
    first, last = section.versions.first, section.versions.last
    text = f"version {first}" if first == last else f"versions {first} to {last}"
    if section.flexible_from is None:
        return text
    return f"{text}, flexible from {section.flexible_from}"


def class_source(struct: StructType, section: Section | None) -> list[str]:
    # What is said about a nested struct is said where its field is; a section has no field.
    about = "" if section is None else struct.about or f"{section.name}, {spoken(section)}."
    out = [f"class {struct.name}(msgspec.Struct, frozen=True, gc=False):"]
    body: list[str] = []
    if about:
        body += docstring(about[0].upper() + about[1:], "    ")
    if section is not None:
        if body:
            body.append("")
        if section.key is not None:
            name = "RECORD_KEY" if section.kind == "record" else "API_KEY"
            body.append(f"    {name}: ClassVar[int] = {section.key}")
        body += [
            f"    MIN_VERSION: ClassVar[int] = {section.versions.first}",
            f"    MAX_VERSION: ClassVar[int] = {section.versions.last}",
            f"    FLEXIBLE_FROM: ClassVar[int | None] = {section.flexible_from}",
            f'    NAME: ClassVar[str] = "{section.name}"',
        ]
    if body and struct.fields:
        body.append("")
    for field in struct.fields:
        if field.about:
            body += wrapped(field.about, "    ", "# ")
        body.append(f"    {field.name}: {python_type(field)} = {python_default(field)}")
    return out + (body or ["    pass"])


def module_source(schema: Schema, stem: str) -> str:
    """The text of `messages/<stem>.py`."""
    sections = {section.name: section for section in schema.sections}
    about = schema.about or f"{schema.api_name or stem}."
    used = {field.type.name for struct in schema.structs.values() for field in struct.fields}
    zero_used = any(
        field.type.name == "uuid" and not field.type.array
        for struct in schema.structs.values()
        for field in struct.fields
    )
    out = [f"# Generated from schemas/{stem}.msg by epoka.wire.generate; do not edit.", ""]
    out += docstring(about[0].upper() + about[1:], "")
    out += ["", "from typing import ClassVar"]
    if "uuid" in used:
        out.append("from uuid import UUID")
    out += ["", "import msgspec"]
    if zero_used:
        out += ["", "from epoka.wire.notation import ZERO_UUID"]
    out += ["", "__all__ = ["]
    out += [f'    "{name}",' for name in sorted(schema.structs)]
    out.append("]")
    for name, struct in schema.structs.items():
        out += ["", "", *class_source(struct, sections.get(name))]
    return "\n".join(out) + "\n"


def index_source(schemas: dict[str, Schema]) -> str:
    """The text of `messages/index.py`: key, name, module and versions of every API."""
    rows: dict[int, tuple[str, str, int, int]] = {}
    for stem, schema in schemas.items():
        halves = {section.kind: section for section in schema.sections}
        if schema.api_key is None or schema.api_name is None:
            continue
        if "request" not in halves or "response" not in halves:
            raise NotationError(f"{schema.file}: an API needs a request and a response")
        if halves["request"].versions != halves["response"].versions:
            raise NotationError(f"{schema.file}: request and response have different versions")
        if schema.api_key in rows:
            raise NotationError(
                f"{schema.file}: API key {schema.api_key} belongs to {rows[schema.api_key][0]}"
            )
        versions = halves["request"].versions
        rows[schema.api_key] = (schema.api_name, stem, versions.first, versions.last)
    out = [
        "# Generated from schemas/*.msg by epoka.wire.generate; do not edit.",
        "",
        '"""Every API with a schema: its name, its module, its first and its last version."""',
        "",
        '__all__ = ["INDEX"]',
        "",
        "INDEX: dict[int, tuple[str, str, int, int]] = {",
    ]
    for key, (name, stem, first, last) in sorted(rows.items()):
        out.append(f'    {key}: ("{name}", "{stem}", {first}, {last}),')
    return "\n".join([*out, "}"]) + "\n"


def generated(schema_folder: Path) -> dict[str, str]:
    """File name to text for a folder of schemas."""
    schemas: dict[str, Schema] = {}
    for path in sorted(schema_folder.glob("*.msg")):
        schema = parse(path.read_text(encoding="utf-8"), path.name)
        schemas[path.stem] = schema
    texts = {f"{stem}.py": module_source(schema, stem) for stem, schema in schemas.items()}
    texts["index.py"] = index_source(schemas)
    return texts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m epoka.wire.generate", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when a file is stale")
    parser.add_argument("--schemas", type=Path, default=WIRE / "schemas", help="folder of .msg files")
    parser.add_argument(
        "--messages", type=Path, default=WIRE / "messages", help="folder of the written modules"
    )
    options = parser.parse_args(arguments)
    try:
        texts = generated(options.schemas)
    except NotationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    present = {
        path.name
        for path in options.messages.glob("*.py")
        if path.read_text(encoding="utf-8").startswith("# Generated from ")
    }
    stale = sorted(
        name
        for name, text in texts.items()
        if name not in present or (options.messages / name).read_text(encoding="utf-8") != text
    )
    surplus = sorted(present - texts.keys())
    if options.check:
        for name in stale:
            sys.stderr.write(f"{name} is stale; run python -m epoka.wire.generate\n")
        for name in surplus:
            sys.stderr.write(f"{name} has no schema\n")
        return 1 if stale or surplus else 0
    for name in stale:
        (options.messages / name).write_text(texts[name], encoding="utf-8")
    for name in surplus:
        (options.messages / name).unlink()
    sys.stdout.write(f"{len(texts)} modules, {len(stale)} written, {len(surplus)} removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every message in every version, and values to fill it with: shared by the tests of `wire/`.

A test that asks for `shape` runs once for each message and version that has a schema. `request_shape` and
`response_shape` are those of the APIs, `judged_shape` the ones that kio knows too, `lone_shape` the others.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec
import pytest
from hypothesis import strategies as st

import epoka.wire
from epoka.wire import notation

SCHEMAS = Path(epoka.wire.__file__).parent / "schemas"
TEXTS = ("", "a", "orders-7", "größe", "日本", "\x00", "x" * 130, "𝄞")
BLOBS = (b"", b"\x00", b"\xff\xfe", bytes(range(256)), b"r" * 130)
ERROR_CODES = range(-1, 134)
# Durations and dates become other types in the outside codec, which cannot hold every int64.
LONGEST_MS = 1 << 40


@dataclass(frozen=True, eq=False)
class Shape:
    """One message at one version: the class that carries it and the schema it comes from."""

    cls: Any
    version: int
    section: notation.Section
    schema: notation.Schema

    def __repr__(self) -> str:
        return f"{self.section.name}-v{self.version}"

    @property
    def module(self) -> str:
        return self.schema.file.removesuffix(".msg")

    @property
    def theirs(self) -> Any:
        """kio's class for the same message, or None."""
        name, kind = self.section.name, self.section.kind
        if kind in ("request", "response"):
            path = f"kio.schema.{self.module}.v{self.version}.{kind}"
        else:
            snake = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)
            path = f"kio.schema.{snake.lstrip('_')}.v{self.version}.data"
        try:
            return getattr(importlib.import_module(path), name)
        except ModuleNotFoundError:
            return None

    def struct_class(self, name: str) -> Any:
        return getattr(importlib.import_module(f"epoka.wire.messages.{self.module}"), name)


class Source(Protocol):
    """Where the values of a sample come from."""

    def integer(self, low: int, high: int) -> int: ...

    def one_of(self, values: Any) -> Any: ...


class RandomSource:
    """Values from a seed: quick, for the tests that want a body and not a proof."""

    def __init__(self, seed: object) -> None:
        self.random = Random(str(seed))

    def integer(self, low: int, high: int) -> int:
        if self.random.random() < 0.2:
            return self.random.choice((low, high))
        return self.random.randint(low, high)

    def one_of(self, values: Any) -> Any:
        return self.random.choice(values)


class DrawnSource:
    """Values that Hypothesis draws, so that what fails shrinks."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(integers(low, high)))

    def one_of(self, values: Any) -> Any:
        return self.draw(sampled(tuple(values)))


@cache
def integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@cache
def sampled(values: tuple[object, ...]) -> st.SearchStrategy[object]:
    return st.sampled_from(values)


def fill(shape: Shape, source: Source, longest: int = 3) -> Any:
    """A message with a value in every field that exists at the shape's version, defaults elsewhere."""

    def struct(description: notation.StructType, cls: Any) -> Any:
        return cls(
            **{
                field.name: value(field)
                for field in description.fields
                if shape.version in field.versions and shape.version in shape.section.versions
            }
        )

    def value(field: notation.Field) -> Any:
        if field.tag is not None and source.integer(0, 2) == 0:
            return shape.struct_class(field.type.name)() if field.default is ... else field.default
        if field.nullable_at(shape.version) and source.integer(0, 3) == 0:
            return None
        if field.type.array:
            return tuple(single(field) for _ in range(source.integer(0, longest)))
        return single(field)

    def single(field: notation.Field) -> Any:
        name = field.type.name
        if field.type.is_struct:
            return struct(shape.schema.structs[name], shape.struct_class(name))
        if name == "bool":
            return bool(source.integer(0, 1))
        if name == "string":
            return source.one_of(TEXTS)
        if name in ("bytes", "records"):
            return source.one_of(BLOBS)
        if name == "uuid":
            return uuid.UUID(int=source.integer(0, (1 << 128) - 1))
        if name == "float64":
            return source.integer(-(1 << 53), 1 << 53) / 1024
        if field.name.endswith("error_code"):
            return source.one_of(ERROR_CODES)
        if name == "int64" and field.name.endswith("_ms"):
            return source.integer(-1, LONGEST_MS)
        bits = notation.INTEGER_BITS[name]
        low = 0 if name.startswith("u") else -(1 << bits - 1)
        return source.integer(low, low + (1 << bits) - 1)

    return struct(shape.section.struct, shape.cls)


def stretched(message: Any, random: Random, depth: int = 0) -> Any:
    """The message with every array of structs replaced by runs of its elements: long and repetitive."""
    longer = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, msgspec.Struct):
            longer[name] = stretched(value, random, depth + 1)
        elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            elements = [stretched(element, random, depth + 1) for element in value]
            runs = [(random.choice(elements),) * random.randint(1, 6) for _ in range(4 if depth < 2 else 2)]
            longer[name] = tuple(element for run in runs for element in run)
    return msgspec.structs.replace(message, **longer)


@st.composite
def filled(draw: Callable[[Any], Any], shape: Shape) -> Any:
    return fill(shape, DrawnSource(draw))


@cache
def shapes() -> tuple[Shape, ...]:
    def found() -> Iterator[Shape]:
        for path in sorted(SCHEMAS.glob("*.msg")):
            schema = notation.parse(path.read_text(encoding="utf-8"), path.name)
            module = importlib.import_module(f"epoka.wire.messages.{path.stem}")
            for section in schema.sections:
                for version in range(section.versions.first, section.versions.last + 1):
                    yield Shape(getattr(module, section.name), version, section, schema)

    return tuple(found())


WANTED: dict[str, Callable[[Shape], bool]] = {
    "shape": lambda shape: True,
    "request_shape": lambda shape: shape.section.kind == "request",
    "response_shape": lambda shape: shape.section.kind == "response",
    "judged_shape": lambda shape: shape.theirs is not None,
    "lone_shape": lambda shape: shape.theirs is None,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, wanted in WANTED.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [shape for shape in shapes() if wanted(shape)], ids=repr)


@pytest.fixture
def messages_of() -> Callable[[Shape], st.SearchStrategy[Any]]:
    """A Hypothesis strategy for the messages of a shape."""
    return filled


@pytest.fixture
def sample_of() -> Callable[..., Any]:
    """A message of a shape made from a seed; the same seed gives the same message."""

    def sample(shape: Shape, seed: object = 0, longest: int = 3, stretch: bool = False) -> Any:
        source = RandomSource((repr(shape), seed))
        message = fill(shape, source, longest)
        return stretched(message, source.random) if stretch else message

    return sample


@pytest.fixture
def every_shape() -> tuple[Shape, ...]:
    return shapes()

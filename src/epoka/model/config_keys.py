"""What a configuration key is: its name, the kind of its value, its default, and what it means.

The tables of node keys and topic keys are made of these, and so are the answers to DescribeConfigs and the
reference pages. A bad value is a refusal with a reason, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import msgspec

Value = bool | int | float | str | tuple[str, ...] | None

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class Kind(IntEnum):
    """The kind of a value, with the numbers that DescribeConfigs uses on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


_RANGES = {
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), MAX_INT),
    Kind.LONG: (-(2**63), MAX_LONG),
}
_NOUNS = {
    Kind.BOOLEAN: "true or false",
    Kind.DOUBLE: "a number",
    Kind.SHORT: "a whole number",
    Kind.INT: "a whole number",
    Kind.LONG: "a whole number",
}

Check = Callable[[Value], str | None]
"""Looks at a parsed value; says what is wrong with it, or None."""


class BadValue(Exception):
    """A value that its key does not allow; the text completes the sentence `<key> ...`."""


class ConfigKey(msgspec.Struct, frozen=True):
    """One key of a configuration table."""

    name: str
    kind: Kind
    default: Value
    about: str
    check: Check | None = None
    synonyms: tuple[str, ...] = ()
    """Of a topic key: the node keys that give its default, best first. Of a node key: its other names."""

    def parse(self, text: str) -> Value:
        """The typed value of `text`, or BadValue."""
        value = self._typed(text.strip())
        if self.check is not None and (problem := self.check(value)) is not None:
            raise BadValue(f"{problem}, not {text.strip()!r}")
        return value

    def text(self, value: Value) -> str | None:
        """How a value is written in a file or told to a client; `parse` reads it back. Passwords are not."""
        if value is None or self.kind is Kind.PASSWORD:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def _typed(self, text: str) -> Value:
        kind = self.kind
        if kind in (Kind.STRING, Kind.PASSWORD):
            return text
        if kind is Kind.LIST:
            return tuple(item for part in text.split(",") if (item := part.strip()))
        if kind is Kind.BOOLEAN:
            if (lowered := text.lower()) in ("true", "false"):
                return lowered == "true"
            raise BadValue(f"must be {_NOUNS[kind]}, not {text!r}")
        try:
            if kind is Kind.DOUBLE:
                return float(text)
            # int() takes underscores and other scripts' digits, which no other reader of such files does.
            if not text.isascii() or "_" in text:
                raise ValueError
            number = int(text)
        except ValueError:
            raise BadValue(f"must be {_NOUNS[kind]}, not {text!r}") from None
        low, high = _RANGES[kind]
        if not low <= number <= high:
            raise BadValue(f"must lie between {low} and {high}, not {text!r}")
        return number


def at_least(low: float) -> Check:
    """The value must not be below `low`."""

    def check(value: Value) -> str | None:
        return None if isinstance(value, int | float) and value >= low else f"must be at least {low}"

    return check


def between(low: float, high: float) -> Check:
    """The value must lie from `low` to `high`, both included."""

    def check(value: Value) -> str | None:
        inside = isinstance(value, int | float) and low <= value <= high
        return None if inside else f"must lie between {low} and {high}"

    return check


def one_of(*words: str) -> Check:
    """The value must be one of these words."""

    def check(value: Value) -> str | None:
        return None if value in words else f"must be one of {', '.join(words)}"

    return check


def some_of(*words: str) -> Check:
    """The value must be a list of at least one of these words, none of them twice."""

    def check(value: Value) -> str | None:
        if not isinstance(value, tuple) or not value or len(set(value)) != len(value):
            return f"must name one or more of {', '.join(words)}"
        if any(word not in words for word in value):
            return f"may only name {', '.join(words)}"
        return None

    return check

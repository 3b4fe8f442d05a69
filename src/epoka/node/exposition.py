"""Figures in Prometheus' text format: families of samples, each with its kind and what it means.

Written by hand because it is this small: prometheus-client would be there for `generate_latest` alone, as its
counters take a lock each and its server a thread, and a core may only be read on its own loop. In the tests
its parser reads what is written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LINES_AT_A_TIME = 500

Labels = Mapping[str, object]


class Family(msgspec.Struct, frozen=True):
    """One figure, for every set of labels that it has."""

    name: str
    kind: str
    """`counter` or `gauge`."""
    about: str
    samples: Iterable[tuple[Labels, float]]
    """May be made while they are written."""


def gauge(name: str, about: str, value: float, **labels: object) -> Family:
    return Family(name, "gauge", about, ((labels, value),))


def counter(name: str, about: str, value: float, **labels: object) -> Family:
    return Family(name, "counter", about, ((labels, value),))


def several(name: str, kind: str, about: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    return Family(name, kind, about, samples)


def written(families: Iterable[Family]) -> bytes:
    """All of it at once."""
    return ("\n".join(_lines(families)) + "\n").encode()


async def written_in_slices(families: Iterable[Family]) -> bytes:
    """The same, with room for others in between: a large broker has tens of thousands of lines."""
    lines = []
    for line in _lines(families):
        lines.append(line)
        if len(lines) % LINES_AT_A_TIME == 0:
            await asyncio.sleep(0)
    return ("\n".join(lines) + "\n").encode()


def _lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        yield f"# HELP {family.name} {_escaped(family.about, quoted=False)}"
        yield f"# TYPE {family.name} {family.kind}"
        for labels, value in family.samples:
            told = ",".join(f'{name}="{_escaped(str(text), quoted=True)}"' for name, text in labels.items())
            named = f"{family.name}{{{told}}}" if told else family.name
            yield f"{named} {_number(value)}"


def _escaped(text: str, *, quoted: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))

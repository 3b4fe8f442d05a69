"""Reads arrays of structs that are numbers and arrays of numbers alone, such as the partitions of a topic.

The lengths of its arrays decide the whole layout of such a struct, and neighbours mostly have the same
lengths. So the next element is guessed to look like the last: one unpacking takes its numbers and, as raw
bytes, its arrays with their lengths. Raw bytes that were seen before are known to be right and give the
same tuples again; others are unpacked and their lengths compared with the guess. Where the guess is wrong,
the decoder reads the element field by field and tells what it saw.

A wrong guess never changes a result. What is remembered is bounded, whatever a peer sends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from epoka.wire.source import Source

# A shape that keeps coming back is worth a function of its own.
SIGHTINGS_BEFORE_COMPILING = 4
MAX_COMPILED_SHAPES = 64
MAX_WATCHED_SHAPES = 1024
# Fewer than 127, so that every compact length is one byte.
MAX_SHAPE_ELEMENTS = 32
MAX_REMEMBERED = 4096


# (view, position, end, count, budget, elements) -> (position, count, budget): reads elements into the list
# while they look as guessed, and says what is left.
Run = Callable[[memoryview, int, int, int, int, list[Any]], tuple[int, int, int]]


def no_guess(
    view: memoryview, position: int, end: int, count: int, budget: int, elements: list[Any]
) -> tuple[int, int, int]:
    """Reads nothing, as long as nothing is known."""
    return position, count, budget


class Guesses:
    """What is known about the elements of one array of one message version.

    `fields` are the codes of the fields and whether they are arrays; `constructor` is the call that makes an
    element, with `{f0}` for the first field on the wire, and `constants` are the other names in it.
    """

    def __init__(
        self, fields: list[tuple[str, bool]], constructor: str, constants: dict[str, Any], flexible: bool
    ) -> None:
        self.fields = fields
        self.constructor = constructor
        self.constants = constants
        self.flexible = flexible
        self.run: Run = no_guess
        self.shapes: dict[tuple[int, ...], Run] = {}
        self.sightings: dict[tuple[int, ...], int] = {}
        self.remembered = 0

    def saw(self, *lengths: int) -> None:
        """Takes the lengths of an element that was not as guessed for the next guess."""
        run = self.shapes.get(lengths)
        if run is None and len(self.shapes) < MAX_COMPILED_SHAPES and sum(lengths) <= MAX_SHAPE_ELEMENTS:
            if len(self.sightings) >= MAX_WATCHED_SHAPES:
                self.sightings.clear()
            sightings = self.sightings[lengths] = self.sightings.get(lengths, 0) + 1
            if sightings >= SIGHTINGS_BEFORE_COMPILING:
                run = self.shapes[lengths] = self._compiled(lengths)
        self.run = run or no_guess

    def _compiled(self, lengths: tuple[int, ...]) -> Run:
        """Writes the reader of one shape."""
        source = Source()
        source.constants.update(self.constants)
        formats: list[str] = []
        targets: list[str] = []
        groups: list[_Group] = []
        arguments: dict[str, str] = {}
        waiting = list(lengths)
        in_group = False
        for index, (code, is_array) in enumerate(self.fields):
            if not is_array:
                formats.append(code)
                targets.append(f"f{index}")
                arguments[f"f{index}"] = f"uuid_of(f{index})" if code == "16s" else f"f{index}"
            else:
                if not in_group:
                    groups.append(_Group(f"r{index}"))
                    targets.append(f"r{index}")
                    formats.append("")
                groups[-1].add(f"f{index}", code, waiting.pop(0), self.flexible)
                formats[-1] = f"{struct.calcsize('>' + groups[-1].formats)}s"
                arguments[f"f{index}"] = f"f{index}"
            in_group = is_array
        if self.flexible and in_group:
            groups[-1].add_tags()
            formats[-1] = f"{struct.calcsize('>' + groups[-1].formats)}s"
        elif self.flexible:
            formats.append("B")
            targets.append("tags")
        layout = struct.Struct(">" + "".join(formats))
        source.constants["unpacked"] = layout.iter_unpack
        for group in groups:
            known: dict[bytes, Any] = {}
            source.constants[f"{group.name}_known"] = known.get
            source.constants[f"{group.name}_new"] = self._newcomer(group, known)
        size, cost = layout.size, sum(lengths)
        with source.block("def run(view, position, end, count, budget, elements):"):
            source.emit(f"most = (end - position) // {size}")
            with source.block("if most > count:"):
                source.emit("most = count")
            if cost:
                with source.block(f"if most * {cost} > budget:"):
                    source.emit(f"most = budget // {cost}")
            with source.block("if most <= 0:"):
                source.emit("return position, count, budget")
            source.emit("before = len(elements)")
            source.emit("append = elements.append")
            unpacked = f"unpacked(view[position : position + most * {size}])"
            with source.block(f"for {', '.join(targets)}, in {unpacked}:"):
                if "tags" in targets:
                    with source.block("if tags:"):
                        source.emit("break")
                for group in groups:
                    source.emit(f"g = {group.name}_known({group.name})")
                    with source.block("if g is None:"):
                        source.emit(f"g = {group.name}_new({group.name})")
                        with source.block("if g is None:"):
                            source.emit("break")
                    source.emit(f"{', '.join(group.arrays)}, = g")
                source.emit(f"append({self.constructor.format(**arguments)})")
            source.emit("done = len(elements) - before")
            source.emit(f"return position + done * {size}, count - done, budget - done * {cost}")
        return source.function("run", f"elements of lengths {lengths}")

    def _newcomer(self, group: _Group, known: dict[bytes, Any]) -> Callable[[bytes], Any]:
        """Unpacks the arrays of a group that was not seen before; None if they are not as guessed."""
        unpack, lengths, slices = struct.Struct(">" + group.formats).unpack, group.lengths, group.slices

        def newcomer(raw: bytes) -> Any:
            values = unpack(raw)
            for position, expected in lengths:
                if values[position] != expected:
                    return None
            arrays = tuple([values[start:stop] for start, stop in slices])
            if self.remembered < MAX_REMEMBERED:
                self.remembered += 1
                known[raw] = arrays
            return arrays

        return newcomer


class _Group:
    """Arrays that follow each other without a number between them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.formats = ""
        self.arrays: list[str] = []
        self.lengths: list[tuple[int, int]] = []
        self.slices: list[tuple[int, int]] = []
        self.values = 0

    def add(self, array: str, code: str, length: int, flexible: bool) -> None:
        self.formats += f"{'B' if flexible else 'i'}{length}{code}"
        self.arrays.append(array)
        self.lengths.append((self.values, length + 1 if flexible else length))
        self.slices.append((self.values + 1, self.values + 1 + length))
        self.values += 1 + length

    def add_tags(self) -> None:
        self.formats += "B"
        self.lengths.append((self.values, 0))
        self.values += 1

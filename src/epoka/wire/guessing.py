"""Reads arrays of structs that are numbers and arrays of numbers alone, such as the partitions of a topic.

The lengths of its arrays decide the whole layout of such a struct, and neighbours mostly have the same
lengths. So the next element is guessed to look like the last: one unpacking takes its numbers and, as raw
bytes, its arrays with their lengths. Raw bytes that were seen before are known to be right and give the
same tuples again, as a cluster has far fewer sets of replicas than partitions; others are unpacked and their
lengths compared with the guess. Where the guess is wrong, a look at the length bytes gives a better one, and
where there is none, the decoder reads the element field by field.

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
# Remembering arrays pays when each is met this often before the memory is full.
WORTH_REMEMBERING = 4

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
        # One memory a group of arrays, for all shapes: raw bytes tell their lengths themselves.
        self.known: list[dict[bytes, tuple[Any, ...]]] = [{} for _ in fields]
        self.remembers = True
        self.read = 0
        self.lengths_at = self._peeker()

    def turn(self, view: memoryview, position: int, end: int) -> bool:
        """Guesses anew from the lengths of the element at a position; whether there is a guess now."""
        lengths = self.lengths_at(view, position, end)
        run = self.shapes.get(lengths)
        if run is None and sum(lengths) <= MAX_SHAPE_ELEMENTS and len(self.shapes) < MAX_COMPILED_SHAPES:
            if len(self.sightings) >= MAX_WATCHED_SHAPES:
                self.sightings.clear()
            sightings = self.sightings[lengths] = self.sightings.get(lengths, 0) + 1
            if sightings >= SIGHTINGS_BEFORE_COMPILING:
                run = self.shapes[lengths] = self._compiled(lengths)
        self.run = run or no_guess
        return run is not None

    def make_room(self) -> None:
        """Forgets all arrays, and stops remembering any if too few came back."""
        for memory in self.known:
            memory.clear()
        if self.read < WORTH_REMEMBERING * MAX_REMEMBERED:
            self.remembers = False
            self.shapes.clear()
            self.run = no_guess
        self.read = 0

    def _peeker(self) -> Callable[[memoryview, int, int], tuple[int, ...]]:
        """Writes the function that reads the lengths of an element and nothing else.

        It believes what it reads: a length that lies makes a guess that fails, and one that leads past the
        end or makes no sense gives a shape that is too large for a guess.
        """
        source = Source()
        hopeless = repr((MAX_SHAPE_ELEMENTS + 1,))
        with source.block("def peek(view, position, end):"):
            gap = 0
            names = []
            for index, (code, is_array) in enumerate(self.fields):
                size = struct.calcsize(">" + code)
                if not is_array:
                    gap += size
                    continue
                if gap:
                    source.emit(f"position += {gap}")
                with source.block(f"if position + {1 if self.flexible else 4} > end:"):
                    source.emit(f"return {hopeless}")
                name = f"n{index}"
                if self.flexible:
                    source.emit(f"{name} = view[position] - 1")
                else:
                    source.emit(f"{name}, = {source.packer('unpack_from', 'i')}(view, position)")
                with source.block(f"if not 0 <= {name} <= {MAX_SHAPE_ELEMENTS}:"):
                    source.emit(f"return {hopeless}")
                source.emit(f"position += {name} * {size}")
                gap = 1 if self.flexible else 4
                names.append(name)
            source.emit(f"return {', '.join(names)},")
        return source.function("peek", "lengths of an element")

    def _compiled(self, lengths: tuple[int, ...]) -> Run:
        """Writes the reader of one shape."""
        source = Source()
        source.constants.update(self.constants, guesses=self)
        formats, targets, groups, arguments = self._arranged(lengths)
        layout = struct.Struct(">" + "".join(formats))
        source.constants["unpacked"] = layout.iter_unpack
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
                for number, group in enumerate(groups):
                    if self.remembers:
                        self._look_up(source, group, self.known[number])
                    else:
                        with source.block(f"if {' or '.join(group.wrong)}:"):
                            source.emit("break")
                source.emit(f"append({self.constructor.format(**arguments)})")
            source.emit("done = len(elements) - before")
            source.emit("guesses.read += done")
            source.emit(f"return position + done * {size}, count - done, budget - done * {cost}")
        return source.function("run", f"elements of lengths {lengths}")

    def _look_up(self, source: Source, group: _Group, known: dict[bytes, tuple[Any, ...]]) -> None:
        """Writes the lines that turn the raw bytes of a group into its arrays."""
        source.constants[f"{group.name}_known"] = known.get
        source.constants[f"{group.name}_new"] = group.newcomer(known, self.make_room)
        source.emit(f"g = {group.name}_known({group.name})")
        with source.block("if g is None:"):
            source.emit(f"g = {group.name}_new({group.name})")
            with source.block("if g is None:"):
                source.emit("break")
        source.emit(f"{', '.join(group.arrays)}, = g")

    def _arranged(
        self, lengths: tuple[int, ...]
    ) -> tuple[list[str], list[str], list[_Group], dict[str, str]]:
        """Formats and names of what is unpacked, the groups in it, and the arguments of the constructor."""
        formats: list[str] = []
        targets: list[str] = []
        groups: list[_Group] = []
        arguments: dict[str, str] = {}
        waiting = list(lengths)
        in_group = False
        for index, (code, is_array) in enumerate(self.fields):
            name = f"f{index}"
            arguments[name] = f"uuid_of({name})" if code == "16s" else name
            if not is_array:
                formats.append(code)
                targets.append(name)
            else:
                if not in_group:
                    groups.append(_Group(f"r{index}"))
                    targets.append(f"r{index}")
                    formats.append("")
                groups[-1].add(name, code, waiting.pop(0), self.flexible)
                formats[-1] = groups[-1].raw_format
            in_group = is_array
        if self.flexible and in_group:
            groups[-1].add_tags()
            formats[-1] = groups[-1].raw_format
        elif self.flexible:
            formats.append("B")
            targets.append("tags")
        if not self.remembers:
            for group in groups:
                place = targets.index(group.name)
                formats[place : place + 1] = [group.formats, *[""] * (len(group.targets) - 1)]
                targets[place : place + 1] = group.targets
                arguments.update(zip(group.arrays, group.tuples))
        return formats, targets, groups, arguments


class _Group:
    """Arrays that follow each other without a number between them, and the struct's end if it is next."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.formats = ""
        self.arrays: list[str] = []
        self.targets: list[str] = []
        self.wrong: list[str] = []
        self.tuples: list[str] = []

    @property
    def raw_format(self) -> str:
        return f"{struct.calcsize('>' + self.formats)}s"

    def add(self, array: str, code: str, length: int, flexible: bool) -> None:
        elements = [f"{array}_{number}" for number in range(length)]
        self.formats += f"{'B' if flexible else 'i'}{length}{code}"
        self.arrays.append(array)
        self.targets += [f"{array}_n", *elements]
        self.wrong.append(f"{array}_n != {length + 1 if flexible else length}")
        self.tuples.append(f"({', '.join(elements)}{',' if length == 1 else ''})")

    def add_tags(self) -> None:
        self.formats += "B"
        self.targets.append("end_tags")
        self.wrong.append("end_tags")

    def newcomer(
        self, known: dict[bytes, tuple[Any, ...]], make_room: Callable[[], None]
    ) -> Callable[[bytes], tuple[Any, ...] | None]:
        """Writes what unpacks raw bytes not seen before; it gives None if they are not as guessed."""
        source = Source()
        source.constants.update(known=known, make_room=make_room)
        with source.block("def new(raw):"):
            source.emit(f"{', '.join(self.targets)}, = {source.packer('unpack', self.formats)}(raw)")
            with source.block(f"if {' or '.join(self.wrong)}:"):
                source.emit("return None")
            with source.block(f"if len(known) >= {MAX_REMEMBERED}:"):
                source.emit("make_room()")
            source.emit(f"arrays = known[raw] = {', '.join(self.tuples)},")
            source.emit("return arrays")
        return source.function("new", "arrays not seen before")

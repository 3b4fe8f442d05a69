"""`python -m benchmarks.mutants`: schedules until a missing rule is noticed, as a table for the track record.

Several ranges of seeds each: with the rule's own profile, and with the swarm as it is. A mutant that nothing
notices alone is not looked for; its pair is. What was found out is written down schedule by schedule, so a
measurement that was stopped goes on where it was. ">n" is "not within n schedules".

In the swarm most schedules never ask much of a rule. One in which a rule refuses nothing is the same schedule
without it, so of rules that are off only the others are run again; that leaves the figures as they are.

Long: `make bench` has a short form of it, one range of aimed schedules (`measure`).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from benchmarks.figures import Figure
from epoka.fencing import Rules, Verdict
from epoka.sim.mutants import MUTANTS, Mutant
from epoka.sim.runner import Options, run

APART: Final = 1_000_000
"""Between two ranges of seeds. Profiles were tried out on seeds below 1,000."""
PIECE: Final = 25
SHORT_LIMIT: Final = 100
AIM: Final = 1_000
AIMED, UNIFORM = "aimed", "uniform"
NOT_ONLY_REFUSALS: Final = frozenset({"registry.bounce", "heartbeat.session"})
"""Rules that do something beside refusing: a bounce is an acceptance, and silence sets an alarm."""


class Seen(msgspec.Struct):
    """How far one range of one mutant has been looked at."""

    mutant: str
    kind: str
    number: int
    clean: int = 0
    """Schedules that did not notice."""
    noticed: int | None = None
    """The schedule that did, counted from 1."""

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.mutant, self.kind, self.number)


class Piece(msgspec.Struct, frozen=True):
    """Some schedules of one range, and the mutants to look for in them."""

    kind: str
    number: int
    first: int
    names: tuple[str, ...]


def open_mutants(names: Sequence[str]) -> list[Mutant]:
    chosen = [MUTANTS[name] for name in names] if names else list(MUTANTS.values())
    return [mutant for mutant in chosen if not mutant.covered_by]


def is_rules_only(mutant: Mutant) -> bool:
    parts = [MUTANTS[part] for part in mutant.parts or (mutant.name,)]
    return all(
        part.patch is None and part.world is None and not NOT_ONLY_REFUSALS.intersection(part.without)
        for part in parts
    )


def rules_of(mutant: Mutant) -> set[str]:
    return {rule for part in mutant.parts or (mutant.name,) for rule in MUTANTS[part].without}


def options(mutant: Mutant, kind: str) -> Options:
    """Uniform means that the seed decides about the level, too."""
    if kind == UNIFORM:
        return Options(mode=mutant.mode, mutants=(mutant.name,))
    return Options(mode=mutant.mode, level=mutant.level, mutants=(mutant.name,), profile=mutant.profile)


def refusing(seed: int, mode: str) -> set[str]:
    """The rules that refuse something in a schedule of the swarm."""
    refused: set[str] = set()
    ask = Rules.ask

    def noted(self: Rules, *about: Any, **more: Any) -> Verdict:
        verdict = ask(self, *about, **more)
        if verdict.refused:
            refused.add(verdict.rule)
        return verdict

    with mock.patch.object(Rules, "ask", noted):
        run(seed, Options(mode=mode))
    return refused


def look(piece: Piece) -> tuple[Piece, dict[str, int]]:
    """Which schedule of the piece is the first to notice each mutant, counted from 1 in its range."""
    found: dict[str, int] = {}
    for at in range(piece.first, piece.first + PIECE):
        seed = APART * (piece.number + 1) + at
        left = [name for name in piece.names if name not in found]
        if not left:
            break
        if len(left) > 1:
            refused = refusing(seed, MUTANTS[left[0]].mode)
            left = [name for name in left if rules_of(MUTANTS[name]) & refused]
        for name in left:
            if not run(seed, options(MUTANTS[name], piece.kind)).ok:
                found[name] = at + 1
    return piece, found


class Measurement:
    def __init__(self, mutants: list[Mutant], ranges: int, caps: dict[str, int], path: Path | None) -> None:
        self.mutants = mutants
        self.ranges = ranges
        self.caps = caps
        self.path = path
        self.seen: dict[tuple[str, str, int], Seen] = {}
        for mutant in mutants:
            for kind in caps:
                for number in range(ranges):
                    self.seen[mutant.name, kind, number] = Seen(mutant.name, kind, number)
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines():
                known = msgspec.json.decode(line, type=Seen)
                if known.key in self.seen:
                    self.seen[known.key] = known

    def tracks(self) -> list[tuple[str, int, tuple[str, ...]]]:
        """What is looked for together: of the swarm all rules of a mode, otherwise one mutant."""
        together: dict[str, list[str]] = {}
        alone = []
        for mutant in self.mutants:
            if is_rules_only(mutant):
                together.setdefault(mutant.mode, []).append(mutant.name)
            else:
                alone.append(mutant.name)
        tracks: list[tuple[str, int, tuple[str, ...]]] = []
        for number in range(self.ranges):
            if AIMED in self.caps:
                tracks += [(AIMED, number, (mutant.name,)) for mutant in self.mutants]
            if UNIFORM in self.caps:
                tracks += [(UNIFORM, number, tuple(names)) for names in together.values()]
                tracks += [(UNIFORM, number, (name,)) for name in alone]
        return tracks

    def next_piece(self, track: tuple[str, int, tuple[str, ...]]) -> Piece | None:
        kind, number, names = track
        left = [
            each
            for name in names
            if (each := self.seen[name, kind, number]).noticed is None and each.clean < self.caps[kind]
        ]
        if not left:
            return None
        first = min(each.clean for each in left)
        return Piece(kind, number, first, tuple(each.mutant for each in left if each.clean == first))

    def take_in(self, piece: Piece, found: dict[str, int]) -> None:
        lines = []
        for name in piece.names:
            seen = self.seen[name, piece.kind, piece.number]
            seen.noticed = found.get(name)
            seen.clean = piece.first + PIECE if seen.noticed is None else seen.noticed - 1
            lines.append(msgspec.json.encode(seen) + b"\n")
        if self.path is not None:
            with self.path.open("ab") as file:
                file.write(b"".join(lines))

    def go(self, processes: int, minutes: float | None) -> None:
        deadline = None if minutes is None else time.monotonic() + 60 * minutes
        waiting = self.tracks()
        began = time.monotonic()
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            under_way: dict[Future[Any], tuple[str, int, tuple[str, ...]]] = {}
            while waiting or under_way:
                if deadline is not None and time.monotonic() > deadline:
                    waiting.clear()
                while waiting and len(under_way) < 2 * processes:
                    track = waiting.pop(0)
                    piece = self.next_piece(track)
                    if piece is not None:
                        under_way[pool.submit(look, piece)] = track
                if not under_way:
                    break
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    track = under_way.pop(future)
                    self.take_in(*future.result())
                    # Everybody has a turn before anybody has a second one: a stop leaves no rule without one.
                    waiting.append(track)
                print(
                    f"\r{time.monotonic() - began:.0f} s, {self.finished()} of {len(self.seen)} ranges done ",
                    end="",
                    file=sys.stderr,
                )
        print(file=sys.stderr)

    def finished(self) -> int:
        return sum(
            each.noticed is not None or each.clean >= self.caps[each.kind] for each in self.seen.values()
        )

    def of(self, mutant: Mutant, kind: str) -> list[Seen]:
        return [self.seen[mutant.name, kind, number] for number in range(self.ranges)]


def told(ranges: Sequence[Seen]) -> tuple[str, str]:
    """Median and worst; what was not noticed counts as later than everything that was."""
    known = sorted(each.noticed for each in ranges if each.noticed is not None)
    unknown = sorted(each.clean for each in ranges if each.noticed is None)
    order = [str(each) for each in known] + [f">{each}" if each else "not measured" for each in unknown]
    return order[len(order) // 2], order[-1]


def rows(measured: Measurement) -> Iterator[dict[str, Any]]:
    for mutant in measured.mutants:
        row: dict[str, Any] = {
            "name": mutant.name,
            "document": mutant.document,
            "mode": mutant.mode,
            "profile": mutant.profile,
        }
        for kind in measured.caps:
            ranges = measured.of(mutant, kind)
            row[f"{kind}_median"], row[f"{kind}_worst"] = told(ranges)
            row[kind] = [{"noticed": each.noticed, "clean": each.clean} for each in ranges]
        yield row


def table(measured: Measurement) -> str:
    kinds = list(measured.caps)
    lines = [
        "| rule taken away | document | mode | profile | "
        + " | ".join(f"{kind}: median / worst" for kind in kinds)
        + " |",
        "|" + " --- |" * (4 + len(kinds)),
    ]
    for row in rows(measured):
        figures = " | ".join(f"{row[f'{kind}_median']} / {row[f'{kind}_worst']}" for kind in kinds)
        lines.append(
            f"| `{row['name']}` | {row['document']} | {row['mode']} | {row['profile']} | {figures} |"
        )
    return "\n".join(lines)


def measure() -> list[Figure]:
    """The short form: one range, aimed; every missing rule is to be noticed in it."""
    measured = Measurement(open_mutants([]), 1, {AIMED: SHORT_LIMIT}, None)
    measured.go(os.cpu_count() or 1, None)
    noticed = sorted(each.noticed for each in measured.seen.values() if each.noticed is not None)
    every = len(measured.seen)
    about = f"missing rules noticed in {SHORT_LIMIT} aimed schedules"
    figures = [
        Figure(about, "rules", len(noticed), "all", every, len(noticed) / every, 1.0, at_most=False),
    ]
    for way, which in (("median", len(noticed) // 2), ("worst", len(noticed) - 1)) if noticed else ():
        count = noticed[which]
        figures.append(
            Figure(f"a missing rule until noticed, {way}", "schedules", count, "aim", AIM, count / AIM, 1.0)
        )
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="rule", help="which; all without")
    parser.add_argument("--ranges", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1_000, help="schedules of a range, with the profile")
    parser.add_argument("--uniform", type=int, default=2_000, help="the same, of the swarm; 0: none")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, help="stop then, and tell what is known")
    parser.add_argument("--state", type=Path, help="a file that remembers what was found, to go on from")
    parser.add_argument("--json", action="store_true", help="print rows as JSON instead of a table")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in MUTANTS]
    if unknown:
        parser.error(f"there is no rule named {unknown[0]}; `epoka simulate --rules` has the names")
    caps = {AIMED: given.limit} if given.limit else {}
    if given.uniform:
        caps[UNIFORM] = given.uniform
    measured = Measurement(open_mutants(given.names), given.ranges, caps, given.state)
    measured.go(given.processes, given.minutes)
    if given.json:
        print(msgspec.json.encode(list(rows(measured))).decode())
    else:
        print(table(measured))
    medians = [row.get("aimed_median", "1") for row in rows(measured)]
    return 0 if all(each.isdecimal() and int(each) <= AIM for each in medians) else 1


if __name__ == "__main__":
    sys.exit(main())

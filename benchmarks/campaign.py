"""`python -m benchmarks.campaign`: very many schedules, over as many sittings as it takes.

Every piece that is done is a line of the file; the next call goes on with what is missing. The first line
tells of which code: the digest of every module that takes part in a simulation. Other code is another
campaign, and is refused the file; another Python is not, since schedules are the same in each
(`benchmarks.twice`), and every line names its own.

Six of ten schedules are of log mode, three of zookeeper mode, and one aims at a rule: every profile in both
modes in turn. Exit code 1 when anything was violated. Long: `make bench` has a short form of it (`measure`),
which keeps no file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.figures import Figure
from epoka.cli.simulate import command
from epoka.sim.fleet import Tally, Work, cut, spread
from epoka.sim.profiles import PROFILES, SWARM
from epoka.sim.runner import Options

FIRST_SEED: Final = 1_000_000
"""Beyond every seed that was run while building."""
PIECE: Final = 5_000
AIMED_PIECE: Final = 500
MODES: Final = ("log", "zookeeper")
KEPT: Final = Path(__file__).with_name("campaign.jsonl")
"""What has been done with the code as it is, for the next sitting to go on; other code begins another."""
SHORT: Final = {"log": 240, "zookeeper": 120}
SHORT_AIMED: Final = 1
"""Of every profile in every mode."""


class Code(msgspec.Struct, frozen=True):
    digest: str


class Piece(msgspec.Struct, frozen=True):
    mode: str
    profile: str
    first: int
    last: int

    @property
    def options(self) -> Options:
        return Options(mode=self.mode, profile=self.profile)

    @property
    def work(self) -> list[Work]:
        return cut(range(self.first, self.last), self.options)


class Done(msgspec.Struct):
    piece: Piece
    tally: Tally
    python: str


@cache
def code() -> Code:
    """What was loaded of Epoka to simulate, without the command line."""
    digest = hashlib.sha256()
    for name in sorted(sys.modules):
        file = getattr(sys.modules[name], "__file__", None)
        if name.startswith("epoka.") and not name.startswith("epoka.cli") and file:
            digest.update(name.encode() + b"\0" + Path(file).read_bytes())
    return Code(digest.hexdigest()[:16])


def pieces(schedules: int) -> Iterator[Piece]:
    """The same for ever; a longer campaign begins as a shorter one of whole pieces."""
    aims = [(mode, profile) for profile in PROFILES if profile != SWARM for mode in MODES]
    at = dict.fromkeys(MODES, FIRST_SEED)
    aimed = planned = turn = 0

    def swarm(mode: str, count: int) -> Piece:
        at[mode] += count
        return Piece(mode, SWARM, at[mode] - count, at[mode])

    while planned < schedules:
        place = turn % 10
        turn += 1
        count = min(PIECE, schedules - planned)
        planned += count
        if place < 9:
            yield swarm(MODES[0] if place % 3 < 2 else MODES[1], count)
            continue
        while count:
            size = min(AIMED_PIECE, count)
            lap, which = divmod(aimed, len(aims))
            first = FIRST_SEED + lap * AIMED_PIECE
            yield Piece(*aims[which], first, first + size)
            aimed += 1
            count -= size


def sitting(file: Path, schedules: int, first: int, processes: int, until: float) -> list[Done]:
    """Go on with a campaign until it is done or its time is up; all that is done of it.

    It begins at the piece that `first` schedules are before, and what is before that comes last.
    """
    done, plan = _read(file), list(pieces(schedules))
    known = {each.piece for each in done}
    if not known.issubset(plan):
        sys.exit(f"{file} holds pieces of another plan")
    before = list(accumulate((each.last - each.first for each in plan), initial=0))
    start = bisect_left(before, first, hi=len(plan))
    left = [piece for piece in plan[start:] + plan[:start] if piece not in known]
    results = spread([work for piece in left for work in piece.work], processes)
    with file.open("ab") as kept, closing(results):
        if not kept.tell():
            kept.write(msgspec.json.encode(code()) + b"\n")
        for piece in left:
            if time.monotonic() >= until:
                break
            tally = Tally()
            for worked in islice(results, len(piece.work)):
                tally.add(*worked)
            done.append(Done(piece, tally, platform.python_version()))
            kept.write(msgspec.json.encode(done[-1]) + b"\n")
            kept.flush()
            ran = sum(each.tally.schedules for each in done)
            failed = sum(len(each.tally.failures) for each in done)
            print(f"{ran:,} of {schedules:,}, {failed} failed", file=sys.stderr, flush=True)
    return done


def _read(file: Path) -> list[Done]:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or not file.stat().st_size:
        return []
    head, *lines = file.read_bytes().splitlines()
    begun, here = msgspec.json.decode(head, type=Code), code()
    if begun != here:
        sys.exit(
            f"{file} is of the code {begun.digest}, and this is {here.digest}: "
            "remove it, or name another file with --keep"
        )
    return [msgspec.json.decode(line, type=Done) for line in lines]


def tell(done: Sequence[Done]) -> None:
    print(f"code {code().digest}, Python {', '.join(sorted({each.python for each in done}))}\n")
    print("| mode | profile | schedules | failed | events | faults | acknowledged | exceptions |")
    print("|---|---|---|---|---|---|---|---|")
    faults: Counter[str] = Counter()
    for each in done:
        faults.update(each.tally.faults)
    for mode in MODES:
        of_mode = [each for each in done if each.piece.mode == mode]
        _row(mode, SWARM, [each.tally for each in of_mode if each.piece.profile == SWARM])
        _row(mode, "every other", [each.tally for each in of_mode if each.piece.profile != SWARM])
    _row("both", "all", [each.tally for each in done])
    print("\nFaults: " + ", ".join(f"{kind} {count:,}" for kind, count in faults.most_common()))
    for each in done:
        for failure in each.tally.failures:
            violation = failure.violations[0]
            print(f"{command(failure.seed, each.piece.options)}: {violation.checker}: {violation.story}")


def _row(mode: str, profile: str, tallies: Sequence[Tally]) -> None:
    if tallies:
        counts = [
            sum(each.schedules for each in tallies),
            sum(len(each.failures) for each in tallies),
            sum(each.events for each in tallies),
            sum(sum(each.faults.values()) for each in tallies),
            sum(each.acked for each in tallies),
            sum(each.exceptions for each in tallies),
        ]
        print(f"| {mode} | {profile} | " + " | ".join(f"{count:,}" for count in counts) + " |")


def measure() -> list[Figure]:
    """The short form: some hundred schedules, of the same kinds."""
    end = FIRST_SEED + SHORT_AIMED
    parts = [Piece(mode, SWARM, FIRST_SEED, FIRST_SEED + count) for mode, count in SHORT.items()]
    parts += [
        Piece(mode, profile, FIRST_SEED, end) for profile in PROFILES if profile != SWARM for mode in MODES
    ]
    tally = Tally()
    for worked in spread([work for part in parts for work in part.work], os.cpu_count() or 1):
        tally.add(*worked)
    failed, ran = len(tally.failures), tally.schedules
    return [Figure("campaign: schedules violated", "schedules", failed, "of", ran, failed / ran, 0.0)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaign", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="put N schedules off until all others have run"
    )
    parser.add_argument("--keep", type=Path, default=KEPT, help="what is done of it")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no piece after so long")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="how many; all cores unless given"
    )
    given = parser.parse_args(arguments)
    until = time.monotonic() + 60 * given.minutes
    done = sitting(given.keep, given.schedules, given.first, given.processes, until)
    tell(done)
    return 1 if any(each.tally.failures for each in done) else 0


if __name__ == "__main__":
    sys.exit(main())

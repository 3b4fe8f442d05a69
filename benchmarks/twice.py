"""`python -m benchmarks.twice`: the same seeds in two processes that hash differently, compared one by one.

Each process runs every seed by itself, under its own PYTHONHASHSEED and, with `--python`, under another
Python. All that a run results in must be equal: the hash of its trace, events, faults, acknowledged records,
violations. So must its ledger, byte by byte: a trace has the time, the life and the class of every event, and
nothing of what is in it. Exit code 1 when two results differ. Long: `make bench` has a short form of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from benchmarks.figures import Figure

CHILD: Final = """
import hashlib, platform, sys
import msgspec
from epoka.sim.runner import Options, Run
encoder = msgspec.json.Encoder()
modes, first, last = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
print(platform.python_version(), flush=True)
for seed in range(first, last):
    for mode in modes:
        run = Run(seed, Options(mode=mode), ledger=True)
        result = encoder.encode(run.go()).decode()
        ledger = hashlib.blake2b(encoder.encode_lines(run.ledger), digest_size=16).hexdigest()
        print(mode, seed, ledger, result, flush=True)
"""
SHORT: Final = range(100)
SOURCES: Final = Path(__file__).parent.parent / "src"


class Compared(msgspec.Struct):
    pythons: list[str]
    hash_seeds: list[str]
    modes: list[str]
    first: int
    schedules: int = 0
    """Seeds of all modes that both have run."""
    differing: list[str] = []
    seconds: float = 0.0


def begin(python: str, hash_seed: str, modes: str, first: int, last: int) -> subprocess.Popen[str]:
    path = os.pathsep.join(part for part in (str(SOURCES), os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [python, "-c", CHILD, modes, str(first), str(last)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def compare(
    pythons: Sequence[str], hash_seeds: Sequence[str], modes: str, seeds: range, minutes: float | None
) -> Compared:
    began = time.monotonic()
    children = [
        begin(python, hash_seed, modes, seeds.start, seeds.stop)
        for python, hash_seed in zip(pythons, hash_seeds, strict=True)
    ]
    try:
        lines = [_lines(child) for child in children]
        versions = [each.readline().strip() for each in lines]
        compared = Compared(versions, list(hash_seeds), modes.split(","), seeds.start, differing=[])
        for _ in range(len(seeds) * len(compared.modes)):
            one, other = (each.readline() for each in lines)
            if not one or not other:
                raise RuntimeError("a process ended before its last seed")
            compared.schedules += 1
            if one != other:
                compared.differing.append(" ".join(one.split(" ", 2)[:2]))
            compared.seconds = time.monotonic() - began
            if minutes is not None and compared.seconds > 60 * minutes:
                break
        return compared
    finally:
        for child in children:
            child.kill()
            child.wait()


def _lines(child: subprocess.Popen[str]) -> IO[str]:
    assert child.stdout is not None
    return child.stdout


def measure() -> list[Figure]:
    """The short form: a hundred seeds in both modes."""
    compared = compare((sys.executable, sys.executable), ("1", "2"), "log,zookeeper", SHORT, None)
    differing, ran = len(compared.differing), compared.schedules
    return [Figure("run twice: results that differ", "schedules", differing, "of", ran, differing / ran, 0.0)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.twice", description=__doc__)
    parser.add_argument("--seeds", default="0:5000", help="A:B, each in every mode")
    parser.add_argument("--modes", default="log,zookeeper")
    parser.add_argument(
        "--python", default=sys.executable, help="of the second process; epoka's dependencies must be there"
    )
    parser.add_argument("--minutes", type=float, help="stop then, and tell what was compared")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    first, _, last = given.seeds.partition(":")
    compared = compare(
        (sys.executable, given.python),
        ("1", "2"),
        given.modes,
        range(int(first), int(last)),
        given.minutes,
    )
    if given.json:
        print(msgspec.json.encode(compared).decode())
    else:
        modes = " and ".join(compared.modes)
        print(
            f"{compared.schedules:,} schedules from seed {compared.first:,} on, {modes} mode, "
            f"Python {' and '.join(compared.pythons)}, hash seeds {' and '.join(compared.hash_seeds)}: "
            f"{len(compared.differing)} differ; {compared.seconds:.0f} s"
        )
        for each in compared.differing[:10]:
            print(f"  {each}")
    return 1 if compared.differing or not compared.schedules else 0


if __name__ == "__main__":
    sys.exit(main())

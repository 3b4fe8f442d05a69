"""How long somebody waits for `epoka --help`, and between two keys for completion."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from benchmarks.figures import Figure, beside

ROUNDS = 15
AIM_MS = 150.0


def milliseconds(*words: str) -> float:
    """The median of fresh processes."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, capture_output=True)
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


def run() -> list[Figure]:
    epoka = ("-m", "epoka.cli.main")
    return [
        beside("epoka --help", "ms", milliseconds(*epoka, "--help"), "aim", AIM_MS, at_most=1.0),
        beside(
            "epoka topic describe --<tab>",
            "ms",
            milliseconds(*epoka, "__complete", "topic", "describe", "--"),
            "aim",
            AIM_MS,
            at_most=1.0,
        ),
        beside(
            "epoka --help", "ms", milliseconds(*epoka, "--help"), "python -c pass", milliseconds("-c", "pass")
        ),
    ]

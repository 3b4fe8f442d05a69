"""One seed, one trace and one ledger: in every process, whatever Python hashes strings to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from epoka.sim.runner import Options, run

SCRIPT = """
import hashlib, sys
import msgspec
from epoka.sim.runner import Options, Run
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    run = Run(seed, Options(mode=sys.argv[1]), ledger=True)
    result = run.go()
    ledger = hashlib.blake2b(msgspec.json.encode(run.ledger)).hexdigest()
    print(seed, ledger, result.trace, result.events, result.acked, sorted(result.faults.items()))
"""


def _traces(mode: str, hash_seed: str, first: int, last: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode, str(first), str(last)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout


@pytest.mark.parametrize("mode", ["log", "zookeeper"])
def test_traces_and_ledgers_do_not_depend_on_the_process_or_on_hashes(mode: str) -> None:
    one = _traces(mode, "1", 0, 60)
    other = _traces(mode, "2", 0, 60)
    assert one == other
    assert len(one.splitlines()) == 60


def test_a_seed_run_twice_in_one_process_has_one_trace() -> None:
    for seed in range(20):
        assert run(seed) == run(seed)


def test_different_seeds_have_different_traces() -> None:
    assert len({run(seed, Options()).trace for seed in range(30)}) == 30

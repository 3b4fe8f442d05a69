"""Runs `epoka` as a user does: as a command of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "epoka.cli.main"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def epoka(*arguments: str, timeout_s: float = 100) -> Outcome:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout_s)
    return Outcome(done.returncode, done.stdout, done.stderr)


@contextmanager
def foreground(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that stays; it is gone afterwards, whatever happened."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    """The first thing it says; AssertionError with what it complained about when it says nothing."""
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line


def is_one_line(outcome: Outcome) -> bool:
    """One line on standard error, nothing on standard output, and no traceback."""
    return outcome.err.count("\n") == 1 and outcome.err.startswith("epoka: ") and not outcome.out

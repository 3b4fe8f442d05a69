"""Runs `epoka` as a user does: as a command of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from epoka.cli import main

COMMAND = [sys.executable, "-m", "epoka.cli.main"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def epoka(*arguments: str, given: str | None = None, timeout_s: float = 100) -> Outcome:
    """Run it to its end; `given` is its standard input."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=timeout_s, input=given
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def inside(*arguments: str, given: str | None = None) -> Outcome:
    """The same in this process: a good deal cheaper, for what needs no process of its own."""
    before = sys.stdin, sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as source:
        source.write((given or "").encode())
        source.seek(0)
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(source), out, err
        try:
            code = main.run(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
    out.flush()
    return Outcome(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]


@contextmanager
def foreground(*arguments: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command that stays; it is gone afterwards, whatever happened."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
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

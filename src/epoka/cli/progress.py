"""A bar for a person who waits, on standard error: on standard output there are results and nothing else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol


class Progress(Protocol):
    def __call__(self, done: int, every: int | None, note: str = "") -> None: ...


@contextlib.contextmanager
def bar(what: str) -> Iterator[Progress]:
    """A progress bar where a person looks, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield _nothing
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    ) as drawn:
        task = drawn.add_task(what, total=None, note="")

        def move(done: int, every: int | None, note: str = "") -> None:
            drawn.update(task, completed=done, total=every, note=note)

        yield move


def _nothing(done: int, every: int | None, note: str = "") -> None:
    pass

"""Waiting for a condition with a deadline, for tests that watch real processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_AGAIN_S = 0.01


def wait_until(condition: Callable[[], T], what: str | Callable[[], str], *, within_s: float = 60.0) -> T:
    """The first true value of `condition`; AssertionError with `what` was awaited when the time is up."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"waited {within_s:g} s in vain: {what if isinstance(what, str) else what()}"
            )
        time.sleep(LOOK_AGAIN_S)

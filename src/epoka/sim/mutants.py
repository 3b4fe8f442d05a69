"""Rules that are not in `fencing/`, taken away one at a time, in the simulator alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epoka.sim.world import World

MUTANTS: dict[str, Callable[[contextlib.ExitStack], None]] = {}


@contextlib.contextmanager
def applied(names: Sequence[str]) -> Iterator[None]:
    """The cores as they are without those rules, for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        for name in names:
            MUTANTS[name](stack)
        yield


def set_up(world: World, names: Sequence[str]) -> None:
    """What a mutant changes in the world rather than in the cores."""

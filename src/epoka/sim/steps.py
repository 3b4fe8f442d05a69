"""The decisions of a run: what is done to the cluster and asked of it, when, and to whom.

A schedule is a list of steps and nothing else, made from a seed before the run begins. That is what makes a
failing run small: steps are taken away until what is left still fails, and what is left is a file. Targets
are roles, found when the step is due, because who leads is a consequence of everything before.
"""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    at: int
    """Milliseconds after the cluster was ready; of a step in `then`, after the ambush was sprung."""
    kind: str
    target: str = ""
    """A role: `leader`, `follower`, `controller`, `broker:2`, with `@1` for another partition than 0."""
    other: str = ""
    """A second role, for links."""
    ms: int = 0
    """How long it lasts, or how much it is."""
    disk: str = ""
    message: str = ""
    """The class of messages it is about."""
    salt: int = 0
    """Decides between several that play the role."""
    then: tuple[Step, ...] = ()


class Schedule(msgspec.Struct, frozen=True):
    """A run as a file: everything that is needed to repeat it."""

    seed: int
    mode: str
    level: str
    steps: tuple[Step, ...]
    without: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    profile: str = "swarm"
    story: str = ""
    """What goes wrong, in the checker's words."""


def encode(schedule: Schedule) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schedule), indent=2) + b"\n"


def decode(content: bytes) -> Schedule:
    """The schedule; msgspec.ValidationError names what is wrong with it."""
    return msgspec.json.decode(content, type=Schedule)

"""The decisions of a run: what is done to the cluster and asked of it, when, and to whom.

A schedule is a list of steps and nothing else, made from a seed before the run begins. That is what makes a
failing run small: steps are taken away until what is left still fails, and what is left is a file. Targets
are roles, found when the step is due, because who leads is a consequence of everything before.
"""

from __future__ import annotations

import msgspec

from epoka.model.levels import FeatureLevel


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


class Plan(msgspec.Struct, frozen=True):
    """One run, decided: what it stands on, and its steps."""

    steps: tuple[Step, ...]
    length_ms: int
    level: FeatureLevel
    brokers: int = 3
    controllers: int = 1
    partitions: int = 1
    codec: bool = False
    spread_ms: int = 2
    spike_chance: float = 0.0
    chores_ms: int = 400
    settings: dict[str, int] = {}
    """Of brokers."""
    controller: dict[str, int] = {}
    metadata_max_bytes: int = 8 << 20
    most_queued: int = 500
    """Control requests for one broker, in zookeeper mode, before a controller tells it the way things are."""
    min_isr: int = 2
    in_flight: int = 1
    """Batches of a partition that an idempotent producer has under way at a time."""


class Schedule(msgspec.Struct, frozen=True):
    """A run as a file: everything that is needed to repeat it, whatever becomes of the profiles."""

    seed: int
    mode: str
    plan: Plan
    without: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    story: str = ""
    """What goes wrong, in the checker's words."""


def encode(schedule: Schedule) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schedule), indent=2) + b"\n"


def decode(content: bytes) -> Schedule:
    """The schedule; msgspec.MsgspecError names what is wrong with it."""
    return msgspec.json.decode(content, type=Schedule)

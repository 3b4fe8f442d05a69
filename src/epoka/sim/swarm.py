"""What a seed decides to do on its own: which ground, which faults, which records, which errands.

Everything is drawn here, before the run begins, from one generator; the result is a `Plan`. Each seed picks
which kinds of faults it uses at all, because a run with every fault in it reaches few places.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from epoka.model.levels import HIGHEST, LOWEST_IN_LOG_MODE, FeatureLevel
from epoka.sim.nemesis import KINDS
from epoka.sim.steps import Plan, Step

WEIGHTS: Final = {
    "clean-stop": 2,
    "kill": 4,
    "kill-lossy": 4,
    "kill-wiped": 2,
    "fast-bounce": 6,
    "pause": 5,
    "controlled-shutdown": 4,
    "shutdown-bounce": 3,
    "controller-failover": 4,
    "duplicate-id": 1,
    "all-brokers": 1,
    "drop": 2,
    "delay": 4,
    "reorder": 2,
    "duplicate": 2,
    "partition": 5,
    "one-way-partition": 4,
    "swizzle-clog": 2,
    "reset": 2,
    "half-open": 2,
    "fsync-error": 1,
    "disk-full": 1,
    "torn-tail": 2,
    "slow-disk": 2,
    "clock-jump": 1,
    "clock-drift": 1,
}
assert set(WEIGHTS) == set(KINDS)

ROLES: Final = ("leader", "leader", "follower", "insider", "outsider", "any")
LASTING: Final = {
    "pause": (50, 1_400),
    "drop": (100, 800),
    "delay": (100, 1_000),
    "reorder": (100, 1_000),
    "duplicate": (100, 800),
    "partition": (50, 1_500),
    "one-way-partition": (50, 1_500),
    "swizzle-clog": (50, 600),
    "half-open": (50, 1_200),
    "slow-disk": (100, 1_000),
    "duplicate-id": (200, 1_500),
    "fast-bounce": (1, 40),
    "shutdown-bounce": (1, 60),
    "all-brokers": (1, 800),
}
BACK: Final = (1, 900)
"""How long a process stays away, of the kinds that end one."""

DISKS: Final = ("keep", "lose", "lose", "tear")


def fault(rng: Random, kind: str, at: int, target: str | None = None) -> Step:
    low, high = LASTING.get(kind, BACK)
    # Short and long ones alike: half of all are in the lowest tenth.
    span = high - low if rng.random() < 0.5 else max((high - low) // 10, 1)
    other = ""
    if (kind in ("partition", "one-way-partition") and rng.random() < 0.7) or kind in ("delay", "reset"):
        other = rng.choice(("controller", "leader", "follower"))
    role = target or rng.choice(ROLES)
    if kind in ("pause", "clock-drift", "half-open", "delay") and rng.random() < 0.15:
        role = "controller"
    return Step(
        at=at,
        kind=kind,
        target=role,
        other=other,
        ms=low + rng.randrange(span + 1),
        disk=rng.choice(DISKS) if kind in ("fast-bounce", "shutdown-bounce") else "",
        salt=rng.randrange(1 << 20),
    )


def faults(rng: Random, length_ms: int, least: int, most: int, kinds: dict[str, int]) -> list[Step]:
    names, weights = list(kinds), list(kinds.values())
    return [
        fault(rng, rng.choices(names, weights)[0], rng.randrange(length_ms))
        for _ in range(rng.randint(least, most))
    ]


def some_kinds(rng: Random) -> dict[str, int]:
    """The mix of one seed."""
    share = rng.choice((0.15, 0.3, 0.5, 0.8))
    chosen = {kind: weight for kind, weight in WEIGHTS.items() if rng.random() < share}
    return chosen or {"fast-bounce": 1}


def produces(rng: Random, length_ms: int, least: int, most: int) -> list[Step]:
    return [
        Step(rng.randrange(length_ms), "produce", ms=rng.randrange(3), salt=rng.randrange(1 << 16))
        for _ in range(rng.randint(least, most))
    ]


def errands(rng: Random, length_ms: int) -> list[Step]:
    """What an operator does now and then."""
    steps: list[Step] = []
    if rng.random() < 0.15:
        at = rng.randrange(length_ms)
        steps += [
            Step(at, "create-topic", salt=rng.randrange(100)),
            Step(at + 40, "use-side-topic"),
            Step(at + 300, "use-side-topic"),
        ]
        if rng.random() < 0.6:
            steps.append(Step(at + 350 + rng.randrange(600), "delete-topic"))
    if rng.random() < 0.15:
        at = rng.randrange(length_ms)
        steps.append(Step(at, "reassign", salt=rng.randrange(1_000)))
        if rng.random() < 0.3:
            steps.append(Step(at + rng.randrange(200), "cancel-reassign", salt=rng.randrange(1_000)))
    return steps


def ground(rng: Random, mode: str, level: FeatureLevel | None) -> dict[str, Any]:
    """What a run stands on: sizes, levels, delays, timeouts."""
    # At `legacy` a bounced broker is never told anything: that is what KIP-380 is about.
    lowest = LOWEST_IN_LOG_MODE if mode == "log" else FeatureLevel.GENERATIONS
    chosen = level
    if chosen is None:
        chosen = HIGHEST if rng.random() < 0.8 else FeatureLevel(rng.randint(lowest, HIGHEST))
    session_ms = rng.choice((400, 600, 600, 900))
    return {
        "level": chosen,
        "brokers": 4 if rng.random() < 0.1 else 3,
        "controllers": 1 if mode == "log" else 2,
        "partitions": rng.choice((1, 1, 1, 2)),
        "codec": rng.random() < 0.06,
        "spread_ms": rng.choice((0, 2, 2, 8, 30)),
        "spike_chance": rng.choice((0.0, 0.0, 0.02)),
        "chores_ms": rng.choice((100, 400, 400, 2_000)),
        "settings": {
            "heartbeat_interval_ms": rng.choice((120, 180)),
            "heartbeat_timeout_ms": session_ms + rng.choice((100, 300)),
            "replica_lag_time_max_ms": rng.choice((300, 500, 800)),
            "replica_fetch_wait_max_ms": rng.choice((100, 300)),
            "request_timeout_ms": rng.choice((600, 1_500)),
        },
        "controller": {
            "session_timeout_ms": session_ms,
            "snapshot_after_records": rng.choice((8, 30, 20_000, 20_000)),
        },
        "metadata_max_bytes": rng.choice((150, 8 << 20, 8 << 20)),
    }


def swarm(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    base = ground(rng, mode, level)
    # Where messages take their time, brokers fall behind: so few that it happens.
    base["most_queued"] = 2 if base["spread_ms"] >= 8 else 500
    # As many as clients have by default, and one at a time where brokers are slow to see each other gone.
    base["in_flight"] = 5 if base["settings"]["replica_lag_time_max_ms"] < 800 else 1
    length_ms = rng.choice((800, 1_500, 2_500))
    steps = faults(rng, length_ms, 1, 7, some_kinds(rng))
    steps += produces(rng, length_ms, 10, 30) + errands(rng, length_ms)
    if base["level"] < HIGHEST and rng.random() < 0.5:
        for at, rung in enumerate(range(base["level"] + 1, HIGHEST + 1)):
            steps.append(Step(200 + 200 * at + rng.randrange(150), "climb", ms=rung))
    return plan_of(steps, length_ms, base)


def plan_of(steps: list[Step], length_ms: int, base: dict[str, Any]) -> Plan:
    return Plan(steps=tuple(sorted(steps, key=lambda step: step.at)), length_ms=length_ms, **base)

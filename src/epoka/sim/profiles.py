"""One bias for every rule, that aims at its race.

A profile adds the faults that its rule is about, at the moments that matter, to a smaller swarm.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from epoka.model.levels import HIGHEST, FeatureLevel
from epoka.sim.steps import Plan, Step
from epoka.sim.swarm import fault, faults, ground, plan_of, produces, some_kinds, swarm
from epoka.sim.workload import IDEMPOTENT

SWARM: Final = "swarm"

Profile = Callable[[Random, str, "FeatureLevel | None"], Plan]


def aimed(
    rng: Random,
    mode: str,
    level: FeatureLevel | None,
    steps: list[Step],
    *,
    length_ms: int = 1_400,
    noise: int = 2,
    records: tuple[int, int] = (20, 40),
    settings: dict[str, Any] | None = None,
    controller: dict[str, Any] | None = None,
    **more: Any,
) -> Plan:
    """A rule's own steps, put on a small swarm."""
    base = ground(rng, mode, HIGHEST if level is None else level)
    base |= {"brokers": 3, "partitions": 1, "chores_ms": 2_000, "spread_ms": rng.choice((0, 2, 8)), **more}
    base["settings"] = {**base["settings"], **(settings or {})}
    base["controller"] = {**base["controller"], **(controller or {})}
    steps = [*steps, *faults(rng, length_ms, 0, noise, some_kinds(rng)), *produces(rng, length_ms, *records)]
    return plan_of(steps, length_ms, base)


def _salt(rng: Random) -> int:
    return rng.randrange(1 << 20)


def _step(
    rng: Random, at: int, kind: str, target: str = "", low: int = 0, high: int = 0, **more: Any
) -> Step:
    return Step(at, kind, target, ms=rng.randint(low, high), salt=_salt(rng), **more)


def stale_join(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A follower falls behind, catches up, is proposed, and is born again without its tail meanwhile."""
    at = rng.randrange(50, 300)
    who = f"broker:{rng.randint(1, 3)}"
    bounce = _step(rng, rng.randrange(12), "fast-bounce", who, 1, 6, disk="lose")
    apart = _step(rng, bounce.at, "partition", who, 300, 600, other="leader")
    steps = [
        _step(rng, at, "partition", who, 420, 600, other="leader"),
        _step(
            rng,
            at + 100,
            "ambush",
            "",
            30,
            500,
            message="AlterPartitionRequest",
            disk="grows",
            then=(bounce, apart),
        ),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        settings={"replica_lag_time_max_ms": 300, "request_timeout_ms": 250},
        controller={"session_timeout_ms": 900},
    )


def fenced_join(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A follower catches up just when the controller gives it up, and the leader has not heard so."""
    at = rng.randrange(50, 300)
    who = f"broker:{rng.randint(2, 3)}"
    news = "FetchMetadataResponse" if mode == "log" else "UpdateMetadataRequest"
    steps = [
        _step(rng, at, "partition", who, 460, 600, other="leader"),
        _step(rng, at + rng.randrange(60, 300), "partition", who, 700, 1_200, other="controller"),
        Step(at, "slow-message", message=news, ms=1_500, salt=rng.randrange(150, 400)),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=1_800,
        settings={
            "replica_lag_time_max_ms": 300,
            "heartbeat_timeout_ms": 1_500,
            "request_timeout_ms": 1_500,
        },
        controller={"session_timeout_ms": 400},
    )


def slow_proposals(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A leader asks for a smaller ISR; before it is heard another member has gone, others have committed
    without it, and it is back, active but behind."""
    at = rng.randrange(50, 200)
    late, gone = rng.sample(("broker:2", "broker:3"), 2)
    if rng.random() < 0.3:
        # The leader itself is the one that goes: its proposal belongs to an earlier leadership.
        gone = "broker:1"
    heir = "broker:2" if gone == "broker:1" else "leader"
    then = (
        _step(rng, 0, "partition", gone, 430, 560, other="controller"),
        _step(rng, rng.randrange(20), "partition", gone, 1_400, 1_600, other=heir),
    )
    steps = [
        _step(rng, at, "partition", late, 350, 520, other="broker:1"),
        _step(
            rng,
            at + 50,
            "ambush",
            "",
            800,
            1_200,
            message="AlterPartitionRequest",
            disk="shrinks",
            then=then,
        ),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=2_200,
        records=(30, 60),
        settings={"replica_lag_time_max_ms": 300, "request_timeout_ms": 1_500, "heartbeat_timeout_ms": 900},
        controller={"session_timeout_ms": 400},
    )


def late_copies(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A proposal is long on its way, so the leader says it again. That is refused, since the member is fenced
    by then, and taken back. When the member is back and behind, the first copy arrives."""
    at = rng.randrange(50, 250)
    apart_ms = rng.randint(400, 500)
    # Silent early enough to be fenced soon after it has caught up, and for long enough to be fenced at all.
    silent = Step(at + rng.randrange(60, 200), "partition", "broker:3", "controller", ms=450, salt=_salt(rng))
    again = _step(rng, rng.randrange(20, 160), "reset", "leader", other="controller")
    behind = Step(again.at + 40, "partition", "broker:3", "leader", ms=rng.randint(600, 900), salt=_salt(rng))
    steps = [
        Step(at, "partition", "broker:3", "leader", ms=apart_ms, salt=_salt(rng)),
        silent,
        _step(
            rng,
            at + 100,
            "ambush",
            "",
            350,
            700,
            message="AlterPartitionRequest",
            disk="grows",
            then=(again, behind),
        ),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=0,
        length_ms=2_000,
        records=(60, 100),
        settings={"replica_lag_time_max_ms": 300, "heartbeat_timeout_ms": 900, "heartbeat_interval_ms": 120},
        controller={"session_timeout_ms": 400},
    )


def slow_answers(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The controller has added a member and the leader can't hear so, while that member falls behind."""
    at = rng.randrange(50, 250)
    deaf = Step(
        1, "one-way-partition", "controller", "leader", ms=rng.randint(700, 1_100), salt=_salt(rng) | 1
    )
    behind = Step(
        rng.randrange(3, 25), "partition", "leader", "", ms=rng.randint(500, 900), salt=_salt(rng), message=""
    )
    behind = msgspec.structs.replace(behind, target="broker:3", other="leader")
    steps = [
        Step(at, "partition", "broker:3", "leader", ms=rng.randint(420, 500), salt=_salt(rng)),
        _step(
            rng,
            at + 100,
            "ambush",
            "",
            0,
            0,
            message="AlterPartitionRequest",
            disk="grows",
            then=(deaf, behind),
        ),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=2_000,
        records=(30, 60),
        settings={
            "replica_lag_time_max_ms": 300,
            "request_timeout_ms": 300,
            "heartbeat_timeout_ms": 1_500,
        },
        controller={"session_timeout_ms": 1_200},
    )


def role_changes(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Leaders come and go quickly, and answers to fetches are still on their way."""
    length_ms = 1_600
    kinds = ("kill", "pause", "fast-bounce", "partition", "clean-stop", "controlled-shutdown")
    steps = [
        msgspec.structs.replace(
            fault(rng, rng.choice(kinds), rng.randrange(length_ms), "leader"),
            disk="keep",
            other="",
        )
        for _ in range(rng.randint(2, 4))
    ]
    if rng.random() < 0.6:
        steps.append(_step(rng, rng.randrange(300), "slow-message", "", 500, 1_200, message="FetchResponse"))
    return aimed(
        rng,
        mode,
        level,
        steps,
        length_ms=length_ms,
        records=(30, 60),
        spread_ms=rng.choice((2, 8, 30)),
        controller={"session_timeout_ms": 400},
    )


def pipelines(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A producer writes several batches at once to topics whose leaders hear of them between two."""
    length_ms = 1_600
    steps: list[Step] = []
    for at in range(50, length_ms - 200, 250):
        steps.append(_step(rng, at, "create-topic"))
        steps += [Step(at + later, "use-side-topic") for later in range(2, 40, 3)]
        # The last partition that clients have heard of, which may be the new topic's.
        steps += [
            Step(at + later, "produce", ms=IDEMPOTENT, salt=-1)
            for later in sorted(rng.sample(range(4, 80), rng.randint(8, 16)))
        ]
    if rng.random() < 0.5:
        steps.append(fault(rng, "fast-bounce", rng.randrange(length_ms), "any"))
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=length_ms,
        records=(0, 10),
        spread_ms=rng.choice((8, 30)),
        in_flight=5,
    )


def quick_returns(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A leader that has records alone is replaced, cuts them off, and leads again, all within the time that a
    produce waits."""
    at = rng.randrange(30, 150)
    parted_ms = rng.randint(40, 90)
    steps = [
        _step(rng, at, "fast-bounce", "broker:1", 1, 8, disk="keep"),
        _step(rng, at + 300, "partition", "broker:2", parted_ms, parted_ms, other="broker:1"),
        _step(rng, at + 300, "partition", "broker:2", parted_ms, parted_ms, other="broker:3"),
        Step(at + 300 + rng.randint(10, parted_ms - 20), "elect", salt=_salt(rng)),
        _step(rng, at + 300 + parted_ms + rng.randint(5, 120), "fast-bounce", "broker:1", 1, 8, disk="keep"),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        records=(90, 140),
        spread_ms=rng.choice((0, 2)),
        settings={"replica_lag_time_max_ms": 800, "replica_fetch_backoff_ms": 30},
        controller={"session_timeout_ms": 900},
    )


def lossy_leaders(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The leader loses its tail right after it has written."""
    steps = [
        _step(
            rng,
            rng.randrange(100, 1_200),
            rng.choice(("fast-bounce", "kill-lossy")),
            "leader",
            1,
            500,
            disk="lose",
        )
        for _ in range(2)
    ]
    steps += [
        _step(rng, rng.randrange(800), "partition", "follower", 100, 700, other="leader") for _ in range(2)
    ]
    return aimed(rng, mode, level, steps, records=(40, 70), spread_ms=rng.choice((8, 30)))


def lagging_marks(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A leader dies just when a shrunken ISR has let much be committed, of which its heir has not heard."""
    at = rng.randrange(50, 200)
    kill = _step(rng, rng.randrange(3, 60), "kill", "leader", 700, 900)
    steps = [
        Step(at, "partition", "follower", "leader", ms=rng.randint(430, 600), salt=_salt(rng)),
        _step(
            rng, at + 50, "ambush", "", 0, 0, message="AlterPartitionRequest", disk="shrinks", then=(kill,)
        ),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        records=(30, 60),
        settings={"replica_lag_time_max_ms": 300, "replica_fetch_wait_max_ms": 300},
        controller={"session_timeout_ms": 400},
    )


def isolation(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Nodes are cut off for longer than anybody waits, and come back; now and then everybody is."""
    steps = [
        fault(rng, rng.choice(("partition", "one-way-partition", "pause", "half-open", "kill")), at, role)
        for role in ("leader", "follower", rng.choice(("leader", "insider")))
        for at in (rng.randrange(1_400),)
    ]
    steps = [msgspec.structs.replace(each, ms=rng.randint(500, 1_500)) for each in steps]
    return aimed(rng, mode, level, steps, length_ms=2_200, records=(30, 60))


def late_heartbeats(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The last heartbeat of a life, in which it asks to stop, arrives in the next."""
    message = "BrokerHeartbeatRequest" if mode == "log" else "MetadataHeartbeatRequest"
    steps = []
    for at in (rng.randrange(100, 500), rng.randrange(600, 1_100)):
        who = f"broker:{rng.randint(1, 3)}"
        steps += [
            _step(rng, at, "ambush", who, 60, 300, message=message),
            Step(
                at + rng.randrange(3),
                "shutdown-bounce",
                who,
                ms=rng.randint(1, 12),
                disk="keep",
                salt=_salt(rng),
            ),
        ]
    return aimed(rng, mode, level, steps, noise=1)


def late_registrations(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A broker is born twice in a row; the registration of the first life arrives in the second."""
    steps = []
    for at in (rng.randrange(100, 400), rng.randrange(600, 1_000)):
        who = f"broker:{rng.randint(1, 3)}"
        again = _step(rng, rng.randrange(1, 4), "fast-bounce", who, 1, 6, disk="keep")
        steps += [
            _step(rng, at, "ambush", who, 40, 300, message="BrokerRegistrationRequest", then=(again,)),
            _step(rng, at + 1, "fast-bounce", who, 1, 6, disk="keep"),
        ]
    return aimed(rng, mode, level, steps, noise=1)


STRAGGLERS: Final = {
    "log": (
        "BrokerRegistration",
        "BrokerHeartbeat",
        "FetchMetadata",
        "AlterPartition",
        "AllocateProducerIds",
    ),
    "zookeeper": (
        "MetadataHeartbeat",
        "UpdateMetadata",
        "LeaderAndIsr",
        "StopReplica",
        "AlterPartition",
        "IsrChange",
        "ControlledShutdown",
        "AllocateProducerIds",
    ),
}
"""What nodes say to each other, beside fetches; the request or the answer."""


def stragglers(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Any message between nodes may take very long, and lives are short: what arrives is of long ago."""
    steps = []
    for _ in range(rng.randint(3, 6)):
        at, about = rng.randrange(1_500), rng.choice((*STRAGGLERS[mode], "Fetch"))
        if rng.random() < 0.3:
            who = rng.choice(("controller", f"broker:{rng.randint(1, 3)}"))
            steps.append(_step(rng, at, "late-answer", who, 40, 700, message=f"{about}Response"))
        else:
            kind = rng.choice(("fast-bounce", "fast-bounce", "shutdown-bounce", "kill", "pause", "reset"))
            after = fault(rng, kind, rng.randrange(5))
            steps.append(_step(rng, at, "ambush", "", 40, 700, message=f"{about}Request", then=(after,)))
        if rng.random() < 0.7:
            steps.append(fault(rng, rng.choice(("fast-bounce", "fast-bounce", "shutdown-bounce")), at + 1))
    return aimed(rng, mode, level, steps, noise=2, length_ms=2_000, records=(30, 60))


def late_shutdowns(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A ControlledShutdown of one life reaches the controller in the next."""
    steps = []
    for at in (rng.randrange(100, 500), rng.randrange(600, 1_100)):
        who = f"broker:{rng.randint(1, 3)}"
        stop = Step(at + 2, "expire-session", who, salt=_salt(rng))
        if rng.random() < 0.5:
            stop = Step(at + 2, "clean-stop", who, ms=rng.randint(1, 12), salt=_salt(rng))
        steps += [
            _step(rng, at, "ambush", who, 60, 300, message="ControlledShutdownRequest"),
            Step(at + 1, "controlled-shutdown", who, ms=1, salt=_salt(rng)),
            stop,
        ]
    return aimed(rng, mode, level, steps, noise=1)


def doubles(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Two processes claim one id."""
    steps = [_step(rng, rng.randrange(900), "duplicate-id", "any", 300, 1_200) for _ in range(2)]
    return aimed(rng, mode, level, steps)


def strangers(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A broker of another cluster knocks."""
    return aimed(rng, mode, level, [_step(rng, rng.randrange(900), "wrong-cluster", "", 200, 500)])


def fast_bounces(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Brokers are born again before anybody has noticed that they died."""
    kind = "fast-bounce" if mode == "log" else rng.choice(("clean-stop", "clean-stop", "fast-bounce"))
    steps = [
        Step(
            rng.randrange(1_300),
            rng.choice((kind, "expire-session")) if mode != "log" else kind,
            rng.choice(("leader", "leader", "insider", "any")),
            ms=rng.randint(1, 8),
            disk=rng.choice(("keep", "lose", "lose")),
            salt=_salt(rng),
        )
        for _ in range(rng.randint(2, 5))
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        records=(30, 50),
        metadata_max_bytes=rng.choice((100, 150, 8 << 20)),
        spread_ms=rng.choice((2, 8, 30)),
    )


def failovers(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The controller loses power again and again."""
    steps = [_step(rng, rng.randrange(1_300), "controller-failover", "", 1, 400) for _ in range(4)]
    steps += [
        fault(rng, rng.choice(("kill", "fast-bounce", "pause")), rng.randrange(1_300)) for _ in range(2)
    ]
    return aimed(rng, mode, level, steps)


def shutdown_failover(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The controller dies while a broker is stopping, and its heartbeats are slow."""
    at = rng.randrange(100, 600)
    heartbeat = "BrokerHeartbeatRequest" if mode == "log" else "MetadataHeartbeatRequest"
    stopping = rng.choice(("insider", "follower", "leader"))
    salt = _salt(rng)
    steps = [
        Step(at, "controlled-shutdown", stopping, ms=rng.randint(1, 200), salt=salt),
        _step(rng, at + rng.randrange(1, 8), "slow-message", "", 300, 600, message=heartbeat),
        _step(rng, at + rng.randrange(2, 30), "controller-failover", "", 1, 10),
    ]
    return aimed(rng, mode, level, steps, records=(30, 60), noise=1)


def lost_acks(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Answers to producers get lost."""
    steps = [
        fault(
            rng,
            rng.choice(("drop", "duplicate", "half-open", "reset", "pause")),
            rng.randrange(1_200),
            "leader",
        )
        for _ in range(4)
    ]
    return aimed(rng, mode, level, steps, records=(40, 70))


def late_replies(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Answers come after whoever asked has given up and asked again."""
    messages = ("FetchResponse", "AlterPartitionResponse", "BrokerHeartbeatResponse", "FetchMetadataResponse")
    steps = [
        Step(
            rng.randrange(700),
            "slow-message",
            message=rng.choice(messages[:2]) if rng.random() < 0.7 else rng.choice(messages),
            ms=rng.randint(300, 1_000),
            salt=rng.randrange(200, 400),
        )
        for _ in range(3)
    ]
    steps += [fault(rng, rng.choice(("kill", "fast-bounce", "partition")), rng.randrange(1_200), "leader")]
    return aimed(
        rng,
        mode,
        level,
        steps,
        records=(30, 60),
        settings={"replica_fetch_wait_max_ms": 30, "request_timeout_ms": 300},
    )


def stale_control(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """Control requests that were made for one life of a broker reach the next one."""
    messages = ("LeaderAndIsrRequest", "UpdateMetadataRequest", "StopReplicaRequest")
    steps = []
    for at in (rng.randrange(100, 400), rng.randrange(500, 900)):
        who = f"broker:{rng.randint(1, 3)}"
        rebirth = Step(
            rng.randrange(8),
            rng.choice(("clean-stop", "expire-session")),
            who,
            ms=rng.randint(1, 6),
            salt=_salt(rng),
        )
        steps += [
            _step(rng, at, "ambush", who, 40, 400, message=rng.choice(messages), then=(rebirth,)),
            fault(rng, rng.choice(("fast-bounce", "clean-stop", "partition")), at + 10),
        ]
        if rng.random() < 0.4:
            steps += [
                Step(at - 60, "create-topic", salt=rng.randrange(100)),
                Step(at + 20, "delete-topic"),
            ]
    return aimed(rng, mode, level, steps, noise=1)


def zombie_controllers(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A controller sleeps through its own succession, and goes on when it wakes."""
    at = rng.randrange(100, 500)
    messages = ("LeaderAndIsrRequest", "UpdateMetadataRequest")
    steps = [
        Step(at, "pause", "controller", ms=rng.randint(600, 1_300), salt=_salt(rng)),
        fault(
            rng, rng.choice(("fast-bounce", "kill", "clean-stop")), max(at - rng.randrange(30), 0), "leader"
        ),
        fault(rng, rng.choice(("fast-bounce", "kill", "clean-stop")), at + rng.randrange(800), "leader"),
        _step(rng, max(at - 20, 0), "ambush", "", 600, 1_300, message=rng.choice(messages)),
    ]
    return aimed(rng, mode, level, steps, length_ms=2_200)


def late_updates(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """An UpdateMetadata is under way for longer than the controller waits; what followed it overtakes it."""
    at = rng.randrange(100, 500)
    steps = [
        _step(rng, at, "ambush", "leader", 400, 900, message="UpdateMetadataRequest"),
        fault(rng, rng.choice(("fast-bounce", "kill", "clean-stop", "pause")), at + 10, "follower"),
    ]
    return aimed(
        rng, mode, level, steps, length_ms=1_800, noise=0, controller={"control_request_timeout_ms": 300}
    )


def zombie_followers(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A follower does not hear of two changes of leader, and the third is whom it knew (KAFKA-6880)."""
    at = rng.randrange(60, 160)
    steps = [
        # A change that it does hear of, so that its next question is the one that waits.
        Step(at, "create-topic", salt=rng.randrange(100)),
        _step(rng, at, "ambush", "broker:3", 1_100, 1_400, message="FetchMetadataRequest"),
        _step(rng, at + 40, "partition", "broker:2", 60, 120, other="broker:1"),
        _step(rng, at + 110, "fast-bounce", "broker:1", 1, 8, disk="keep"),
        _step(rng, at + rng.randint(330, 600), "fast-bounce", "broker:2", 1, 8, disk="keep"),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=1_800,
        records=(50, 90),
        settings={"replica_lag_time_max_ms": 300, "heartbeat_timeout_ms": 1_500},
        controller={"session_timeout_ms": 900},
        metadata_max_bytes=8 << 20,
    )


def late_fetches(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The last fetch of a life reaches the leader when the next life is in the ISR and has less."""
    at = rng.randrange(200, 500)
    bounce = _step(rng, rng.randrange(6), "fast-bounce", "broker:3", 1, 6, disk="lose")
    # An even salt: nothing gets from the leader to the follower, everything from the follower to the leader.
    deaf = Step(
        0, "one-way-partition", "broker:3", "broker:1", ms=rng.randint(300, 500), salt=_salt(rng) & ~1
    )
    steps = [
        # Another member lags, so that less is committed than the follower had.
        _step(rng, at - rng.randint(80, 200), "partition", "broker:2", 330, 480, other="broker:1"),
        _step(rng, at, "ambush", "broker:3", 250, 600, message="FetchRequest", then=(bounce,)),
        _step(rng, at + 20, "ambush", "", 0, 0, message="AlterPartitionRequest", disk="grows", then=(deaf,)),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        records=(60, 100),
        settings={
            "replica_lag_time_max_ms": 800,
            # One batch a fetch: the next life takes its time to catch up.
            "replica_fetch_max_bytes": 1,
            "replica_fetch_response_max_bytes": 1,
        },
        controller={"session_timeout_ms": 900},
    )


def deaf_newborns(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """The last fetch of a life reaches the leader when the next life is known, and can't hear the leader."""
    at = rng.randrange(100, 600)
    who = rng.choice(("broker:2", "broker:3"))
    # An even salt: nothing gets from the leader to it, everything from it to the leader.
    deaf = Step(0, "one-way-partition", who, "broker:1", ms=rng.randint(500, 900), salt=_salt(rng) & ~1)
    bounce = _step(rng, rng.randrange(1, 6), "fast-bounce", who, 1, 6, disk="lose")
    steps = [
        _step(rng, at, "ambush", who, 80, 400, message="FetchRequest", then=(deaf, bounce)),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        records=(40, 70),
        settings={"replica_lag_time_max_ms": 800},
        controller={"session_timeout_ms": 900},
    )


def _old_proposal(
    rng: Random,
    mode: str,
    level: FeatureLevel | None,
    late: str,
    then: tuple[Step, ...],
    steps: list[Step],
    length_ms: int = 2_600,
) -> Plan:
    """The leader asks for an ISR without one that is late, and the request takes more than a second."""
    at = rng.randrange(50, 150)
    steps = [
        _step(rng, at, "partition", late, 360, 420, other="broker:1"),
        _step(
            rng,
            at + 50,
            "ambush",
            "",
            1_300,
            1_700,
            message="AlterPartitionRequest",
            disk="shrinks",
            then=then,
        ),
        *(msgspec.structs.replace(each, at=at + each.at) for each in steps),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=length_ms,
        records=(50, 90),
        settings={"replica_lag_time_max_ms": 300, "request_timeout_ms": 1_500, "heartbeat_timeout_ms": 900},
        controller={"session_timeout_ms": 400},
    )


def regained_leadership(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A proposal of one leadership arrives in a later one of the same broker, when the ISR is another."""
    then = (
        _step(rng, 0, "partition", "broker:1", 430, 520, other="controller"),
        _step(rng, rng.randrange(100, 400), "partition", "broker:3", 1_500, 1_700, other="broker:1"),
        _step(rng, rng.randrange(100, 400), "partition", "broker:3", 1_500, 1_700, other="broker:2"),
    )
    steps = [Step(at, "elect", salt=_salt(rng)) for at in (1_250, 1_450, 1_650)]
    return _old_proposal(rng, mode, level, "broker:2", then, steps)


def deposed_leaders(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A proposal arrives when another broker leads, and names whoever made it, who is active but behind."""
    then = (
        _step(rng, 0, "partition", "broker:1", 430, 560, other="controller"),
        _step(rng, rng.randrange(20), "partition", "broker:1", 1_500, 1_700, other="broker:2"),
    )
    return _old_proposal(rng, mode, level, "broker:3", then, [], length_ms=2_400)


def reborn_leaders(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A proposal of one life of a leader arrives in the next, when it leads again and the ISR is another."""
    then = (
        _step(rng, rng.randrange(5), "fast-bounce", "broker:1", 1, 8, disk="keep"),
        _step(rng, rng.randrange(100, 300), "partition", "broker:3", 1_500, 1_700, other="broker:1"),
        _step(rng, rng.randrange(100, 300), "partition", "broker:3", 1_500, 1_700, other="broker:2"),
    )
    steps = [Step(at, "elect", salt=_salt(rng)) for at in (1_050, 1_250, 1_450)]
    return _old_proposal(rng, mode, level, "broker:2", then, steps)


def lost_offices(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A controller does not know that it has been replaced, and leaders of its successor ask it."""
    at = rng.randrange(20, 200)
    steps = [
        _step(rng, at, "lost-office", "", 1_500, 2_000),
        _step(rng, at + rng.randint(560, 900), "clean-stop", "leader", 1, 8),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=2_000,
        controller={"session_timeout_ms": 900},
    )


def double_bounces(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A leader and its heir, who has lost its tail, are born again while the registry is being read."""
    at = rng.randrange(50, 400)
    steps = [
        # Of the third partition broker 3 is the leader and broker 1 the next in line.
        _step(rng, at, "fast-bounce", "broker:1", 1, 20, disk="lose"),
        _step(rng, at + rng.randrange(10), "fast-bounce", "broker:3", 1, 20, disk="keep"),
        # Their sessions last for about half a second more; something else must have the registry read then.
        _step(rng, at + rng.randrange(460, 660), "expire-session", "broker:4"),
        # A heartbeat of the next life would tell of it before the picture does.
        Step(
            at + 300, "slow-message", message="MetadataHeartbeatRequest", ms=500, salt=rng.randrange(60, 300)
        ),
    ]
    return aimed(
        rng,
        mode,
        level,
        steps,
        noise=1,
        length_ms=1_600,
        records=(40, 70),
        brokers=4,
        partitions=3,
        spread_ms=30,
        # Nobody is given up or left behind meanwhile.
        settings={"replica_lag_time_max_ms": 2_000, "heartbeat_timeout_ms": 2_500},
        controller={"session_timeout_ms": 2_000},
    )


def disk_replies(rng: Random, mode: str, level: FeatureLevel | None) -> Plan:
    """A broker answers that its disk has failed; when that arrives, its next life is in the ISR."""
    at = rng.randrange(50, 300)
    who = f"broker:{rng.randint(1, 3)}"
    steps = [
        # The disk is replaced 120 to 250 ms later.
        Step(at, "disk-full", who, ms=rng.randint(1, 10), salt=rng.randrange(70, 200)),
        _step(rng, at, "late-answer", who, 700, 1_800, message="LeaderAndIsrResponse"),
    ]
    return aimed(rng, mode, level, steps, noise=1, length_ms=2_200, records=(40, 70))


PROFILES: Final[dict[str, Profile]] = {
    SWARM: swarm,
    "stale-join": stale_join,
    "fenced-join": fenced_join,
    "slow-proposals": slow_proposals,
    "slow-answers": slow_answers,
    "late-copies": late_copies,
    "role-changes": role_changes,
    "pipelines": pipelines,
    "quick-returns": quick_returns,
    "lossy-leaders": lossy_leaders,
    "lagging-marks": lagging_marks,
    "isolation": isolation,
    "late-heartbeats": late_heartbeats,
    "late-registrations": late_registrations,
    "stragglers": stragglers,
    "late-shutdowns": late_shutdowns,
    "doubles": doubles,
    "strangers": strangers,
    "fast-bounces": fast_bounces,
    "failovers": failovers,
    "shutdown-failover": shutdown_failover,
    "lost-acks": lost_acks,
    "late-replies": late_replies,
    "stale-control": stale_control,
    "zombie-controllers": zombie_controllers,
    "late-updates": late_updates,
    "disk-replies": disk_replies,
    "zombie-followers": zombie_followers,
    "late-fetches": late_fetches,
    "deaf-newborns": deaf_newborns,
    "regained-leadership": regained_leadership,
    "deposed-leaders": deposed_leaders,
    "reborn-leaders": reborn_leaders,
    "lost-offices": lost_offices,
    "double-bounces": double_bounces,
}


def plan(seed: int, mode: str, level: FeatureLevel | None, profile: str) -> Plan:
    """Everything that a seed decides."""
    return PROFILES[profile](Random(seed), mode, level)

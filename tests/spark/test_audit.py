"""The audit's tables say what happened, and its checks find every planted violation and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from epoka.model.ledger import LedgerEvent
from epoka.spark.audit import invariants, ledger, tables
from tests.spark import histories
from tests.spark.histories import History, replaced


def silver_of(events: list[LedgerEvent], run: str = "r") -> Any:
    values = pa.array([msgspec.json.encode(event).decode() for event in events], pa.string())
    return pa.Table.from_batches([ledger.decode(pa.array([run] * len(events), pa.string()), values)])


def checked(events: list[LedgerEvent]) -> list[tuple[str, list[int]]]:
    """What the fast path finds in one run."""
    silver = silver_of(events).select(invariants.NEEDED)
    kinds = pc.is_in(silver.column("kind"), pa.array(["leader", "isr", "reassignment"]))
    changes, others = silver.filter(kinds), silver.filter(pc.invert(kinds))
    found = (
        invariants.violations_in(changes, others).to_pylist() + invariants.generations_in(others).to_pylist()
    )
    return sorted((row["invariant"], row["events"]) for row in found)


def calm() -> History:
    """Three brokers and one partition led by 1; event ids 1 to 7."""
    history = History()
    for broker in (1, 2, 3):
        history.register(broker)
    history.create("t", 0, (1, 2, 3))
    return history


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_a_sound_history(seed: int) -> None:
    assert checked(histories.sound(seed).events) == []


def test_two_leaders_in_one_epoch_are_found() -> None:
    history = calm()
    history.change("t", 0, (1, 2, 3), 2)
    events = replaced(history.events, 7, leader_epoch=0)
    assert checked(events) == [("leader-epoch-has-one-leader", [7, 8])]


def test_a_leader_epoch_that_falls_is_found() -> None:
    history = calm()
    history.change("t", 0, (1, 2, 3), 2)
    history.change("t", 0, (1, 2, 3), 3)
    assert checked(replaced(history.events, 8, leader_epoch=0)) == [("leader-epoch-never-falls", [8, 9])]


def test_a_partition_epoch_that_stands_still_is_found() -> None:
    history = calm()
    history.change("t", 0, (1, 2), 1)
    assert checked(replaced(history.events, 7, partition_epoch=0)) == [("partition-epoch-rises", [7, 8])]


def test_a_change_from_another_isr_is_found() -> None:
    history = calm()
    history.change("t", 0, (1, 2), 1)
    assert checked(replaced(history.events, 7, isr_before=(1, 3))) == [("isr-follows-isr", [7, 8])]


def test_an_isr_in_another_order_is_the_same() -> None:
    history = calm()
    history.change("t", 0, (1, 2), 1)
    assert checked(replaced(history.events, 7, isr_before=(3, 2, 1))) == []


def test_a_leader_outside_its_isr_is_found() -> None:
    history = calm()
    history.change("t", 0, (2, 3), 1)
    assert checked(history.events) == [("leader-is-in-isr", [8])]


def test_an_empty_isr_is_found() -> None:
    history = calm()
    history.change("t", 0, (), -1)
    assert checked(history.events) == [("isr-is-never-empty", [8])]


def test_an_unclean_election_is_found() -> None:
    history = calm()
    history.change("t", 0, (1, 2), 1)
    history.change("t", 0, (3,), 3)
    assert checked(history.events) == [("election-from-isr", [8, 9])]


def test_a_fenced_leader_is_found() -> None:
    history = calm()
    history._stand("fenced", 2)
    history.change("t", 0, (2,), 2)
    assert checked(history.events) == [("leader-is-active", [8, 9])]


def test_a_member_that_joins_while_fenced_or_stopping_is_found() -> None:
    for standing in ("fenced", "stopping"):
        history = calm()
        history.change("t", 0, (1, 2), 1)
        history._stand(standing, 3)
        history.change("t", 0, (1, 2, 3), 1)
        assert checked(history.events) == [("member-joins-active", [9, 10])]


def test_a_member_that_nobody_knows_is_found() -> None:
    history = calm()
    history.change("t", 0, (1, 2, 3, 9), 1)
    assert checked(history.events) == [("member-joins-active", [8])]


def test_a_fenced_member_that_stays_is_found() -> None:
    history = calm()
    history._stand("fenced", 3)
    history.change("t", 0, (1, 3), 1)
    assert checked(history.events) == [("member-stays-active", [8, 9])]


def test_the_last_member_may_stay_though_it_is_fenced() -> None:
    history = calm()
    history.change("t", 0, (1,), 1)
    history._stand("fenced", 1)
    history.change("t", 0, (1,), -1)
    assert checked(history.events) == []


def test_a_generation_that_does_not_rise_is_found() -> None:
    history = calm()
    history.add("registered", broker=2, broker_epoch=history.generation[2])
    assert checked(history.events) == [("generation-rises", [3, 8])]


def test_a_topic_made_anew_begins_anew() -> None:
    history = calm()
    history.change("t", 0, (1, 2), 1)
    history.add("topic-deleted", topic="t")
    history.create("t", 0, (3, 2))
    assert checked(history.events) == []


def test_where_nobody_is_unfenced_to_be_registered_is_enough() -> None:
    history = History()
    for broker in (1, 2):
        history.generation[broker] = broker
        history._stand("registered", broker)
    history.create("t", 0, (1, 2))
    assert checked(history.events) == []


FIELDS = ("leader", "leader_epoch", "partition_epoch", "isr", "isr_before", "broker", "broker_epoch")


def harmed(events: list[LedgerEvent], chance: random.Random) -> list[LedgerEvent]:
    """A history with a few fields of a few changes set to anything."""
    for _ in range(chance.randint(1, 4)):
        at = chance.choice(
            [n for n, each in enumerate(events) if each.kind in ("leader", "isr", "registered", "fenced")]
        )
        field = chance.choice(
            ["leader", "leader_epoch", "partition_epoch", "isr", "isr_before", "broker", "broker_epoch"]
        )
        value: object = chance.randint(-1, 5)
        if field.startswith("isr"):
            value = tuple(chance.sample(range(1, 6), chance.randint(0, 3)))
        events = replaced(events, at, **{field: value})
    return events


def test_the_fast_path_and_the_sql_agree_on_any_history(spark: Any) -> None:
    batches = []
    for seed in range(12):
        events = histories.sound(seed).events
        if seed:
            events = harmed(events, random.Random(seed))
        batches.append(silver_of(events, run=f"run-{seed}"))
    silver = spark.createDataFrame(pa.concat_tables(batches)).cache()
    columns = [
        "run",
        "invariant",
        "topic",
        "partition",
        "broker",
        "time_ms",
        "event_id",
        "given",
        "expected",
        "events",
    ]
    fast = invariants.violations(spark, silver).select(*columns).collect()
    slow = invariants.reference(spark, silver).select(*columns).collect()
    assert sorted(map(str, fast)) == sorted(map(str, slow))
    assert len({row.invariant for row in slow}) >= 7, "the harm should be of many kinds"
    assert not [row for row in slow if row.run == "run-0"]


def test_what_cannot_be_read_or_is_not_known_is_kept_and_counted(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(
        msgspec.json.encode(LedgerEvent(kind="fenced", event_id=1, node=1)) + b"\n"
        b'{"kind":"abdicated","event_id":2,"node":1,"mood":"sad","isr":[1,2]}\n'
        b'{"kind":"fen\n\n' + msgspec.json.encode(LedgerEvent(kind="fenced", event_id=1, node=1)) + b"\n"
    )
    bronze = ledger.bronze_from_files(spark, {"r": [path]})
    assert bronze.count() == 4
    silver = ledger.silver_from_bronze(bronze).cache()
    assert sorted(row.kind for row in silver.collect()) == [ledger.UNREADABLE, "abdicated", "fenced"]
    assert {row.kind: row.times for row in tables.unknown(silver).collect()} == {
        "abdicated": 1,
        ledger.UNREADABLE: 1,
    }
    assert silver.where("kind = 'abdicated'").collect()[0].isr == [1, 2]


def test_the_quick_reader_and_the_careful_one_agree() -> None:
    events = histories.sound(3).events
    values = pa.array([msgspec.json.encode(event).decode() for event in events], pa.string())
    together, apart = ledger._parse_together(values), ledger._parse_one_by_one(values)
    assert together is not None
    runs = pa.array(["r"] * len(events))
    quick = ledger.decode(runs, values).to_pylist()
    assert [
        LedgerEvent(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k != "run"})
        for row in quick
    ] == events
    assert apart.num_rows == together.num_rows


def story() -> History:
    """Broker 2 is killed at 2000, silent until 2090, fenced at 2100, back at 2400; the run ends at 2500."""
    history = calm()
    history.now = 1990
    history.add("fault", broker=2, given="kill", after_ms=10)
    history.change("t", 0, (1, 2, 3), 2, after_ms=0)
    history.now = 2090
    history.add(
        "verdict",
        broker=2,
        broker_epoch=3,
        rule="heartbeat.session",
        verdict="refused",
        error="BROKER_NOT_AVAILABLE",
        given="90 ms of silence",
        expected="<= 80 ms",
        after_ms=0,
    )
    history.fence(2)
    history.now = 2380
    history.register(2)
    history.now = 2490
    history.join(2)
    return history


def test_gold_tells_the_story(spark: Any) -> None:
    silver = spark.createDataFrame(silver_of(story().events)).cache()
    gold = {name: [row.asDict() for row in frame.collect()] for name, frame in tables.gold(silver).items()}

    lives = sorted(gold["generations"], key=lambda row: row["registered_ms"])
    assert [(row["broker"], row["ended"]) for row in lives] == [
        (1, "lives"),
        (2, "fenced"),
        (3, "lives"),
        (2, "lives"),
    ]
    assert (lives[1]["fenced_ms"], lives[1]["replaced_ms"], lives[1]["refusals"]) == (2100, 2390, 1)

    led = sorted(gold["leadership"], key=lambda row: row["from_ms"])
    assert [(row["leader"], row["from_ms"], row["until_ms"]) for row in led] == [
        (1, 1070, 2000),
        (2, 2000, 2100),
        (1, 2100, 2500),
    ]
    assert led[2]["rule"] == "heartbeat.session"

    sizes = [
        (row["size"], row["until_ms"] - row["from_ms"])
        for row in sorted(gold["isr_intervals"], key=lambda row: row["event_id"])
    ]
    assert sizes == [(3, 930), (3, 100), (2, 400), (3, 0)]

    (one,) = gold["availability"]
    assert (one["replicas"], one["under_replicated_ms"], one["leaderless_ms"], one["available"]) == (
        3,
        400,
        0,
        1.0,
    )

    (end,) = gold["latencies"]
    assert (end["noticed_by"], end["fault"], end["fault_ms"], end["last_heard_ms"]) == (
        "fenced",
        "kill",
        2000,
        2000,
    )
    assert (end["noticed_ms"], end["elected_ms"], end["failover_ms"], end["elections"]) == (
        2100,
        2100,
        100,
        1,
    )

    refused = [row for row in gold["decisions"] if row["verdict"] == "refused"]
    assert [(row["rule"], row["times"]) for row in refused] == [("heartbeat.session", 1)]
    assert [row["fault"] for row in gold["faults"]] == ["kill"]


def test_what_was_true_of_a_topic_ends_with_it(spark: Any) -> None:
    """A topic is deleted at 2100 with a replica missing since 2000, and made anew at 2300."""
    history = calm()
    history.now = 1990
    history.fence(2)
    history.now = 2090
    history.add("topic-deleted", topic="t")
    history.now = 2290
    history.create("t", 0, (1, 3))
    history.now = 2390
    history.register(2)
    silver = spark.createDataFrame(silver_of(history.events))
    gold = tables.gold(silver)
    led = gold["leadership"].orderBy("from_ms").collect()
    assert [(row.leader, row.until_ms) for row in led] == [(1, 2100), (1, history.now)]
    (one,) = gold["availability"].collect()
    assert (one.under_replicated_ms, one.observed_ms) == (100 + history.now - 2300, 1030 + history.now - 2300)


def test_acknowledged_records_are_held_against_those_that_are_there(spark: Any) -> None:
    told = spark.createDataFrame([("t", "a"), ("t", "b"), ("t", "c"), ("t", "d")], "topic string, id string")
    there = spark.createDataFrame(
        [
            ("t", 0, 0, "a", "p", 1),
            ("t", 0, 1, "c", "p", 3),
            ("t", 0, 2, "b", "p", 2),
            ("t", 0, 3, "b", "p", 2),
            ("t", 0, 4, "x", "q", 1),
        ],
        "topic string, partition int, offset long, id string, producer string, sequence int",
    )
    (row,) = tables.acknowledged(told, there).collect()
    assert row.asDict() == {
        "topic": "t",
        "acknowledged": 4,
        "present": 5,
        "lost": 1,
        "duplicated": 1,
        "unacknowledged": 1,
        "reordered": 2,
    }

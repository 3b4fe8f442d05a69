"""What must never happen, checked over a whole history; each violation with the events that prove it.

Every invariant exists twice. `REFERENCE` says it in plain SQL, to be read and believed. `violations_in`
checks all of them at once over sorted columns, without moving rows between processes. Tests hold the two
against each other, over histories with planted violations and over random ones.

| invariant | it is broken when |
|---|---|
| leader-epoch-has-one-leader | two brokers lead a partition in one leader epoch |
| leader-epoch-never-falls | a leader epoch is lower than the one before it |
| partition-epoch-rises | a change of a partition does not raise its partition epoch |
| isr-follows-isr | a change begins from another ISR than the one before it left |
| leader-is-in-isr | a partition is led from outside its ISR |
| isr-is-never-empty | a partition has no ISR at all |
| election-from-isr | a leader is elected that was not in the ISR: an unclean election |
| leader-is-active | a broker is elected while it is fenced or was never unfenced |
| member-joins-active | a broker joins an ISR while it is fenced, stopping or was never unfenced |
| member-stays-active | a fenced broker is left in an ISR that has others |
| generation-rises | a broker registers with a generation that is not higher than its last |
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from epoka.spark.audit.ledger import ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "run string, invariant string, topic string, partition int, broker int, time_ms bigint, event_id bigint,"
    " given string, expected string, events array<bigint>"
)
INVARIANTS = (
    "leader-epoch-has-one-leader",
    "leader-epoch-never-falls",
    "partition-epoch-rises",
    "isr-follows-isr",
    "leader-is-in-isr",
    "isr-is-never-empty",
    "election-from-isr",
    "leader-is-active",
    "member-joins-active",
    "member-stays-active",
    "generation-rises",
)

_ORDER = ", ".join(ORDER)

# A topic that is deleted and made anew begins anew: its deletion parts the lives of its partitions.
REFERENCE: dict[str, str] = {
    "changes": f"""
        select *, row_number() over (partition by run, topic, partition order by {_ORDER}) as at
        from (
            select e.*, coalesce(count(d.event_id), 0) as life from (
                select * from events where kind in ('leader', 'isr', 'reassignment')
            ) e left join (
                select run as d_run, topic as d_topic, time_ms as d_time, event_id from events
                where kind = 'topic-deleted'
            ) d on e.run = d.d_run and e.topic = d.d_topic
                and (d.d_time < e.time_ms or (d.d_time = e.time_ms and d.event_id < e.event_id))
            group by all
        )""",
    "steps": f"""
        select *,
            lag(event_id) over w as event_before,
            lag(leader_epoch) over w as epoch_before,
            lag(leader) over w as leader_of_before,
            lag(partition_epoch) over w as version_before,
            lag(isr) over w as isr_of_before
        from changes window w as (partition by run, topic, partition, life order by {_ORDER})""",
    "standing": f"""
        select run, broker, time_ms, event_id,
            if(kind = 'registered' and not fences, 'unfenced', kind) as kind,
            row_number() over (partition by run, broker order by {_ORDER}) as at
        from (select *, max(kind = 'unfenced') over (partition by run) as fences from events)
        where broker >= 0
            and kind in ('registered', 'fenced', 'unfenced', 'stopping', 'unregistered')""",
    "members": """
        select c.run, c.topic, c.partition, c.time_ms, c.event_id, c.kind, c.leader, c.isr, c.isr_of_before,
            c.member as broker,
            max_by(s.kind, s.at) filter (where s.time_ms < c.time_ms
                or (s.time_ms = c.time_ms and s.event_id < c.event_id)) as stands,
            max_by(s.event_id, s.at) filter (where s.time_ms < c.time_ms
                or (s.time_ms = c.time_ms and s.event_id < c.event_id)) as stands_by,
            max_by(s.kind, s.at) filter (where s.time_ms < c.time_ms) as stood,
            max_by(s.event_id, s.at) filter (where s.time_ms < c.time_ms) as stood_by
        from (select *, explode(isr) as member from steps) c
        left join standing s on s.run = c.run and s.broker = c.member and s.time_ms <= c.time_ms
        group by all""",
}

_VIOLATION = "run, '{name}' as invariant, topic, partition, {broker} as broker, time_ms, event_id"
_CHECKS: dict[str, tuple[str, str]] = {
    "leader-epoch-has-one-leader": (
        "-1",
        "string(leader) as given, string(leader_of_before) as expected,"
        " array(event_before, event_id) as events from steps where epoch_before = leader_epoch"
        " and leader_of_before <> leader and leader >= 0 and leader_of_before >= 0",
    ),
    "leader-epoch-never-falls": (
        "-1",
        "string(leader_epoch) as given, concat('>= ', epoch_before) as expected,"
        " array(event_before, event_id) as events from steps where leader_epoch < epoch_before",
    ),
    "partition-epoch-rises": (
        "-1",
        "string(partition_epoch) as given, concat('> ', version_before) as expected,"
        " array(event_before, event_id) as events from steps where partition_epoch <= version_before",
    ),
    "isr-follows-isr": (
        "-1",
        "concat_ws(',', isr_before) as given, concat_ws(',', isr_of_before) as expected,"
        " array(event_before, event_id) as events from steps"
        " where event_before is not null and array_sort(isr_before) <> array_sort(isr_of_before)",
    ),
    "leader-is-in-isr": (
        "leader",
        "string(leader) as given, concat_ws(',', isr) as expected, array(event_id) as events"
        " from steps where leader >= 0 and not array_contains(isr, leader)",
    ),
    "isr-is-never-empty": (
        "-1",
        "'' as given, 'a member' as expected, array(event_id) as events from steps where size(isr) = 0",
    ),
    "election-from-isr": (
        "leader",
        "string(leader) as given, concat_ws(',', isr_of_before) as expected,"
        " array(event_before, event_id) as events from steps where kind = 'leader' and leader >= 0"
        " and event_before is not null and not array_contains(isr_of_before, leader)",
    ),
    "leader-is-active": (
        "broker",
        "coalesce(stands, 'unknown') as given, 'unfenced' as expected,"
        " filter(array(stands_by, event_id), x -> x is not null) as events"
        " from members where kind = 'leader' and leader = broker"
        " and coalesce(stands, 'unknown') not in ('unfenced', 'stopping')",
    ),
    "member-joins-active": (
        "broker",
        "coalesce(stands, 'unknown') as given, 'unfenced' as expected,"
        " filter(array(stands_by, event_id), x -> x is not null) as events"
        " from members where isr_of_before is not null and not array_contains(isr_of_before, broker)"
        " and coalesce(stands, 'unknown') <> 'unfenced'",
    ),
    "member-stays-active": (
        "broker",
        "stood as given, 'unfenced' as expected, array(stood_by, event_id) as events"
        " from members where size(isr) > 1 and array_contains(isr_of_before, broker)"
        " and stood in ('fenced', 'unregistered') and stands in ('fenced', 'unregistered')",
    ),
}


def reference(spark: SparkSession, silver: DataFrame) -> DataFrame:
    """All violations by plain SQL: slow, and easy to believe."""
    silver.createOrReplaceTempView("silver_events")
    return spark.sql(reference_query("silver_events"))


def reference_query(silver: str) -> str:
    """The SQL of all violations in the silver table of that name."""
    views = ", ".join(f"{name} as ({text})" for name, text in REFERENCE.items())
    checks = [
        f"select {_VIOLATION.format(name=name, broker=broker)}, {check}"
        for name, (broker, check) in _CHECKS.items()
    ]
    checks.append(
        "select run, 'generation-rises' as invariant, '' as topic, -1 as partition, broker, time_ms,"
        " event_id, string(broker_epoch) as given, concat('> ', before) as expected,"
        " array(event_before, event_id) as events from (select *, lag(broker_epoch) over w as before,"
        " lag(event_id) over w as event_before from events"
        f" where kind = 'registered' window w as (partition by run, broker order by {_ORDER}))"
        " where broker_epoch <= before"
    )
    found = " union all ".join(f"({check})" for check in checks)
    return f"with events as (select * from {silver}), {views} {found}"


# The fast path.

NEEDED = [
    "run",
    "kind",
    "time_ms",
    "node",
    "event_id",
    "broker",
    "broker_epoch",
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "isr_before",
    "isr",
]
STANDINGS = ("registered", "fenced", "unfenced", "stopping", "unregistered")
ACTIVE_MEMBER = frozenset({"unfenced"})
ACTIVE_LEADER = frozenset({"unfenced", "stopping"})
OUTSIDE = frozenset({"fenced", "unregistered"})
MOST_BROKER_IDS = 1 << 20
NOBODY = -2
"""No broker: -1 stands for no leader, and must not be found in an ISR."""


def violations(spark: SparkSession, silver: DataFrame, *, buckets: int = 0) -> DataFrame:
    """All violations. Events of one partition come together in one task, with all that is said of brokers."""
    from pyspark.sql import functions as F

    narrow = silver.select(*NEEDED)
    of_brokers = narrow.where(F.col("kind").isin(*STANDINGS) | (F.col("kind") == "topic-deleted")).toArrow()
    changes = narrow.where(F.col("kind").isin("leader", "isr", "reassignment"))
    if buckets:
        changes = changes.repartition(buckets, "run", "topic", "partition")
    else:
        changes = changes.repartition("run", "topic", "partition")

    def check(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        found = list(batches)
        if found:
            yield from violations_in(pa.Table.from_batches(found), of_brokers).to_batches()

    from_partitions = changes.mapInArrow(check, SCHEMA)
    from_brokers = spark.createDataFrame(generations_in(of_brokers), SCHEMA)
    return from_partitions.unionByName(from_brokers)


def generations_in(of_brokers: Any) -> Any:
    """Registrations whose generation is not higher than the one before."""
    import pyarrow as pa
    import pyarrow.compute as pc

    registered = of_brokers.filter(pc.equal(of_brokers.column("kind"), "registered"))
    registered = registered.sort_by([(name, "ascending") for name in ("run", "broker", *ORDER)])
    rows = registered.to_pylist()
    found: list[dict[str, Any]] = []
    for before, row in pairwise(rows):
        same = (before["run"], before["broker"]) == (row["run"], row["broker"])
        if same and row["broker_epoch"] <= before["broker_epoch"]:
            found.append(
                {
                    "run": row["run"],
                    "invariant": "generation-rises",
                    "topic": "",
                    "partition": -1,
                    "broker": row["broker"],
                    "time_ms": row["time_ms"],
                    "event_id": row["event_id"],
                    "given": str(row["broker_epoch"]),
                    "expected": f"> {before['broker_epoch']}",
                    "events": [before["event_id"], row["event_id"]],
                }
            )
    return pa.Table.from_pylist(found, schema=_arrow_schema())


def violations_in(changes: Any, of_brokers: Any) -> Any:
    """The violations of whole partitions, given all their changes and all that is said of brokers."""
    import pyarrow as pa

    table = changes.sort_by([(name, "ascending") for name in ("run", "topic", "partition", *ORDER)])
    if not table.num_rows:
        return pa.Table.from_pylist([], schema=_arrow_schema())
    return pa.Table.from_pylist(
        _Checks(table.combine_chunks(), of_brokers).violations(), schema=_arrow_schema()
    )


class _Checks:
    """One pass over sorted columns: shifted arrays for what came before, searches for where brokers stood."""

    def __init__(self, table: Any, of_brokers: Any) -> None:
        import pyarrow.compute as pc

        self.table = table
        self.rows = table.num_rows
        self.time, self.event = _numbers(table, "time_ms"), _numbers(table, "event_id")
        self.leader = _numbers(table, "leader")
        self.leader_epoch = _numbers(table, "leader_epoch")
        self.partition_epoch = _numbers(table, "partition_epoch")
        partition = _numbers(table, "partition")
        self.elects = pc.equal(table.column("kind").combine_chunks(), "leader").to_numpy(zero_copy_only=False)
        self.run, self.broker_run = _codes(table.column("run"), of_brokers.column("run"))
        topic, deleted_topic = _codes(table.column("topic"), of_brokers.column("topic"))
        self.isr = _members(table.column("isr"))
        self.sizes = (self.isr >= 0).sum(axis=1)
        life = self._lives(topic, of_brokers, deleted_topic)
        self.same = np.zeros(self.rows, bool)
        """Whether the row before is the change before of the same partition."""
        self.same[1:] = True
        for column in (self.run, topic, partition, life):
            self.same[1:] &= column[1:] == column[:-1]
        self.before = np.roll(self.isr, 1, axis=0)
        self.before[~self.same] = NOBODY
        self.standings = _Standings(of_brokers, self.broker_run)
        self.found: list[dict[str, Any]] = []

    def _lives(self, topic: Any, of_brokers: Any, deleted_topic: Any) -> Any:
        """How often the topic had been deleted before each change."""
        life = np.zeros(self.rows, np.int64)
        times, events = _numbers(of_brokers, "time_ms"), _numbers(of_brokers, "event_id")
        for at, kind in enumerate(of_brokers.column("kind").to_pylist()):
            if kind == "topic-deleted":
                later = (self.time > times[at]) | ((self.time == times[at]) & (self.event > events[at]))
                life += later & (self.run == self.broker_run[at]) & (topic == deleted_topic[at])
        return life

    def violations(self) -> list[dict[str, Any]]:
        self._check_epochs()
        self._check_isr()
        self._check_members()
        return self.found

    def _check_epochs(self) -> None:
        leader, epoch, version = (
            np.roll(each, 1) for each in (self.leader, self.leader_epoch, self.partition_epoch)
        )
        two = self.same & (epoch == self.leader_epoch) & (leader != self.leader)
        for row in _where(two & (leader >= 0) & (self.leader >= 0)):
            self._tell("leader-epoch-has-one-leader", row, str(self.leader[row]), str(leader[row]), pair=True)
        for row in _where(self.same & (self.leader_epoch < epoch)):
            expected = f">= {epoch[row]}"
            self._tell("leader-epoch-never-falls", row, str(self.leader_epoch[row]), expected, pair=True)
        for row in _where(self.same & (self.partition_epoch <= version)):
            expected = f"> {version[row]}"
            self._tell("partition-epoch-rises", row, str(self.partition_epoch[row]), expected, pair=True)

    def _check_isr(self) -> None:
        claimed = _members(self.table.column("isr_before"))
        width = max(claimed.shape[1], self.before.shape[1])
        left, right = (np.sort(_wide(each, width), axis=1) for each in (claimed, self.before))
        for row in _where(self.same & (left != right).any(axis=1)):
            given, expected = self._list("isr_before", row), self._list("isr", row - 1)
            self._tell("isr-follows-isr", row, given, expected, pair=True)
        led = self.leader >= 0
        inside = (self.isr == self.leader[:, None]).any(axis=1)
        for row in _where(led & ~inside):
            leader = int(self.leader[row])
            self._tell("leader-is-in-isr", row, str(leader), self._list("isr", row), broker=leader)
        for row in _where(self.sizes == 0):
            self._tell("isr-is-never-empty", row, "", "a member")
        was_inside = (self.before == self.leader[:, None]).any(axis=1)
        for row in _where(self.same & self.elects & led & ~was_inside):
            leader = int(self.leader[row])
            expected = self._list("isr", row - 1)
            self._tell("election-from-isr", row, str(leader), expected, broker=leader, pair=True)

    def _check_members(self) -> None:
        elected = self.elects & (self.leader >= 0) & (self.isr == self.leader[:, None]).any(axis=1)
        self._check_active("leader-is-active", np.flatnonzero(elected), None, ACTIVE_LEADER)
        for place in range(self.isr.shape[1]):
            member = self.isr[:, place]
            there = self.same & (member >= 0)
            was_there = (self.before == member[:, None]).any(axis=1)
            joined = np.flatnonzero(there & ~was_there)
            self._check_active("member-joins-active", joined, place, ACTIVE_MEMBER)
            self._check_stays(np.flatnonzero(there & was_there & (self.sizes > 1)), place)

    def _check_active(self, name: str, rows: Any, place: int | None, active: frozenset[str]) -> None:
        brokers = self.leader[rows] if place is None else self.isr[rows, place]
        stands = self.standings.at(self.run[rows], brokers, self.time[rows], self.event[rows])
        wrong = ~np.isin(self.standings.codes[stands], [STANDINGS.index(each) for each in active]) | (
            stands < 0
        )
        for row, broker, at in zip(rows[wrong], brokers[wrong], stands[wrong]):
            given = self.standings.name(at)
            events = [int(self.event[row])] if at < 0 else [self.standings.event(at), int(self.event[row])]
            self._tell(name, row, given, "unfenced", broker=int(broker), events=events)

    def _check_stays(self, rows: Any, place: int) -> None:
        brokers = self.isr[rows, place]
        outside = [STANDINGS.index(each) for each in OUTSIDE]
        stood = self.standings.at(self.run[rows], brokers, self.time[rows], None)
        out = (stood >= 0) & np.isin(self.standings.codes[stood], outside)
        rows, brokers, stood = rows[out], brokers[out], stood[out]
        stands = self.standings.at(self.run[rows], brokers, self.time[rows], self.event[rows])
        out = np.isin(self.standings.codes[stands], outside)
        for row, broker, at in zip(rows[out], brokers[out], stood[out]):
            events = [self.standings.event(at), int(self.event[row])]
            given = self.standings.name(at)
            self._tell("member-stays-active", row, given, "unfenced", broker=int(broker), events=events)

    def _list(self, name: str, row: int) -> str:
        return ",".join(map(str, self.table.column(name)[int(row)].as_py() or []))

    def _tell(
        self,
        name: str,
        row: int,
        given: str,
        expected: str,
        *,
        broker: int = -1,
        pair: bool = False,
        events: list[int] | None = None,
    ) -> None:
        if events is None:
            events = [int(self.event[row - 1]), int(self.event[row])] if pair else [int(self.event[row])]
        self.found.append(
            {
                "run": self.table.column("run")[int(row)].as_py(),
                "invariant": name,
                "topic": self.table.column("topic")[int(row)].as_py(),
                "partition": self.table.column("partition")[int(row)].as_py(),
                "broker": broker,
                "time_ms": int(self.time[row]),
                "event_id": int(self.event[row]),
                "given": given,
                "expected": expected,
                "events": events,
            }
        )


class _Standings:
    """What is said of brokers, in an order that can be searched."""

    def __init__(self, of_brokers: Any, runs: Any) -> None:
        kinds = of_brokers.column("kind").to_pylist()
        codes = np.array([STANDINGS.index(kind) if kind in STANDINGS else -1 for kind in kinds], np.int64)
        kept = codes >= 0
        codes, runs = codes[kept], runs[kept]
        # Where nobody is ever unfenced, as below the level of heartbeats, to be registered is to be active.
        with_fences = np.unique(runs[codes == STANDINGS.index("unfenced")])
        codes = np.where(
            (codes == STANDINGS.index("registered")) & ~np.isin(runs, with_fences),
            STANDINGS.index("unfenced"),
            codes,
        )
        brokers, times, events, nodes = (
            _numbers(of_brokers, name)[kept] for name in ("broker", "time_ms", "event_id", "node")
        )
        order = np.lexsort((nodes, events, times, brokers, runs))
        self.codes, self._times, self._events = codes[order], times[order], events[order]
        keys = (runs * MOST_BROKER_IDS + brokers)[order]
        groups, starts = np.unique(keys, return_index=True)
        self._places = dict(zip(groups.tolist(), zip(starts.tolist(), [*starts[1:].tolist(), len(keys)])))
        if not len(self.codes):
            # So that a place of -1, nowhere, can be looked up like any other.
            self.codes = np.array([-1])

    def name(self, at: int) -> str:
        return "unknown" if at < 0 else STANDINGS[self.codes[at]]

    def event(self, at: int) -> int:
        return int(self._events[at])

    def at(self, runs: Any, brokers: Any, times: Any, events: Any) -> Any:
        """The last word on each broker before each event, or -1; without events, before each time."""
        found = np.full(len(brokers), -1, np.int64)
        keys = runs * MOST_BROKER_IDS + brokers
        for key in np.unique(keys).tolist():
            if key not in self._places:
                continue
            start, end = self._places[key]
            chosen = np.flatnonzero(keys == key)
            said, ids = self._times[start:end], self._events[start:end]
            place = np.searchsorted(said, times[chosen], "left")
            if events is not None:
                # Within one millisecond the ids decide.
                last = np.searchsorted(said, times[chosen], "right")
                while True:
                    tied = np.flatnonzero(place < last)
                    tied = tied[ids[place[tied]] < events[chosen[tied]]]
                    if not len(tied):
                        break
                    place[tied] += 1
            found[chosen] = np.where(place > 0, start + place - 1, -1)
        return found


def _where(wrong: Any) -> list[int]:
    found: list[int] = np.flatnonzero(wrong).tolist()
    return found


def _numbers(table: Any, name: str) -> Any:
    return table.column(name).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)


def _codes(one: Any, other: Any) -> tuple[Any, Any]:
    """Texts of two columns as numbers, the same text as the same number."""
    import pyarrow as pa

    both = pa.chunked_array([*one.chunks, *other.chunks], pa.string()).combine_chunks().dictionary_encode()
    numbers = both.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers[: len(one)], numbers[len(one) :]


def _members(column: Any) -> Any:
    """Lists as the rows of a matrix, filled up with NOBODY."""
    array = column.combine_chunks()
    sizes = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    matrix = np.full((len(array), max(int(sizes.max(initial=0)), 1)), NOBODY, np.int64)
    matrix[np.arange(matrix.shape[1]) < sizes[:, None]] = array.flatten().to_numpy(zero_copy_only=False)
    return matrix


def _wide(matrix: Any, width: int) -> Any:
    return np.pad(matrix, ((0, 0), (0, width - matrix.shape[1])), constant_values=NOBODY)


def _arrow_schema() -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            ("run", pa.string()),
            ("invariant", pa.string()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("broker", pa.int32()),
            ("time_ms", pa.int64()),
            ("event_id", pa.int64()),
            ("given", pa.string()),
            ("expected", pa.string()),
            ("events", pa.list_(pa.field("element", pa.int64()))),
        ]
    )

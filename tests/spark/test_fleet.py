"""Seeds, options, tasks and offsets of `format("epoka-sim")`, without a Spark session."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from epoka.sim.mutants import MUTANTS
from epoka.sim.runner import Options, run
from epoka.spark.fleet.options import Asked, Limits, fleet_options
from epoka.spark.fleet.seeds import CRASHED, HUNG, OK, VIOLATION, BoundedRun, begin, digest, run_seed
from epoka.spark.fleet.source import Block, SimulationReader, SimulationStreamReader, blocks
from epoka.spark.options import BadOption

SCHEDULES = Path(__file__).parents[1] / "sim" / "schedules"
STALE_JOIN = {"without": "isr.generation", "profile": "stale-join"}


def stream(**given: str) -> SimulationStreamReader:
    return SimulationStreamReader(fleet_options(given, streaming=True), None)


def test_a_row_says_what_the_simulator_says() -> None:
    expected = run(3, Options())
    row = run_seed(3, Asked(Options()), Limits())
    assert (row.outcome, row.trace, row.events) == (OK, expected.trace, expected.events)
    assert (row.acknowledged, row.faults) == (expected.acked, expected.faults)
    assert row.ledger is None, "only failing seeds have one"


def test_a_digest_changes_with_what_happened_and_not_with_how_fast() -> None:
    row = run_seed(0, Asked(Options()), Limits())
    replace = msgspec.structs.replace
    assert digest(replace(row, wall_ms=1e6)) == row.digest == digest(row)
    for other in (
        replace(row, trace="0"),
        replace(row, seed=1),
        replace(row, faults={}),
        replace(row, outcome=HUNG),
    ):
        assert digest(other) != row.digest


def test_a_failing_seed_has_a_ledger_unless_nobody_wants_it() -> None:
    (asked,) = fleet_options({"seeds": "0", **STALE_JOIN}, streaming=False).asked
    row = run_seed(0, asked, Limits())
    assert row.outcome == VIOLATION and row.what == "2: ISR members have everything"
    assert row.ledger and {"isr", "registered"} <= {msgspec.json.decode(line)["kind"] for line in row.ledger}
    quiet = run_seed(0, asked, Limits(ledger=False))
    assert quiet.ledger is None and quiet.digest == row.digest


def test_too_many_events_are_a_hung_seed_at_the_same_event_everywhere() -> None:
    row = run_seed(0, Asked(Options()), Limits(events=200))
    assert row.outcome == HUNG and row.what == "more than 200 events"
    assert row.ledger, "as far as it went"


def test_a_simulator_that_raises_is_a_crashed_seed() -> None:
    class Broken(BoundedRun):
        def _live(self) -> None:
            raise LookupError("planted")

    row = run_seed(0, Asked(Options()), Limits(), lambda seed, asked, limits: Broken(seed, asked.options))
    assert row.outcome == CRASHED and row.what == "LookupError: planted"
    assert row.story is not None and "_live" in row.story


def test_a_story_of_the_gallery_is_safe_with_its_rule_and_not_without() -> None:
    for without, outcome in (("", OK), ("rule", VIOLATION), ("isr.generation", VIOLATION)):
        given = {"seeds": "0", "scenario": "kip-903-six-steps", "without": without}
        (asked,) = fleet_options(given, streaming=False).asked
        row = run_seed(0, asked, Limits())
        assert (row.outcome, row.scenario) == (outcome, "kip-903-six-steps")


def test_a_schedule_from_a_file_is_run_for_every_seed() -> None:
    given = {"seeds": "0:2", "scenario": str(SCHEDULES / "isr.generation.json")}
    (asked,) = fleet_options(given, streaming=False).asked
    assert asked.without == "isr.generation" and asked.plan is not None
    one = begin(1, asked, Limits())
    assert one.plan is asked.plan
    (safe,) = fleet_options({**given, "without": ""}, streaming=False).asked
    assert run_seed(0, safe, Limits()).outcome == OK


def test_every_rule_is_taken_away_in_its_own_mode_with_its_own_profile() -> None:
    asked = fleet_options({"seeds": "0:2", "without": "each"}, streaming=False).asked
    assert [each.without for each in asked] == list(MUTANTS)
    assert {each.options.mode for each in asked} == {"log", "zookeeper"}
    (one,) = fleet_options({"seeds": "0", "without": "each:isr.eligible"}, streaming=False).asked
    assert (one.without, one.options.profile) == ("isr.eligible", MUTANTS["isr.eligible"].profile)


def test_tasks_have_every_seed_once_and_none_is_too_large() -> None:
    options = fleet_options(
        {"seeds": "0:100,500,7000:7030", "seedsPerTask": "30", "without": "each:isr.eligible,isr.generation"},
        streaming=False,
    )
    tasks = SimulationReader(options, None).partitions()
    found = [
        (task.asked.without, seed)
        for task in tasks
        if isinstance(task, Block)
        for seed in range(task.first, task.end)
    ]
    seeds = [*range(100), 500, *range(7000, 7030)]
    assert found == [(rule, seed) for rule in ("isr.eligible", "isr.generation") for seed in seeds]
    assert max(task.end - task.first for task in tasks if isinstance(task, Block)) <= 30


def test_a_stream_goes_through_its_seeds_and_stands_still_at_the_end() -> None:
    reader = stream(seeds="10:25", seedsPerTrigger="10", seedsPerTask="4")
    offset = reader.initialOffset()
    seen = []
    for _ in range(3):
        later = reader.latestOffset(offset, reader.getDefaultReadLimit())
        for task in reader.partitions(offset, later):
            assert isinstance(task, Block)
            seen += range(task.first, task.end)
        offset = later
    assert seen == list(range(10, 25))
    assert reader.latestOffset(offset, reader.getDefaultReadLimit()) == offset == reader.reportLatestOffset()


def test_a_campaign_may_grow_but_not_change() -> None:
    reached = stream(seeds="0:10", seedsPerTrigger="10")
    end = reached.latestOffset(reached.initialOffset(), reached.getDefaultReadLimit())
    assert stream(seeds="0:30", seedsPerTrigger="10").latestOffset(end, reached.getDefaultReadLimit()) == {
        **end,
        "seed": 20,
    }
    assert stream(seeds="0:5").latestOffset(end, reached.getDefaultReadLimit()) == end
    with pytest.raises(BadOption, match="begun with other options"):
        stream(seeds="0:10", profile="isolation").partitions(reached.initialOffset(), end)
    with pytest.raises(BadOption, match="begun with other options"):
        other = stream(seeds="5:10")
        other.partitions(other.initialOffset(), end)


def test_a_stream_without_end_is_not_for_available_now() -> None:
    endless = stream(seeds="7:")
    assert endless.latestOffset(endless.initialOffset(), endless.getDefaultReadLimit())["seed"] == 2007
    assert endless.reportLatestOffset() is None
    with pytest.raises(BadOption, match="seeds=7: has no end"):
        endless.prepareForTriggerAvailableNow()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "seeds is not set"),
        ({"seeds": "many"}, "seeds .*'many'"),
        ({"seeds": "5:5"}, "seeds=5:5 names no seed"),
        ({"seeds": "-1:5"}, "seeds=-1:5 names no seed"),
        ({"seeds": "5:"}, "seeds=5: has no end"),
        ({"seeds": "0:5,3:9"}, "seeds=0:5,3:9 names seed 3 twice"),
        ({"seeds": f"{1 << 63}"}, "seeds=9223372036854775808"),
        ({"seeds": "0", "mode": "raft"}, "mode .*'raft'"),
        ({"seeds": "0", "level": "top"}, "level=top"),
        ({"seeds": "0", "level": "legacy"}, "level=legacy is not in mode=log"),
        ({"seeds": "0", "without": "isr.generation,nonsense"}, "without=.* names 'nonsense'"),
        ({"seeds": "0", "without": "each", "mode": "log"}, "mode=log cannot be given with without=each"),
        ({"seeds": "0", "without": "each:nonsense"}, "without=each:nonsense names 'nonsense'"),
        ({"seeds": "0", "profile": "calm"}, "profile=calm"),
        ({"seeds": "0", "scenario": "kip-1"}, "scenario=kip-1 is neither"),
        ({"seeds": "0", "scenario": "none.json"}, "scenario=none.json cannot be read"),
        ({"seeds": "0", "scenario": "kip-903-six-steps", "mode": "log"}, "mode=log is decided by scenario"),
        (
            {"seeds": "0", "scenario": "kip-903-six-steps", "without": "isr.eligible"},
            "without=isr.eligible is not what protects",
        ),
        ({"seeds": "0", "seedsPerTask": "0"}, "seedsPerTask .*0"),
        ({"seeds": "0", "secondsPerSeed": "soon"}, "secondsPerSeed .*'soon'"),
        ({"seeds": "0", "secondsPerSeed": "nan"}, "secondsPerSeed .*nan"),
        ({"seeds": "0", "shrink": "yes"}, "shrink .*'yes'"),
        ({"seeds": "0", "withuot": "isr.generation"}, "withuot=isr.generation is not known"),
    ],
)
def test_a_bad_option_is_told_by_name_and_value(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        fleet_options(given, streaming=False)


def test_a_stream_has_one_range() -> None:
    with pytest.raises(BadOption, match="seeds=0:5,9 names several ranges"):
        fleet_options({"seeds": "0:5,9"}, streaming=True)


def test_no_seeds_are_no_tasks() -> None:
    assert blocks(fleet_options({"seeds": "0"}, streaming=False), []) == []

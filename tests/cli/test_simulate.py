"""`epoka simulate` at the terminal: rules of the other mode are refused, the bar is where nothing else is."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from epoka.cli import fleet
from epoka.cli.failures import Failed
from epoka.cli.rules import OF_ONE_MODE, misplaced
from epoka.fencing import RULES, Rules, Verdict
from epoka.model.levels import FeatureLevel
from epoka.sim import steps
from epoka.sim.mutants import MUTANTS
from epoka.sim.runner import Options, run
from tests.cli.commands import COMMAND, Outcome, epoka, inside, is_one_line

MODES = ("log", "zookeeper")
KEPT = Path(__file__).parent.parent / "sim" / "schedules"


@contextmanager
def asking() -> Iterator[set[str]]:
    """The names of all rules that are asked meanwhile, in this thread: others may hold whole clusters."""
    asked: set[str] = set()
    ask, here = Rules.ask, threading.get_ident()

    def noted(self: Rules, *about: Any, **more: Any) -> Verdict:
        verdict = ask(self, *about, **more)
        if threading.get_ident() == here:
            asked.add(verdict.rule)
        return verdict

    with mock.patch.object(Rules, "ask", noted):
        yield asked


# Rules of the other mode.


@pytest.mark.parametrize(
    ("rule", "mode", "other"),
    [
        ("two-reads", "log", "zookeeper"),
        ("control.generation", "log", "zookeeper"),
        ("registration.incarnation", "zookeeper", "log"),
        ("unflushed-metadata", "zookeeper", "log"),
    ],
)
def test_a_rule_of_the_other_mode_is_refused_with_the_option_to_give(
    rule: str, mode: str, other: str
) -> None:
    outcome = inside("simulate", "--seeds", "0:2", "--mode", mode, "--without", rule)
    assert outcome.code == 2 and is_one_line(outcome), outcome
    assert f"{rule} is a rule of {other} mode" in outcome.err and f"--mode {other}" in outcome.err


def test_it_is_refused_for_a_fleet_too_unless_each_rule_has_its_own_mode() -> None:
    given = {"seeds": "0:2", "without": "two-reads"}
    with pytest.raises(Failed, match="--mode zookeeper") as refused:
        fleet._check(given, streaming=False, rules_off=False)
    assert refused.value.code == 2
    fleet._check(given, streaming=False, rules_off=True)
    fleet._check({**given, "mode": "zookeeper"}, streaming=False, rules_off=False)


def test_a_file_that_takes_away_what_its_mode_has_not_got_is_refused(tmp_path: Path) -> None:
    kept = steps.decode((KEPT / "isr.generation.json").read_bytes())
    path = tmp_path / "wrong.json"
    for wrong in ("two-reads", "no.such.rule"):
        path.write_bytes(steps.encode(msgspec.structs.replace(kept, mutants=(wrong,))))
        for words in (("simulate", "--schedule", str(path)), ("scenario", "run", str(path))):
            outcome = inside(*words)
            assert outcome.code == 2 and is_one_line(outcome) and wrong in outcome.err, outcome


@pytest.mark.parametrize(
    "words", [("--without", "isr.ahead"), ("--without", "fetch.generation", "--mode", "zookeeper")]
)
def test_a_rule_that_is_asked_in_both_modes_may_be_missing_in_either(words: tuple[str, ...]) -> None:
    outcome = inside("simulate", "--seeds", "0:2", *words, "--processes", "1")
    assert outcome.code == 0, outcome


@pytest.mark.parametrize("mode", MODES)
def test_exactly_the_rules_that_nobody_asks_in_a_mode_are_refused_in_it(mode: str) -> None:
    with asking() as asked:
        for seed in range(12):
            run(seed, Options(mode=mode))
        if mode == "zookeeper":
            # Above this level brokers say with a heartbeat that they want to stop.
            for seed in range(3):
                run(seed, Options(mode, FeatureLevel.GENERATIONS, profile="late-shutdowns"))
    refused = {rule for rule in RULES if misplaced([rule], mode)}
    assert refused == set(RULES) - asked


@pytest.mark.parametrize("name", sorted(OF_ONE_MODE - {"two-reads"}))
def test_taking_away_what_the_other_mode_has_is_taking_nothing_away(name: str) -> None:
    known = MUTANTS[name]
    (other,) = set(MODES) - {known.mode}
    options = Options(mode=other, profile=known.profile)
    without = msgspec.structs.replace(options, mutants=(name,))
    for seed in range(2):
        assert run(seed, without) == run(seed, options)


# Wrong use.


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--seeds", "5:3"), "--seeds"),
        (("--mode", "log"), "--mode"),
        (("--level", "legacy"), "--level"),
        (("--without", "nonsense"), "--without"),
        (("--profile", "zzz"), "--profile"),
        (("--shrink",), "--shrink"),
        (("--processes", "1"), "--processes"),
        (("--spark", "local[1]"), "--spark"),
        (("--seeds", "5:3", "--mode", "zookeeper", "--output", "x"), "--seeds, --mode, --output"),
    ],
)
def test_a_file_is_repeated_as_it_is_or_not_at_all(words: tuple[str, ...], named: str) -> None:
    outcome = inside("simulate", "--schedule", str(KEPT / "isr.generation.json"), *words)
    assert outcome.code == 2 and is_one_line(outcome) and f"leave {named} out" in outcome.err, outcome


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--output", "small.json"), "--shrink"),
        (("--processes", "-3"), "below 1"),
        (("--processes", "0"), "below 1"),
        (("--ledger", "/no/such/folder/ledger.jsonl"), "cannot be written"),
    ],
)
def test_wrong_use_is_one_line(words: tuple[str, ...], text: str) -> None:
    outcome = inside("simulate", "--seeds", "0:1", *words)
    assert outcome.code == 2 and is_one_line(outcome) and text in outcome.err, outcome


def test_what_was_made_small_is_told_in_json(tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    words = ("--seeds", "0:5", "--without", "isr.generation", "--profile", "stale-join", "--processes", "1")
    outcome = inside("simulate", *words, "--shrink", "--output", str(small), "--json")
    assert outcome.code == 1, outcome
    told, kept = outcome.json["shrunk"], steps.decode(small.read_bytes())
    assert told["file"] == str(small)
    assert told["steps_before"] > told["steps_after"] == len(kept.plan.steps)
    assert msgspec.convert(told["schedule"], steps.Schedule) == kept


# Spark.


@pytest.mark.parametrize(
    "words",
    [
        "pipeline fleet --seeds 0:2",
        "pipeline fleet --seeds 0:2 --rules-off",
        "pipeline topics t --to none -b localhost:1",
        "pipeline audit none --to none",
        "simulate --seeds 0:2 --spark local[1]",
    ],
)
def test_without_spark_there_is_one_line(words: str) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from epoka.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    run = [sys.executable, "-c", program, *words.split()]
    done = subprocess.run(run, capture_output=True, text=True, timeout=100)
    outcome = Outcome(done.returncode, done.stdout, done.stderr)
    assert outcome.code == 1 and is_one_line(outcome) and "pip install 'epoka[spark]'" in outcome.err, outcome


# The bar.


def at_a_terminal(*words: str) -> tuple[int, str, str]:
    """Its exit code, what it wrote to a pipe, and what to the terminal that is its standard error."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=end, env=environment)
    os.close(end)
    drawn = b""
    try:
        # Reading fails once nobody holds the other end any more.
        while select.select([terminal], [], [], 60)[0]:
            drawn += os.read(terminal, 65_536)
        process.kill()
    except OSError:
        pass
    finally:
        os.close(terminal)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out.decode(), drawn.decode()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_the_bar_is_on_the_terminal_and_the_result_alone_in_the_pipe(more: tuple[str, ...]) -> None:
    code, out, drawn = at_a_terminal("simulate", "--seeds", "0:40", "--processes", "1", *more)
    assert code == 0
    assert "schedules" in drawn and "40/40" in drawn and "0 failed" in drawn
    assert out.startswith('{"schedules":40' if more else "40 schedules, 0 failed")
    assert "\x1b" not in out


def test_where_nobody_looks_there_is_no_bar() -> None:
    outcome = epoka("simulate", "--seeds", "0:2", "--processes", "1")
    assert outcome.code == 0 and outcome.err == ""
    assert outcome.out.startswith("2 schedules, 0 failed")

"""Rules that are needed: without them something notices, soon, when the faults aim at their race.

A rule that nothing notices alone is part of a pair. Of a pair it is shown that every part counts: put back
alone, it saves the very run that fails without all of them. So no mutant is left unexplained.

The seeds are those that profiles were tried on, and the search begins where one is known: this keeps what is
known, it measures nothing. `python -m benchmarks.mutants` measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from benchmarks.mutants import NOT_ONLY_REFUSALS, refusing
from epoka.fencing import RULES
from epoka.sim.mutants import MUTANTS, Mutant
from epoka.sim.profiles import PROFILES
from epoka.sim.runner import Options, Result, run

WITHIN = 300
NOTICED = [mutant for mutant in MUTANTS.values() if not mutant.covered_by and not mutant.parts]
COVERED = [mutant for mutant in MUTANTS.values() if mutant.covered_by]
PAIRS = [mutant for mutant in MUTANTS.values() if mutant.parts]

KNOWN: Final[dict[str, int]] = {
    "control.controller": 13,
    "empty-isr": 3,
    "heartbeat.generation": 34,
    "heartbeat.session": 4,
    "high-watermark-below-min-isr": 11,
    "join-without-epoch-start": 5,
    "leader.eligible": 13,
    "replies-by-kind": 38,
    "reply.generation": 7,
    "start-before-failure": 5,
    "two-reads": 19,
    "unclean-elections": 17,
    "untied-fetch-answers": 29,
}
"""A seed of its profile that shows the mutant, where none of the first does; only there to begin with."""


def _run(mutant: Mutant, seed: int, names: Sequence[str]) -> Result:
    """The seed without the rules of those names, in the world that the mutant is looked for in."""
    options = Options(mode=mutant.mode, level=mutant.level, mutants=tuple(names), profile=mutant.profile)
    result = run(seed, options)
    # A mutant that does not fit the code any more breaks the core, which is not what it is there for.
    assert not any("TypeError" in each.story or "AttributeError" in each.story for each in result.violations)
    return result


def _seeds(mutant: Mutant) -> range:
    first = KNOWN.get(mutant.name, 0)
    return range(first, first + WITHIN)


def _each_part_counts(pair: Mutant, seed: int) -> bool:
    if _run(pair, seed, pair.parts).ok:
        return False
    return all(_run(pair, seed, [other for other in pair.parts if other != part]).ok for part in pair.parts)


def test_every_rule_of_fencing_is_a_mutant() -> None:
    assert set(RULES) <= set(MUTANTS)
    assert len(MUTANTS) >= 30


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_a_mutant_has_a_profile_and_says_what_is_missing(mutant: Mutant) -> None:
    assert mutant.profile in PROFILES
    assert mutant.about


@pytest.mark.parametrize("mutant", NOTICED, ids=lambda mutant: mutant.name)
def test_a_missing_rule_is_noticed(mutant: Mutant) -> None:
    found = next((seed for seed in _seeds(mutant) if not _run(mutant, seed, [mutant.name]).ok), None)
    assert found is not None, f"{WITHIN} schedules of {mutant.profile} did not notice that {mutant.about}"
    assert _run(mutant, found, []).ok


@pytest.mark.parametrize("mutant", COVERED, ids=lambda mutant: mutant.name)
def test_a_rule_that_nothing_notices_alone_is_part_of_a_pair(mutant: Mutant) -> None:
    pair = MUTANTS[mutant.covered_by]
    assert mutant.name in pair.parts
    assert (mutant.mode, mutant.level, mutant.profile) == (pair.mode, pair.level, pair.profile)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_part_of_a_pair_saves_the_run_that_fails_without_all_of_them(pair: Mutant) -> None:
    found = next((seed for seed in _seeds(pair) if _each_part_counts(pair, seed)), None)
    assert found is not None, f"{WITHIN} schedules of {pair.profile} did not notice that {pair.about}"
    assert _run(pair, found, []).ok


@pytest.mark.parametrize("mode", ["log", "zookeeper"])
def test_a_rule_that_refuses_nothing_changes_nothing_when_it_is_taken_away(mode: str) -> None:
    """What `benchmarks.mutants` leaves out by."""
    for seed in range(6):
        idle = set(RULES) - refusing(seed, mode) - NOT_ONLY_REFUSALS
        assert run(seed, Options(mode=mode, without=tuple(sorted(idle)))) == run(seed, Options(mode=mode))


def test_the_canary_dies() -> None:
    """Runs that must fail, and as clients would notice: were they to pass, nothing else here would mean
    anything."""
    canary = MUTANTS["ack-before-high-watermark"]
    told = {each.checker for seed in range(40) for each in _run(canary, seed, [canary.name]).violations}
    assert {"lost-write", "duplicate"} <= told

"""Rules that are needed: without them something notices, soon, when the faults aim at their race.

Mutants that nothing has noticed yet (`covered_by`) are left out; docs/track-record.md lists them as open.
The seeds are those that profiles were tried on: this keeps what is known, it measures nothing.
"""

from __future__ import annotations

import pytest

from epoka.fencing import RULES
from epoka.sim.fleet import first_failure
from epoka.sim.mutants import MUTANTS, Mutant
from epoka.sim.profiles import PROFILES
from epoka.sim.runner import Options, run

WITHIN = 300
NOTICED = [mutant for mutant in MUTANTS.values() if not mutant.covered_by]


def test_every_rule_of_fencing_is_a_mutant() -> None:
    assert set(RULES) <= set(MUTANTS)
    assert len(MUTANTS) >= 30


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_a_mutant_has_a_profile_and_says_what_is_missing(mutant: Mutant) -> None:
    assert mutant.profile in PROFILES
    assert mutant.about


@pytest.mark.parametrize("mutant", NOTICED, ids=lambda mutant: mutant.name)
def test_a_missing_rule_is_noticed(mutant: Mutant) -> None:
    options = Options(mode=mutant.mode, level=mutant.level, mutants=(mutant.name,), profile=mutant.profile)
    found = first_failure(range(WITHIN), options, processes=1)
    assert found is not None, f"{WITHIN} schedules of {mutant.profile} did not notice that {mutant.about}"
    assert run(found.seed, Options(mode=mutant.mode, level=mutant.level, profile=mutant.profile)).ok


def test_the_canary_dies() -> None:
    """A run that must fail: were it to pass, nothing else here would mean anything."""
    assert first_failure(range(40), Options(mutants=("ack-before-high-watermark",)), processes=1) is not None

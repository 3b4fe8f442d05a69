"""Twenty thousand schedules on the cores as they are: nothing may be violated but what is known to be open.

In pieces, so that two workers share them. A piece that fails names its seeds and how to repeat them.
"""

from __future__ import annotations

import pytest

from epoka.cli.simulate import command
from epoka.sim.fleet import campaign
from epoka.sim.runner import Options

PIECE = 200
LOG_PIECES, ZOOKEEPER_PIECES = 60, 30

OPEN: dict[tuple[str, str, int], str] = {}
"""Seeds that fail and are told of as open in docs/track-record.md. They must fail as they are told: one that
does not any more leaves this list."""


def _check(seeds: range, options: Options) -> None:
    tally = campaign(seeds, options, processes=1)
    campaigned = options.mode, options.profile
    found = {(*campaigned, each.seed): each.violations[0].checker for each in tally.failures}
    known = {
        place: checker for place, checker in OPEN.items() if place[:2] == campaigned and place[2] in seeds
    }
    told = [
        f"{command(result.seed, options)}: {result.violations[0].checker}: {result.violations[0].story}"
        for result in tally.failures
    ]
    assert found == known, "\n".join(told)
    assert tally.schedules == len(seeds)
    assert tally.acked > 0 and tally.faults


@pytest.mark.parametrize("piece", range(LOG_PIECES))
def test_log_mode_holds(piece: int) -> None:
    _check(range(piece * PIECE, (piece + 1) * PIECE), Options())


@pytest.mark.parametrize("piece", range(ZOOKEEPER_PIECES))
def test_zookeeper_mode_holds(piece: int) -> None:
    _check(range(piece * PIECE, (piece + 1) * PIECE), Options(mode="zookeeper"))


AIMED = (
    ("log", "stale-join"),
    ("log", "fenced-join"),
    ("log", "slow-proposals"),
    ("log", "slow-answers"),
    ("log", "role-changes"),
    ("log", "lagging-marks"),
    ("log", "late-heartbeats"),
    ("log", "late-registrations"),
    ("log", "late-copies"),
    ("log", "pipelines"),
    ("zookeeper", "pipelines"),
    ("zookeeper", "stragglers"),
    ("zookeeper", "stale-control"),
    ("zookeeper", "zombie-controllers"),
    ("zookeeper", "late-updates"),
    ("zookeeper", "fast-bounces"),
)


@pytest.mark.parametrize(("mode", "profile"), AIMED)
def test_what_aims_at_a_rule_misses_the_cores_that_have_it(mode: str, profile: str) -> None:
    _check(range(PIECE), Options(mode=mode, profile=profile))


def test_what_comes_back_does_not_depend_on_how_many_processes_worked() -> None:
    alone, together = (campaign(range(60), Options(), processes=count) for count in (1, 2))
    alone.cpu_s = together.cpu_s = 0.0
    assert alone == together

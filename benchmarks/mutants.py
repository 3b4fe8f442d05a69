"""`python -m benchmarks.mutants`: schedules until a missing rule is noticed, as a table for the track record.

Five ranges of seeds each, with the rule's own profile and with the swarm; "-" where a range did not notice it
within the limit. Long: not part of `make bench`.
"""

from __future__ import annotations

import argparse
from statistics import median

from epoka.sim.fleet import first_failure
from epoka.sim.mutants import MUTANTS, Mutant
from epoka.sim.profiles import SWARM
from epoka.sim.runner import Options

APART = 1_000_000


def until_noticed(mutant: Mutant, profile: str, ranges: int, limit: int) -> list[int | None]:
    """For each range: which schedule was the first to notice, counted from 1."""
    options = Options(mode=mutant.mode, level=mutant.level, mutants=(mutant.name,), profile=profile)
    found: list[int | None] = []
    for number in range(ranges):
        first = APART * (number + 1)
        failure = first_failure(range(first, first + limit), options, processes=1)
        found.append(None if failure is None else failure.seed - first + 1)
    return found


def told(found: list[int | None], limit: int) -> str:
    known = sorted(limit + 1 if each is None else each for each in found)
    middle, worst = int(median(known)), known[-1]
    return f"{'-' if middle > limit else middle} / {'-' if worst > limit else worst}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="rule")
    parser.add_argument("--ranges", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1_000, help="schedules of a range, with the profile")
    parser.add_argument("--uniform", type=int, default=1_000, help="the same, of the swarm; 0: none")
    given = parser.parse_args()
    print("| rule taken away | document | mode | profile | aimed: median / worst | swarm: median / worst |")
    print("|---|---|---|---|---|---|")
    for name in given.names or MUTANTS:
        mutant = MUTANTS[name]
        aimed = told(until_noticed(mutant, mutant.profile, given.ranges, given.limit), given.limit)
        swarm = "not measured"
        if given.uniform:
            swarm = told(until_noticed(mutant, SWARM, given.ranges, given.uniform), given.uniform)
        print(
            f"| `{name}` | {mutant.document} | {mutant.mode} | {mutant.profile} | {aimed} | {swarm} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

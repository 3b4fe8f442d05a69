"""`python -m benchmarks [name ...] [--json]`: print one table, exit 1 when a binding aim is missed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, faster_than_kio


def _codec() -> list[Figure]:
    from benchmarks import codec

    return [faster_than_kio(row) for row in codec.run()]


def _produce_consume() -> list[Figure]:
    from benchmarks import produce_consume

    return produce_consume.run()


def _fleet() -> list[Figure]:
    from benchmarks import fleet

    return fleet.run()


def _log_mode() -> list[Figure]:
    from benchmarks import log_mode

    return log_mode.run()


def _command_line() -> list[Figure]:
    from benchmarks import command_line

    return command_line.run()


def _dashboard() -> list[Figure]:
    from benchmarks import dashboard

    return dashboard.run()


def _fixture() -> list[Figure]:
    from benchmarks import fixture

    return fixture.run()


def _spark() -> list[Figure]:
    from benchmarks import spark

    return spark.run()


def _startup() -> list[Figure]:
    from benchmarks import startup

    return startup.run()


def _zookeeper_mode() -> list[Figure]:
    from benchmarks import zookeeper_mode

    return zookeeper_mode.run()


def _simulator() -> list[Figure]:
    from benchmarks import simulator

    return simulator.measure()


def _mutants() -> list[Figure]:
    from benchmarks import mutants

    return mutants.measure()


def _twice() -> list[Figure]:
    from benchmarks import twice

    return twice.measure()


def _campaign() -> list[Figure]:
    from benchmarks import campaign

    return campaign.measure()


BENCHMARKS: dict[str, Callable[[], list[Figure]]] = {
    "campaign": _campaign,
    "codec": _codec,
    "command_line": _command_line,
    "dashboard": _dashboard,
    "fixture": _fixture,
    "fleet": _fleet,
    "log_mode": _log_mode,
    "mutants": _mutants,
    "produce_consume": _produce_consume,
    "spark": _spark,
    "simulator": _simulator,
    "startup": _startup,
    "twice": _twice,
    "zookeeper_mode": _zookeeper_mode,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which: {', '.join(BENCHMARKS)}; all without"
    )
    parser.add_argument("--json", action="store_true", help="print rows as JSON instead of a table")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    figures: list[Figure] = []
    for name in given.names or BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr)
        figures += BENCHMARKS[name]()
    if given.json:
        rows = [{**msgspec.structs.asdict(figure), "met": figure.met} for figure in figures]
        print(msgspec.json.encode(rows).decode())
    else:
        Console().print(table(figures))
    return 1 if any(figure.met is False and figure.binding for figure in figures) else 0


def table(figures: list[Figure]) -> Table:
    drawn = Table()
    drawn.add_column("what")
    drawn.add_column("unit")
    drawn.add_column("ours", justify="right")
    drawn.add_column("peer or limit", justify="right")
    drawn.add_column("ratio", justify="right")
    drawn.add_column("aim", justify="right")
    drawn.add_column("met")
    for figure in figures:
        aim = "" if figure.aim is None else f"{'≤' if figure.at_most else '≥'} {figure.aim:g}"
        drawn.add_row(
            figure.name,
            figure.unit,
            f"{figure.ours:.3g}",
            f"{figure.peer_name} {figure.peer:.3g}",
            _ratio(figure),
            aim,
            {None: "", True: "yes", False: "NO" if figure.binding else "no, as known"}[figure.met],
        )
    return drawn


def _ratio(figure: Figure) -> str:
    if figure.spread is None:
        return f"{figure.ratio:.2f}"
    low, high = figure.spread
    return f"{figure.ratio:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    sys.exit(main())

"""Arguments that many commands share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from epoka.cli.commands import Parser


LEVELS = ("legacy", "generations", "heartbeats", "shared-updates", "eligible-isr", "fetch-epochs")
"""The names of the feature levels; the model's own would cost an import."""


def add_cluster(parser: Parser) -> None:
    """Which cluster is meant, for whatever a client could ask of it."""
    parser.add_argument(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="brokers of the cluster (default: the one that `epoka up` runs)",
    )
    parser.add_argument(
        "--command-config",
        type=path,
        metavar="FILE",
        help="a client's property file, for a cluster with TLS or SASL",
    )
    add_data(parser)


def add_data(parser: Parser) -> None:
    parser.add_argument(
        "--data", type=path, metavar="DIR", help="the data directory of the cluster that `epoka up` runs"
    )


def add_setting(parser: Parser, about: str) -> None:
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help=about)


def add_rules(parser: Parser) -> None:
    """Which level a simulated cluster has, which rule it lacks, and what it is aimed at."""
    parser.add_argument(
        "--level", metavar="NAME", help=f"one of {', '.join(LEVELS)} (default: each seed's own)"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="RULE",
        help="take a rule away; `epoka simulate --rules` has the names",
    )
    parser.add_argument("--profile", metavar="NAME", help="aim at a rule's race (default: the swarm)")


def path(text: str) -> object:
    from pathlib import Path

    return Path(text)


def at_least(lowest: int) -> Callable[[str], int]:
    """A whole number that is not below `lowest`."""
    import argparse

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{value} is below {lowest}")
        return value

    return number


def seconds(text: str) -> float:
    """A time that is more than nothing."""
    import argparse

    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return value

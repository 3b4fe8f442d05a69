"""What `epoka demo` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import at_least
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--records", type=at_least(1), default=100_000, metavar="N", help="how many records (default: 100000)"
    )


COMMAND = Command(
    "demo",
    "Watch a cluster take and return records.",
    "epoka.cli.demo:run_demo",
    declare,
    "Starts a cluster, writes and reads records with a real client, kills a broker in between,\n"
    "and says what happened and how fast.",
)

"""What `epoka status` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    add_cluster(parser)
    parser.add_argument("--controller", metavar="HOST:PORT", help="the controller's control listener")


COMMAND = Command(
    "status",
    "Brokers, generations, partitions: is all well?",
    "epoka.cli.status:show_status",
    declare,
    "Exit code 1 when a broker is fenced, stopping or away, or a partition lacks a replica or a leader.",
)

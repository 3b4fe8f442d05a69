"""What `epoka level` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster
from epoka.cli.commands import Command, Parser


def _raise(parser: Parser) -> None:
    parser.add_argument("level", metavar="LEVEL", help="its name or number; `epoka level show` lists them")
    parser.add_argument("--dry-run", action="store_true", help="only ask whether it could")
    add_cluster(parser)


VERBS = (
    Command(
        "show",
        "The level that the cluster is on, and those above it.",
        "epoka.cli.level:show_level",
        add_cluster,
    ),
    Command("raise", "Climb to a higher level, when every node can.", "epoka.cli.level:raise_level", _raise),
)

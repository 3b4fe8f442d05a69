"""What `epoka dashboard` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_data, at_least
from epoka.cli.commands import Command, Parser


def add_faults(parser: Parser) -> None:
    parser.add_argument(
        "--allow-faults", action="store_true", help="let the dashboard bounce, kill, pause and isolate nodes"
    )


def declare(parser: Parser) -> None:
    add_data(parser)
    parser.add_argument(
        "--port", type=at_least(0), default=0, metavar="PORT", help="where it listens; 0: any (default: 0)"
    )
    add_faults(parser)


COMMAND = Command(
    "dashboard",
    "The web page of a cluster that runs, or ran, on this machine.",
    "epoka.cli.dashboard:run_dashboard",
    declare,
    "Says `ready dashboard=URL`; the URL has a token in it. Stays until told to stop.",
)

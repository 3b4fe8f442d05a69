"""What `epoka zookeeper` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import path
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument("--nodes", type=int, default=1, metavar="1|3", help="how many servers (default: 1)")
    parser.add_argument(
        "--data", type=path, metavar="DIR", help="keep everything here (default: a temporary place)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=2181,
        metavar="PORT",
        help="the first server's port, the others follow; 0: any (default: 2181)",
    )


COMMAND = Command(
    "zookeeper",
    "Run a real ZooKeeper, for development, and stay until told to stop.",
    "epoka.cli.zookeeper:run_zookeeper",
    declare,
)

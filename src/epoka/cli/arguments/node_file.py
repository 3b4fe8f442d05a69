"""What the commands take that run one node from its property file."""

from __future__ import annotations

from epoka.cli.arguments.common import path
from epoka.cli.commands import Parser


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--config", dest="path", type=path, required=True, metavar="FILE", help="the node's property file"
    )

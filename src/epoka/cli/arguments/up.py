"""What `epoka up` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_setting, at_least, path
from epoka.cli.arguments.dashboard import add_faults
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--brokers", type=int, metavar="N", help="how many brokers (default: as many as DIR has, or else 3)"
    )
    parser.add_argument(
        "--mode",
        metavar="log|zookeeper",
        help="where state lives (default: where that of DIR does, or else log)",
    )
    parser.add_argument(
        "--level", metavar="LEVEL", help="the feature level to start on (default: the highest)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=9092,
        metavar="PORT",
        help="the first broker's port, the others follow; 0: any (default: 9092)",
    )
    parser.add_argument(
        "--data", type=path, metavar="DIR", help="keep everything here (default: a temporary place)"
    )
    parser.add_argument(
        "--controllers",
        type=int,
        metavar="N",
        help="how many may be the controller, in zookeeper mode (default: as many as DIR has, or else 1)",
    )
    parser.add_argument(
        "--zookeepers",
        type=int,
        metavar="1|3|5",
        help="nodes of the ensemble that is started, in zookeeper mode (default: as DIR has, or else 1)",
    )
    parser.add_argument(
        "--metrics",
        type=at_least(1),
        metavar="PORT",
        help="serve Prometheus the controller's metrics at this port, the brokers' behind it",
    )
    parser.add_argument(
        "--dashboard",
        type=at_least(0),
        metavar="PORT",
        help="serve the dashboard on this port; 0: any (default: no dashboard)",
    )
    add_faults(parser)
    add_setting(parser, "a setting of every node")


COMMAND = Command(
    "up",
    "Start a cluster and stay until told to stop.",
    "epoka.cli.up:run_up",
    declare,
    "Says `ready bootstrap=...` when every broker serves. Ctrl-C is a controlled shutdown.",
)

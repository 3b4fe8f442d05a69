"""What `epoka node` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_data
from epoka.cli.commands import Command, Parser


def _one(parser: Parser) -> None:
    parser.add_argument("node", type=int, metavar="NODE", help="its id")
    add_data(parser)


def _bounce(parser: Parser) -> None:
    _one(parser)
    parser.add_argument(
        "--how", default="clean", metavar="clean|unclean|fast|wiped", help="how it ends (default: clean)"
    )


def _isolate(parser: Parser) -> None:
    _one(parser)
    parser.add_argument(
        "--from",
        dest="from_",
        default="all",
        metavar="all|controller|brokers|NODE",
        help="whom it cannot reach (default: all)",
    )


VERBS = (
    Command("list", "Every node, its state and its generation.", "epoka.cli.node:list_nodes", add_data),
    Command("bounce", "End a broker and start it again.", "epoka.cli.node:bounce", _bounce),
    Command("kill", "End a node without warning, as kill -9.", "epoka.cli.node:kill", _one),
    Command("stop", "A controlled shutdown of one node.", "epoka.cli.node:stop", _one),
    Command("start", "Start a node that does not run.", "epoka.cli.node:start", _one),
    Command("pause", "Stop a node's time, as SIGSTOP.", "epoka.cli.node:pause", _one),
    Command("resume", "Let a paused node go on.", "epoka.cli.node:resume", _one),
    Command(
        "isolate", "Cut a node off from others; clients still reach it.", "epoka.cli.node:isolate", _isolate
    ),
    Command("heal", "End every isolation.", "epoka.cli.node:heal", add_data),
    Command("wipe", "Empty the disk of a node that does not run.", "epoka.cli.node:wipe", _one),
)

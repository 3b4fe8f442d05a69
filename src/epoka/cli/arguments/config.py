"""What `epoka config` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster
from epoka.cli.commands import Command, Parser


def _kind(parser: Parser) -> None:
    parser.add_argument("kind", choices=("topic", "broker"), metavar="topic|broker", help="whose settings")


def _show(parser: Parser) -> None:
    _kind(parser)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the topic, or the broker's id; none: all brokers"
    )
    parser.add_argument("--all", action="store_true", help="defaults too")
    add_cluster(parser)


def _set(parser: Parser) -> None:
    _kind(parser)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the topic, or the broker's id; none: all brokers"
    )
    parser.add_argument("setting", nargs="*", metavar="KEY=VALUE", help="what to set")
    add_cluster(parser)


def _unset(parser: Parser) -> None:
    _kind(parser)
    parser.add_argument(
        "name", metavar="NAME", help="the topic, the broker's id, or `cluster` for all brokers"
    )
    parser.add_argument("key", nargs="+", metavar="KEY", help="what to take back")
    add_cluster(parser)


VERBS = (
    Command("show", "What is set.", "epoka.cli.config:show_config", _show),
    Command("set", "Set something.", "epoka.cli.config:set_config", _set),
    Command("unset", "Take settings back.", "epoka.cli.config:unset_config", _unset),
)

"""What `epoka ledger` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster, at_least, path
from epoka.cli.commands import Command, Parser


def add_source(parser: Parser) -> None:
    """Which ledger is meant."""
    add_cluster(parser)
    parser.add_argument(
        "--file",
        action="append",
        type=path,
        default=[],
        metavar="FILE",
        help="a ledger file, of nodes or runs",
    )


def declare(parser: Parser) -> None:
    add_source(parser)
    parser.add_argument("--follow", "-F", action="store_true", help="stay, and tell what comes")
    parser.add_argument("--rule", metavar="RULE", help="only this rule, or this family of rules, such as isr")
    parser.add_argument("--broker", type=at_least(0), metavar="ID", help="only what concerns this broker")
    parser.add_argument("--topic", metavar="TOPIC[-N]", help="only this topic, or this partition of it")
    parser.add_argument("--kind", metavar="KIND", help="only this kind of event, such as leader")
    parser.add_argument("--refused", action="store_true", help="only what was refused")
    parser.add_argument("--last", "-n", type=at_least(0), metavar="N", help="only the last so many")


COMMAND = Command(
    "ledger",
    "What the cluster has decided, and by which rule.",
    "epoka.cli.ledger:show_ledger",
    declare,
    "Of a cluster that `epoka up` runs, from its files; with --bootstrap, from its topic __epoka_ledger.",
)

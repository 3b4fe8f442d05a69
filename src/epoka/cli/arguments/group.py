"""What `epoka group` takes: the options of kafka-consumer-groups.sh, with the group as an argument."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster, at_least
from epoka.cli.commands import Command, Parser


def _list(parser: Parser) -> None:
    parser.add_argument(
        "--state", metavar="STATE,...", help="only groups in these states, such as Empty,Stable"
    )
    add_cluster(parser)


def _one(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP")
    add_cluster(parser)


def _describe(parser: Parser) -> None:
    _one(parser)
    parser.add_argument("--members", action="store_true", help="who is in it, instead of where it stands")


def _reset(parser: Parser) -> None:
    _one(parser)
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="a topic, or partitions of it"
    )
    parser.add_argument("--all-topics", action="store_true", help="all that the group has committed")
    parser.add_argument("--to-earliest", action="store_true", help="to the beginning of the log")
    parser.add_argument("--to-latest", action="store_true", help="to the end of the log")
    parser.add_argument("--to-current", action="store_true", help="to where it is, as far as the log goes")
    parser.add_argument("--to-offset", type=at_least(0), metavar="N", help="to this offset")
    parser.add_argument("--shift-by", type=int, metavar="N", help="so many records on, or back if negative")
    parser.add_argument(
        "--to-datetime", metavar="TIME", help="to the first record since, as 2026-01-31T12:00:00"
    )
    parser.add_argument(
        "--by-duration", metavar="P1DT2H", help="to the first record of the time that has passed"
    )
    parser.add_argument("--execute", action="store_true", help="do it; without this nothing is changed")


VERBS = (
    Command("list", "All consumer groups and their states.", "epoka.cli.group:list_groups", _list),
    Command(
        "describe",
        "Offsets and lag of a group, or its members.",
        "epoka.cli.group:describe_group",
        _describe,
    ),
    Command(
        "reset-offsets",
        "Move the offsets of a group that has no members.",
        "epoka.cli.group:reset_offsets",
        _reset,
        "Shows what would change; --execute changes it.",
    ),
    Command("delete", "Delete a group that has no members.", "epoka.cli.group:delete_group", _one),
)

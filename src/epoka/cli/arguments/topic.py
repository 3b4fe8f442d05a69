"""What `epoka topic` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster, add_setting
from epoka.cli.commands import Command, Parser


def _list(parser: Parser) -> None:
    parser.add_argument("--internal", action="store_true", help="the cluster's own topics too")
    add_cluster(parser)


def _one(parser: Parser) -> None:
    parser.add_argument("name", metavar="TOPIC")
    add_cluster(parser)


def _create(parser: Parser) -> None:
    _one(parser)
    parser.add_argument(
        "--partitions", type=int, default=-1, metavar="N", help="how many (default: as the cluster has it)"
    )
    parser.add_argument(
        "--replication-factor",
        type=int,
        default=-1,
        metavar="N",
        help="how many replicas of each (default: as the cluster has it)",
    )
    add_setting(parser, "a setting of the topic")


VERBS = (
    Command("list", "All topics.", "epoka.cli.topic:list_topics", _list),
    Command("create", "Create a topic.", "epoka.cli.topic:create_topic", _create),
    Command(
        "describe",
        "Leader, replicas and ISR of every partition.",
        "epoka.cli.topic:describe_topic",
        _one,
        "Exit code 1 when a partition lacks a replica or a leader.",
    ),
    Command("delete", "Delete a topic and its records.", "epoka.cli.topic:delete_topic", _one),
)

"""What `epoka topic` takes: the options of kafka-topics.sh, with the topic as an argument."""

from __future__ import annotations

import argparse

from epoka.cli.arguments.common import add_cluster, add_setting
from epoka.cli.commands import Command, Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Once(argparse.Action):
    """Takes a name that may be said in two ways, but not two names."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if getattr(namespace, self.dest, None) not in (None, values):
            parser.error(f"two {self.metavar}s: {getattr(namespace, self.dest)!r} and {values!r}; give one")
        setattr(namespace, self.dest, values)


def _topic(parser: Parser, dest: str = "name", metavar: str = "TOPIC") -> None:
    # Whoever comes from kafka-topics.sh writes --topic; the plain word means the same.
    parser.set_defaults(**{dest: None})
    once: dict[str, Any] = {"action": _Once, "default": argparse.SUPPRESS, "metavar": metavar}
    parser.add_argument(dest, nargs="?", **once)
    parser.add_argument("--topic", dest=dest, help="the same", **once)


def _list(parser: Parser) -> None:
    _topic(parser, "pattern", "PATTERN")
    parser.add_argument("--internal", action="store_true", help="the cluster's own topics too")
    add_cluster(parser)


def _create(parser: Parser) -> None:
    _topic(parser)
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
    _assignment(parser)
    parser.add_argument("--if-not-exists", action="store_true", help="a topic that exists is good too")
    add_setting(parser, "a setting of the topic")
    add_cluster(parser)


def _alter(parser: Parser) -> None:
    _topic(parser)
    parser.add_argument("--partitions", type=int, metavar="N", help="how many there shall be")
    _assignment(parser)
    add_setting(parser, "a setting to change")
    parser.add_argument(
        "--delete-config", action="append", default=[], metavar="KEY", help="a setting to take back"
    )
    add_cluster(parser)


def _describe(parser: Parser) -> None:
    _topic(parser, metavar="PATTERN")
    for name, about in (
        ("under-replicated-partitions", "only partitions whose ISR lacks a replica"),
        ("under-min-isr-partitions", "only partitions whose ISR is below min.insync.replicas"),
        ("at-min-isr-partitions", "only partitions whose ISR is just min.insync.replicas"),
        ("unavailable-partitions", "only partitions without a leader"),
        ("topics-with-overrides", "only topics with settings of their own"),
        ("internal", "the cluster's own topics too"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=about)
    add_cluster(parser)


def _delete(parser: Parser) -> None:
    _topic(parser)
    parser.add_argument("--if-exists", action="store_true", help="a topic that is not there is good too")
    add_cluster(parser)


def _assignment(parser: Parser) -> None:
    parser.add_argument(
        "--replica-assignment",
        metavar="1:2,2:3",
        help="the replicas of each new partition, the preferred leader first",
    )


VERBS = (
    Command(
        "list", "All topics, or those that fit a regular expression.", "epoka.cli.topic:list_topics", _list
    ),
    Command("create", "Create a topic.", "epoka.cli.topic:create_topic", _create),
    Command(
        "describe",
        "Leader, replicas and ISR of every partition.",
        "epoka.cli.topic:describe_topic",
        _describe,
        "Exit code 1 when a partition lacks a replica or a leader; with a filter, when a partition is shown.",
    ),
    Command("alter", "Add partitions, change settings.", "epoka.cli.topic:alter_topic", _alter),
    Command("delete", "Delete a topic and its records.", "epoka.cli.topic:delete_topic", _delete),
)

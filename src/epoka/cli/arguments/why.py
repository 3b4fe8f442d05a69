"""What `epoka why` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import at_least
from epoka.cli.arguments.ledger import add_source
from epoka.cli.commands import Command, Parser


def _broker(parser: Parser) -> None:
    parser.add_argument("broker", type=at_least(0), metavar="BROKER", help="its id")
    add_source(parser)


def _partition(parser: Parser) -> None:
    parser.add_argument("partition", metavar="TOPIC-NUMBER", help="such as orders-3")
    add_source(parser)


def _produce(parser: Parser) -> None:
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="only this topic")
    parser.add_argument(
        "--min-isr",
        type=at_least(1),
        metavar="N",
        help="min.insync.replicas (default: as the cluster has it)",
    )
    add_source(parser)


VERBS = (
    Command("broker", "Why a broker is fenced, stopping or active.", "epoka.cli.ledger:why_broker", _broker),
    Command(
        "partition",
        "Why a partition has this leader and this ISR.",
        "epoka.cli.ledger:why_partition",
        _partition,
    ),
    Command(
        "produce",
        "Why produce requests with acks=all are refused, and where.",
        "epoka.cli.ledger:why_produce",
        _produce,
        "Exit code 1 when a partition refuses them.",
    ),
)

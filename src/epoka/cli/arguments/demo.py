"""What `epoka demo` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import at_least
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--records", type=at_least(1), default=100_000, metavar="N", help="how many records (default: 100000)"
    )
    parser.add_argument(
        "--no-spark",
        dest="with_spark",
        action="store_false",
        help="the cluster and its clients only: no tables, no report",
    )
    parser.add_argument(
        "--to",
        dest="target",
        default="epoka-demo",
        metavar="DIR",
        help="where the tables and the report go (default: epoka-demo)",
    )


COMMAND = Command(
    "demo",
    "Watch a cluster take and return records.",
    "epoka.cli.demo:run_demo",
    declare,
    "Starts a cluster, writes and reads records with a real client, kills a broker in between,\n"
    "and says what happened. Where PySpark is installed, Spark follows the records and the ledger\n"
    "meanwhile, accounts for every record, checks every invariant and writes a report.",
)

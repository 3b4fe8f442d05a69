"""What `epoka produce` takes: the letters of `kcat -P`."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster, at_least, seconds
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    add_cluster(parser)
    parser.add_argument(
        "-p", "--partition", type=at_least(0), metavar="N", help="the partition (default: by key, or in turn)"
    )
    parser.add_argument("-k", "--key", metavar="KEY", help="the key of every record")
    parser.add_argument(
        "-K", "--key-delimiter", metavar="DELIM", help="what separates key and payload in the input"
    )
    parser.add_argument(
        "-D", "--delimiter", default="\\n", metavar="DELIM", help="what separates records (default: \\n)"
    )
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="a header of every record"
    )
    parser.add_argument(
        "-z",
        "--compression",
        default="none",
        metavar="CODEC",
        help="none, gzip, snappy, lz4 or zstd (default: none)",
    )
    parser.add_argument("--acks", default="all", metavar="all|1", help="who must have it (default: all)")
    parser.add_argument("-Z", "--null", action="store_true", help="an empty key or payload is null")
    parser.add_argument(
        "-J", "--from-json", action="store_true", help="each line is JSON as `epoka consume --json` writes it"
    )
    parser.add_argument("-c", "--count", type=at_least(1), metavar="N", help="stop after so many records")
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="S", help="how long to try (default: 30 seconds)"
    )


COMMAND = Command(
    "produce",
    "Write records from standard input.",
    "epoka.cli.produce:produce",
    declare,
    "One record a line. Silent when all is well; --json tells what was written where.",
)

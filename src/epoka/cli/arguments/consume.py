"""What `epoka consume` takes: the letters of `kcat -C`."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster, at_least, seconds
from epoka.cli.commands import Command, Parser


def declare(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    add_cluster(parser)
    parser.add_argument(
        "-p", "--partition", type=at_least(0), metavar="N", help="the partition (default: all)"
    )
    parser.add_argument(
        "-o",
        "--offset",
        action="append",
        default=[],
        metavar="OFFSET",
        help="where to start: beginning, end, an offset, -N for the last N, s@TIMESTAMP; "
        "e@TIMESTAMP is where to stop (default: beginning)",
    )
    parser.add_argument("-c", "--count", type=at_least(1), metavar="N", help="stop after so many records")
    parser.add_argument(
        "-e", "--exit", dest="exit_at_end", action="store_true", help="stop at the end of the topic"
    )
    parser.add_argument(
        "-f",
        "--format",
        dest="template",
        metavar="FORMAT",
        help="such as '%%t [%%p] %%o: %%k %%s\\n'; the letters are above",
    )
    parser.add_argument(
        "-K", "--key-delimiter", metavar="DELIM", help="write keys too, and this between key and payload"
    )
    parser.add_argument(
        "-D", "--delimiter", default="\\n", metavar="DELIM", help="what separates records (default: \\n)"
    )
    parser.add_argument(
        "--uncommitted", action="store_true", help="records of open and aborted transactions too"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="S", help="how long to try (default: 30 seconds)"
    )


COMMAND = Command(
    "consume",
    "Read records to standard output.",
    "epoka.cli.consume:consume",
    declare,
    "Formats: %s payload, %S its length, %R its length as four bytes, %k key, %K its length, %T timestamp,\n"
    "%h headers, %t topic, %p partition, %o offset, %% a percent sign; \\n \\r \\t \\0 \\xHH bytes.",
    json_names=("-J", "--json"),
)

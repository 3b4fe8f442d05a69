"""What `epoka pipeline` takes: what to read, where to write, and which Spark does the work."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster
from epoka.cli.commands import Command, Parser


def _spark(parser: Parser) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="a Spark master, such as local[4] or spark://host:7077"
    )


def _topics(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "--to", dest="target", required=True, metavar="DIR", help="where the table is or will be"
    )
    parser.add_argument(
        "--option",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help='of format("epoka")',
    )
    add_cluster(parser)
    _spark(parser)


def _audit(parser: Parser) -> None:
    parser.add_argument(
        "ledgers",
        nargs="*",
        metavar="PATH",
        help="ledger files, or folders of them (default: the live topic)",
    )
    parser.add_argument("--to", dest="target", required=True, metavar="DIR", help="where the tables go")
    add_cluster(parser)
    _spark(parser)


def _report(parser: Parser) -> None:
    parser.add_argument("audit", metavar="DIR", help="the tables of `epoka pipeline audit`")
    parser.add_argument("--to", dest="page", metavar="FILE", help="the page (default: report.html in DIR)")


VERBS = (
    Command(
        "topics",
        "Copy topics into a Parquet table, every record once.",
        "epoka.cli.pipeline:topics",
        _topics,
        "A second call goes on where the first ended.",
    ),
    Command(
        "audit",
        "Turn a ledger into tables and check every invariant.",
        "epoka.cli.pipeline:audit",
        _audit,
        "Exit code 1 when an invariant was violated.",
    ),
    Command("report", "Draw an audit as one HTML page.", "epoka.cli.pipeline:report", _report),
)

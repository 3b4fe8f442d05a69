"""What `epoka pipeline` takes: what to read, where to write, and which Spark does the work."""

from __future__ import annotations

from epoka.cli.arguments.common import add_cluster, add_rules
from epoka.cli.commands import Command, Parser


def _spark(parser: Parser) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="a Spark master, such as local[4] or spark://host:7077"
    )


def _storage(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        dest="storage",
        choices=("parquet", "delta"),
        default="parquet",
        help="of the tables (default: parquet)",
    )


def _options(parser: Parser, source: str) -> None:
    parser.add_argument(
        "--option",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f'of format("{source}")',
    )


def _topics(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "--to", dest="target", required=True, metavar="DIR", help="where the table is or will be"
    )
    _options(parser, "epoka")
    add_cluster(parser)
    _storage(parser)
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
    _storage(parser)
    _spark(parser)


def _report(parser: Parser) -> None:
    parser.add_argument("audit", metavar="DIR", help="the tables of `epoka pipeline audit`")
    parser.add_argument("--to", dest="page", metavar="FILE", help="the page (default: report.html in DIR)")


def _fleet(parser: Parser) -> None:
    parser.add_argument(
        "--seeds", required=True, metavar="A:B", help="from A up to, not including B; several with commas"
    )
    parser.add_argument(
        "--scenario", metavar="NAME", help="a story of `epoka scenario list`, or a schedule's .json file"
    )
    parser.add_argument("--mode", choices=("log", "zookeeper"), help="where state lives (default: log)")
    add_rules(parser)
    parser.add_argument(
        "--rules-off",
        action="store_true",
        help="take every rule away, or every one that --without names, one at a time",
    )
    parser.add_argument("--shrink", action="store_true", help="make failing runs small, and keep them")
    parser.add_argument("--to", dest="target", metavar="DIR", help="where the tables are or will be")
    _options(parser, "epoka-sim")
    _spark(parser)


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
    Command(
        "fleet",
        "Run very many simulations, one row a seed.",
        "epoka.cli.fleet:fleet",
        _fleet,
        "With --to a second call goes on where the first ended.\n"
        "Exit code 1 when a seed was violated, crashed or hung.",
    ),
    Command("report", "Draw an audit as one HTML page.", "epoka.cli.pipeline:report", _report),
)

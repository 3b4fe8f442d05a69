"""What `epoka simulate` takes."""

from __future__ import annotations

from epoka.cli.arguments.common import add_rules, at_least, path
from epoka.cli.commands import Command, Parser


def _simulate(parser: Parser) -> None:
    parser.add_argument("--seeds", metavar="A:B", help="from A up to, not including B; or a single one")
    parser.add_argument("--schedule", type=path, metavar="FILE", help="repeat the run in this file instead")
    parser.add_argument("--mode", choices=("log", "zookeeper"), help="where state lives (default: log)")
    add_rules(parser)
    parser.add_argument("--shrink", action="store_true", help="make the first failing run small, and keep it")
    parser.add_argument(
        "--output", type=path, metavar="FILE", help="where --shrink writes (default: schedule-SEED.json)"
    )
    parser.add_argument("--ledger", type=path, metavar="FILE", help="write the ledger of a single run here")
    parser.add_argument("--processes", type=at_least(1), metavar="N", help="how many (default: one a core)")
    parser.add_argument(
        "--spark",
        dest="master",
        metavar="MASTER",
        help="on Spark instead, such as local[4] or spark://host:7077",
    )
    parser.add_argument(
        "--rules", action="store_true", help="list the rules that can be taken away, and stop"
    )


COMMAND = Command(
    "simulate",
    "Run a whole cluster from a seed, with every fault, and check what must hold.",
    "epoka.cli.simulate:simulate",
    _simulate,
    more="Exit code 0 when nothing was violated, 1 when something was.\n"
    "A failing seed prints the command that repeats it.",
)

"""What `epoka scenario` takes."""

from __future__ import annotations

from epoka.cli.commands import Command, Parser


def _run(parser: Parser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="which one; `epoka scenario list` has the names. Or the .json file of a schedule",
    )
    parser.add_argument(
        "--without-rule", action="store_true", help="switch its rule off and watch the harm appear"
    )
    parser.add_argument("--html", metavar="FILE", help="write the message chart as one page")


VERBS = (
    Command("list", "Every scenario, its document and what keeps it safe.", "epoka.cli.scenario:list_all"),
    Command(
        "run",
        "Play a document's story on the real cores.",
        "epoka.cli.scenario:run",
        _run,
        more="Exit code 0 when it ends as its story says: safe with the rule, harmed without it.\n"
        "The story of a file that `epoka simulate --shrink` wrote is what was violated.",
    ),
)

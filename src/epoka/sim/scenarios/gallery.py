"""`docs/scenarios.md`: every scenario played both ways, and what came of it.

`python -m epoka.sim.scenarios.gallery` writes the page; `--check` says whether it is what would be written.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from epoka.sim.scenarios import SCENARIOS, Outcome, Scenario, run
from epoka.sim.scenarios.chart import MESSAGE

PAGE = Path(__file__).parents[4] / "docs" / "scenarios.md"
_HEAD = """\
# Scenarios

Each is a small schedule with a document's story, played on the cores that serve clients, in simulated time:
the same every time. With its rule it ends safe; without it the harm appears, and the named checker sees it.
A checker that only says that the rule is not kept proves no harm: what it sees is noted in the chart, and the
story goes on to what comes of it.

The rules are the functions of `src/epoka/fencing`; where something else keeps a story safe, it is named.

    epoka scenario list
    epoka scenario run kip-903-six-steps
    epoka scenario run kip-903-six-steps --without-rule --html chart.html

`python -m epoka.sim.scenarios.gallery` writes this page from the scenarios and from what they did.
"""


def written() -> str:
    parts = [_HEAD, _contents()]
    document = ""
    for each in SCENARIOS.values():
        heading = each.document.split(",")[0]
        heading = "Bugs of Kafka" if heading.startswith("KAFKA") else heading
        if heading != document:
            parts.append(f"## {heading}\n")
            document = heading
        parts.append(_told(each))
    return "\n".join(parts)


def _contents() -> str:
    rows = ["| scenario | document | kept safe by | without it |", "|---|---|---|---|"]
    rows += [
        f"| [{each.name}](#{each.name}) | {each.document} | {_code(each)} | {each.harm} |"
        for each in SCENARIOS.values()
    ]
    return "\n".join(rows) + "\n"


def _code(each: Scenario) -> str:
    return each.guard or ", ".join(f"`{rule}`" for rule in each.rules)


def _told(each: Scenario) -> str:
    safe, harmed = run(each), run(each, without_rule=True)
    story = "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), 110) for paragraph in each.story.split("\n\n")
    )
    lines = [f"### {each.name}\n", f"**{each.title}.** {each.document}, {each.mode} mode.\n", f"{story}\n"]
    if each.loses_anyway:
        lines.append(f"- {_ending(safe)}")
    else:
        lines.append(f"- With {_code(each)}: {_ending(safe)}")
        lines.append(f"- Without: {_ending(harmed)}")
    refusals = [
        f"{line.name.rsplit(' v', 1)[0]} from {line.sender} to {line.receiver}, by `{verdict.rule}`"
        + (f" with {verdict.error}" if verdict.error else "")
        for line in safe.lines
        if line.kind == MESSAGE
        for verdict in line.verdicts
    ]
    lines += [f"- Refused: {text}." for text in dict.fromkeys(refusals)]
    return "\n".join(lines) + "\n"


def _ending(outcome: Outcome) -> str:
    """Without its numbers: those change whenever anything becomes faster or slower."""
    return "safe." if outcome.harm is None else f"harm, seen by *{outcome.harm.checker}*."


def main(words: list[str]) -> int:
    text = written()
    if "--check" in words:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

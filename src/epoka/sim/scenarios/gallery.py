"""`docs/scenarios.md`: every scenario played both ways, and what came of it.

`python -m epoka.sim.scenarios.gallery` writes the page; `--check` says whether it is what would be written.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from epoka.sim.scenarios import SCENARIOS, Outcome, Scenario, run
from epoka.sim.scenarios.chart import MESSAGE
from epoka.sim.scenarios.text import refusal

PAGE = Path(__file__).parents[4] / "docs" / "scenarios.md"
_HEAD = """\
# Scenarios

Each is a small schedule with a document's story, played on the cores that serve clients, in simulated time:
the same every time. With its rule it ends safe; without it the harm appears, and the named checker sees it.
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
        f"{line.name} from {line.sender} to {line.receiver}: {refusal(verdict).removeprefix('x ')}"
        for line in safe.lines
        if line.kind == MESSAGE
        for verdict in line.verdicts
    ]
    lines += [f"- Refused: {text}" for text in dict.fromkeys(refusals)]
    return "\n".join(lines) + "\n"


def _ending(outcome: Outcome) -> str:
    messages = sum(line.kind == MESSAGE for line in outcome.lines)
    counted = f"{messages} messages in {outcome.lines[-1].time_ms / 1000:.1f} simulated seconds"
    if outcome.harm is None:
        return f"safe ({counted})."
    return f"harm, seen by *{outcome.harm.checker}*: {outcome.harm.story} ({counted})."


def main(words: list[str]) -> int:
    text = written()
    if "--check" in words:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""An outcome for the terminal: time, sender, receiver, message, verdict with its rule and both numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from epoka.sim.scenarios.chart import CHANGE, FAULT, HARM, MESSAGE, NOTE, VERDICT, Line, Verdict
from epoka.sim.scenarios.story import SCENARIOS, Outcome

_WIDTH = 100
_INDENT = " " * 13
_STYLES = {NOTE: "36", FAULT: "33", CHANGE: "2", HARM: "1;31"}
_REFUSED, _GOOD, _BOLD = "31", "32", "1"


def told(outcome: Outcome, *, colour: bool = False) -> Iterator[str]:
    """The whole run, line by line."""

    def styled(text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if colour and style else text

    yield styled(f"{outcome.document}: {outcome.title}", _BOLD)
    yield ""
    for paragraph in SCENARIOS[outcome.name].story.split("\n\n"):
        yield from textwrap.wrap(" ".join(paragraph.split()), _WIDTH)
    yield ""
    yield conditions(outcome)
    yield ""
    people = max(
        (len(f"{line.sender} -> {line.receiver}") for line in outcome.lines if line.receiver), default=0
    )
    for line in outcome.lines:
        for at, text in enumerate(_wrapped(line, people)):
            yield styled(text if at else f"{clock(line.time_ms):>11}  {text}", _STYLES.get(line.kind, ""))
        for verdict in line.verdicts:
            for text in textwrap.wrap(refusal(verdict), _WIDTH - 4, subsequent_indent="  "):
                yield styled(f"{_INDENT}  {text}", _REFUSED)
    yield ""
    yield styled(verdict_of(outcome), _GOOD if outcome.safe else _REFUSED)
    yield f"again: {command(outcome)}"


def clock(time_ms: int) -> str:
    return f"+{time_ms / 1000:.3f} s"


def conditions(outcome: Outcome) -> str:
    """Mode, level, and whether the protection is there."""
    with_or_without = "without" if outcome.without_rule else "with"
    return f"{outcome.mode} mode, level {outcome.level}, {with_or_without}: {outcome.protection}"


def refusal(verdict: Verdict) -> str:
    error = f" with {verdict.error}" if verdict.error else ""
    return f"x {verdict.rule} refuses{error}: given {verdict.given}, expected {verdict.expected}"


def verdict_of(outcome: Outcome) -> str:
    """How it ended, in a sentence."""
    if outcome.harm is None:
        how = "safe: nothing acknowledged is lost, and the cluster is whole again"
    else:
        how = f"harm, seen by the checker [{outcome.harm.checker}]: {outcome.harm.story}"
    return how if outcome.as_told else f"{how}\nNOT what the story says: expected {expectation(outcome)}"


def expectation(outcome: Outcome) -> str:
    return f"harm seen by [{outcome.expected}]" if outcome.expected else "no harm"


def command(outcome: Outcome) -> str:
    return f"epoka scenario run {outcome.name}{' --without-rule' if outcome.without_rule else ''}"


def said(line: Line) -> str:
    """What a line says, without its time, its people and its verdicts."""
    text = f"{line.name}  {line.text}" if line.kind == MESSAGE else line.text
    return f"{text} ({delay(line)})" if line.held else text


def delay(line: Line) -> str:
    if line.sent_ms < 0:
        return "held back since before"
    return f"held back for {(line.time_ms - line.sent_ms) / 1000:.3f} s"


def _wrapped(line: Line, people: int) -> list[str]:
    if line.kind == MESSAGE:
        text = f"{f'{line.sender} -> {line.receiver}'.ljust(people)}  {said(line)}"
    elif line.kind == VERDICT:
        text = f"{line.sender}, on its own:"
    else:
        text = f"{line.sender}: {line.text}" if line.sender else f"* {line.text}"
    gap = " " * (len(_INDENT) + 2)
    return textwrap.wrap(text, _WIDTH + 8, subsequent_indent=gap) or [text]

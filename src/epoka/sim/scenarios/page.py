"""An outcome as one page: the story, and a chart with senders as columns and time downwards.

The page is whole in itself: no script, no font and no picture from elsewhere. Its colours follow the reader's
choice of light or dark. Rows have the height that their text needs, so time is in order but not to scale.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape

import msgspec

from epoka.sim.scenarios.chart import CHANGE, FAULT, HARM, MESSAGE, NOTE, VERDICT, Line
from epoka.sim.scenarios.story import SCENARIOS, Outcome
from epoka.sim.scenarios.text import clock, command, conditions, delay, expectation, refusal

_LEFT = 92
"""Where the columns begin; times stand left of it."""
_WIDEST, _COLUMNS = 132, 640
"""A column at most, and all of them together."""
_TEXT = 560
_HEAD = 46
_LEADING = 17
_CHARACTERS = 76
"""How many fit into a line of the text on the right."""
_BOLD = 68

_STYLE = """
:root { color-scheme: light dark; --ground: #fbfbf9; --ink: #1c2430; --soft: #5d6876; --rule: #d5dae0;
  --lane: #b9c1cb; --message: #2a62b8; --held: #a4600a; --refused: #c22b2b; --wash: #fbe9e7; --change:
  #5d6876;
  --fault: #a4600a; --note: #14706a; --good: #1d7a3a; --band: #f1f3f5; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181e; --ink: #e4e8ee; --soft: #9aa6b4; --rule:
  #2c343f;
  --lane: #4a5563; --message: #7fb0ff; --held: #f0b25e; --refused: #ff7d73; --wash: #3a1f20; --change:
  #9aa6b4;
  --fault: #f0b25e; --note: #62cfc4; --good: #6fd08c; --band: #1a2028; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1340px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; line-height: 1.25; margin: 2px 0 14px; text-wrap: balance; }
.document { color: var(--soft); font-weight: 600; letter-spacing: .02em; }
.story { max-width: 76ch; margin: 0 0 18px; }
.facts { display: flex; flex-wrap: wrap; gap: 8px; padding: 0; margin: 0 0 20px; list-style: none; }
.facts li { border: 1px solid var(--rule); border-radius: 999px; padding: 2px 12px; font-size: 13px; }
.end { border-left: 4px solid var(--good); padding: 8px 14px; background: var(--band); margin: 0 0 22px; }
.end.harmed { border-color: var(--refused); background: var(--wash); }
.chart { overflow-x: auto; border: 1px solid var(--rule); border-radius: 10px; background: var(--ground); }
svg { display: block; }
svg text { font: 12.5px/1 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  fill: var(--ink); }
svg .time { fill: var(--soft); font-variant-numeric: tabular-nums; font-size: 11.5px; }
svg .who { font-weight: 650; font-size: 13px; }
svg .lane { stroke: var(--lane); stroke-width: 1.4; }
svg .dead { stroke-dasharray: 2 5; }
svg .band { fill: var(--band); }
svg .wash { fill: var(--wash); }
svg .arrow { stroke: var(--message); stroke-width: 1.8; fill: none; }
svg .tip { fill: var(--message); }
svg .held { stroke: var(--held); stroke-dasharray: 6 4; }
svg .tip.held { fill: var(--held); stroke: none; }
svg .refused { stroke: var(--refused); }
svg .tip.refused { fill: var(--refused); stroke: none; }
svg .label { font-weight: 600; font-size: 11.5px; paint-order: stroke; stroke: var(--ground); stroke-width:
  4px;
  stroke-linejoin: round; text-anchor: middle; }
svg .slow { fill: var(--held); }
svg text.refused { fill: var(--refused); stroke: none; font-weight: 600; }
svg text.held { fill: var(--held); stroke: none; }
svg .change { fill: var(--change); } svg .fault { fill: var(--fault); } svg .note { fill: var(--note); }
svg .harm { fill: var(--refused); font-weight: 700; }
svg .strike { stroke: var(--refused); stroke-width: 2.4; }
.legend { display: flex; flex-wrap: wrap; gap: 18px; color: var(--soft); font-size: 13px; margin: 12px 2px
  24px; }
.legend span::before { content: ""; display: inline-block; width: 22px; border-top: 2px solid
  var(--message);
  vertical-align: middle; margin-right: 7px; }
.legend .slow::before { border-top: 2px dashed var(--held); }
.legend .no::before { border-color: var(--refused); }
.legend .down::before { border-top: 2px dotted var(--lane); }
code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--band);
  border-radius: 5px; padding: 2px 7px; }
"""


class _Row(msgspec.Struct, frozen=True):
    line: Line
    top: int
    height: int
    texts: tuple[tuple[str, str], ...]
    """Style and words, one a line."""

    @property
    def middle(self) -> int:
        return self.top + self.height - 12


def page(outcome: Outcome) -> str:
    """The whole page."""
    story = "".join(
        f'<p class="story">{escape(" ".join(paragraph.split()))}</p>'
        for paragraph in SCENARIOS[outcome.name].story.split("\n\n")
    )
    facts = (
        f"{outcome.mode} mode",
        f"level {outcome.level}",
        f"{'without' if outcome.without_rule else 'with'} {outcome.protection}",
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(outcome.document)}: {escape(outcome.title)}</title><style>{_STYLE}</style></head>"
        f'<body><main><div class="document">{escape(outcome.document)}</div>'
        f"<h1>{escape(outcome.title)}</h1>{story}"
        f'<ul class="facts">{"".join(f"<li>{escape(fact)}</li>" for fact in facts)}</ul>'
        f"{_end(outcome)}"
        f'<div class="chart">{_chart(outcome)}</div>'
        '<div class="legend"><span>a message</span><span class="slow">held back by the schedule</span>'
        '<span class="no">refused by a rule</span><span class="down">not running</span></div>'
        f"<p>Again: <code>{escape(command(outcome))}</code></p>"
        "</main></body></html>\n"
    )


def picture(outcome: Outcome) -> str:
    """The chart alone, as an SVG file that brings its own colours."""
    ground = '<rect width="100%" height="100%" style="fill: var(--ground)"/>'
    head, _, rest = _chart(outcome).partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{_STYLE}</style>{ground}{rest}\n'


def _end(outcome: Outcome) -> str:
    if outcome.harm is None:
        words = "<strong>Safe.</strong> Nothing acknowledged is lost, and the cluster is whole again."
    else:
        words = (
            f"<strong>Harm</strong>, seen by the checker <em>{escape(outcome.harm.checker)}</em>: "
            f"{escape(outcome.harm.story)}."
        )
    if not outcome.as_told:
        words += f" That is not what the story says: it expects {escape(expectation(outcome))}."
    return f'<div class="end{"" if outcome.safe else " harmed"}">{words}</div>'


def _chart(outcome: Outcome) -> str:
    column = min(_WIDEST, _COLUMNS // max(1, len(outcome.columns)))
    columns = {name: _LEFT + column // 2 + at * column for at, name in enumerate(outcome.columns)}
    beside = _LEFT + len(columns) * column + 8
    rows = _rows(outcome.lines)
    height = (rows[-1].top + rows[-1].height if rows else _HEAD) + 18
    width = beside + _TEXT
    drawn = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(conditions(outcome), quote=True)}">'
    ]
    drawn += [_background(row, width) for row in rows]
    drawn += [_lane(name, x, rows, height) for name, x in columns.items()]
    drawn += [
        f'<text class="who" x="{x}" y="27" text-anchor="middle">{name}</text>' for name, x in columns.items()
    ]
    last = ""
    for row in rows:
        now = clock(row.line.time_ms)
        if now != last:
            drawn.append(
                f'<text class="time" x="{_LEFT - 10}" y="{row.middle + 4}" text-anchor="end">{now}</text>'
            )
        last = now
        drawn.append(_mark(row, rows, columns))
        drawn += [
            f'<text class="{style}" x="{beside}" y="{row.top + 16 + at * _LEADING}">{escape(words)}</text>'
            for at, (style, words) in enumerate(row.texts)
        ]
    return "".join(drawn) + "</svg>"


def _rows(lines: Sequence[Line]) -> list[_Row]:
    rows: list[_Row] = []
    top = _HEAD
    for line in lines:
        texts = [
            (_class(line), part) for part in _wrap(_words(line), _BOLD if line.kind == HARM else _CHARACTERS)
        ]
        for verdict in line.verdicts:
            texts += [("refused", part) for part in _wrap(refusal(verdict).removeprefix("x "), _BOLD)]
        height = max(len(texts) * _LEADING + 12, 40 if line.kind == MESSAGE else 30)
        rows.append(_Row(line, top, height, tuple(texts)))
        top += height
    return rows


def _wrap(text: str, characters: int = _CHARACTERS) -> list[str]:
    return textwrap.wrap(text, characters, break_on_hyphens=False)


def _words(line: Line) -> str:
    if line.kind == MESSAGE:
        return f"{line.name}: {line.text} ({delay(line)})" if line.held else f"{line.name}: {line.text}"
    if line.kind == VERDICT:
        return f"{line.sender}, on its own:"
    return f"{line.sender}: {line.text}" if line.sender and line.kind != CHANGE else line.text


def _class(line: Line) -> str:
    return {NOTE: "note", FAULT: "fault", CHANGE: "change", HARM: "harm"}.get(line.kind, "said")


def _background(row: _Row, width: int) -> str:
    if row.line.verdicts or row.line.kind == HARM:
        return f'<rect class="wash" x="0" y="{row.top}" width="{width}" height="{row.height}"/>'
    return ""


def _lane(name: str, x: int, rows: Sequence[_Row], height: int) -> str:
    """A life line: whole while the process runs, dotted while it does not."""
    drawn: list[str] = []
    start, running = _HEAD - 8, True
    for row in rows:
        line = row.line
        if line.sender != name or line.kind not in (FAULT, CHANGE):
            continue
        goes = line.text.startswith(("loses power", "stands still")) or (
            line.kind == CHANGE and ") ended: " in line.text
        )
        comes = line.text.startswith(("starts again", "goes on"))
        if (goes and running) or (comes and not running):
            drawn.append(_segment(x, start, row.middle, running))
            start, running = row.middle, comes
    return "".join(drawn) + _segment(x, start, height - 10, running)


def _segment(x: int, start: int, end: int, running: bool) -> str:
    return f'<line class="lane{"" if running else " dead"}" x1="{x}" x2="{x}" y1="{start}" y2="{end}"/>'


def _mark(row: _Row, rows: Sequence[_Row], columns: dict[str, int]) -> str:
    line = row.line
    if line.kind == MESSAGE:
        return _arrow(row, rows, columns)
    x = columns.get(line.sender)
    if x is None:
        return ""
    y = row.middle
    if line.kind == FAULT:
        return (
            f'<path class="strike" d="M{x - 6} {y - 6}L{x + 6} {y + 6}M{x + 6} {y - 6}L{x - 6} {y + 6}"/>'
            if line.text.startswith(("loses", "bounces", "is cut"))
            else f'<circle class="fault" cx="{x}" cy="{y}" r="5"/>'
        )
    if line.kind == VERDICT:
        return f'<circle class="tip refused" cx="{x}" cy="{y}" r="5"/>'
    return f'<circle class="{_class(line)}" cx="{x}" cy="{y}" r="3.5"/>'


def _arrow(row: _Row, rows: Sequence[_Row], columns: dict[str, int]) -> str:
    line = row.line
    start, end, y = columns[line.sender], columns[line.receiver], row.middle
    from_y = y
    if line.held:
        # It left where the chart was when it was sent.
        left = [other for other in rows if other.top < row.top and other.line.time_ms <= line.sent_ms]
        from_y = left[-1].middle if left else _HEAD
    style = " refused" if line.verdicts else " held" if line.held else ""
    dashed = " held" if line.held else ""
    way = 1 if end > start else -1
    tip = f"M{end} {y}l{-9 * way} -4.5v9z"
    name = line.name.rsplit(" v", 1)[0]
    cross = f'<path class="strike" d="M{end - 22 * way} {y - 6}l8 12m0 -12l-8 12"/>' if line.verdicts else ""
    # Of a long way the label stands near its beginning, where nothing else is.
    share = 0.18 if line.held else 0.5
    label_x, label_y = start + (end - start) * share, from_y + (y - from_y) * share - 6
    slow = " slow" if line.held else ""
    return (
        f"<g><title>{escape(f'{line.sender} to {line.receiver}: {line.name}')}</title>"
        f'<path class="arrow{dashed}{style}" d="M{start} {from_y}L{end - 7 * way} {y}"/>'
        f'<path class="tip{style}" d="{tip}"/>{cross}'
        f'<text class="label{slow}" x="{label_x:.0f}" y="{label_y:.0f}">{escape(name)}</text></g>'
    )

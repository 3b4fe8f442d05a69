"""One page that tells what happened, for somebody who was not there: no script, no font, no link, one file.

Drawn from the gold tables of one audit, one section a run: brokers' lives and partitions' leaders and ISR on
one time line, with the faults that were injected; then decisions by rule, how long failovers took, and
violations with their events. Every text that comes from a ledger is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from epoka.spark.storage import read_arrow

COLOURS = ("#2a6f97", "#c26a2d", "#4c8c4a", "#8a4f9e", "#b08a1e", "#3d8a8a", "#a23b53", "#6b6b6b")
WIDTH, LABEL, ROW = 1100, 170, 22
MOST_PARTITIONS = 40

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1120px; padding: 0 1rem;
  color: #1d2329; background: #fff; }
h1, h2, h3 { line-height: 1.2; } table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #d8dde2;
  vertical-align: top; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.good { color: #2e6b2c; } .bad { color: #a3243b; font-weight: 600; } .scroll { overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { color: #e4e7ea; background: #16191c; }
  th, td { border-color: #3a4148; } .good { color: #86c584; } .bad { color: #ef8797; } }
"""


def write_report(audit: Path, page: Path) -> Path:
    """The report of the audit in a folder."""
    gold = {
        name: read_arrow(audit / "gold" / name).to_pylist()
        for name in (
            "generations",
            "decisions",
            "leadership",
            "isr_intervals",
            "availability",
            "latencies",
            "faults",
            "unknown",
            "violations",
            "acknowledged",
        )
        if (audit / "gold" / name).is_dir()
    }
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(gold), encoding="utf-8")
    return page


def render(gold: dict[str, list[dict[str, Any]]]) -> str:
    runs = sorted({row["run"] for rows in gold.values() for row in rows})
    body = [_headline(gold)]
    for run in runs:
        body += _run(run, {name: [row for row in rows if row["run"] == run] for name, rows in gold.items()})
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>What the cluster did</title><style>{_STYLE}</style></head><body>"
        f"<h1>What the cluster did</h1>{''.join(body)}</body></html>\n"
    )


def _headline(gold: dict[str, list[dict[str, Any]]]) -> str:
    violations = gold["violations"]
    refused = sum(row["times"] for row in gold["decisions"] if row["verdict"] == "refused")
    slowest = max(
        (row["failover_ms"] for row in gold["latencies"] if row["failover_ms"] is not None), default=None
    )
    verdict = (
        '<span class="good">Every invariant held.</span>'
        if not violations
        else f'<span class="bad">{len(violations)} violations of what must never happen.</span>'
    )
    brokers = {(row["run"], row["broker"]) for row in gold["generations"]}
    told = [
        f"{len(gold['generations'])} lives of {len(brokers)} brokers",
        f"{len(gold['availability'])} partitions",
        f"{len(gold['faults'])} injected faults",
        f"{refused} refusals",
    ]
    if slowest is not None:
        told.append(f"slowest failover {slowest} ms")
    return f"<p>{verdict} {escape(', '.join(told))}.</p>"


def _run(run: str, gold: dict[str, list[dict[str, Any]]]) -> list[str]:
    first, last = _span(gold)
    scale = _Scale(first, last)
    parts = [f"<h2>{escape(run)}</h2>", f"<p>{(last - first) / 1000:,.1f} s of history.</p>"]
    parts.append(_violations(gold["violations"]))
    if gold.get("acknowledged"):
        parts.append("<h3>Records: what clients were told, and what is there</h3>")
        heads = ("topic", "acknowledged", "present", "lost", "duplicated", "reordered")
        parts.append(_table(heads, [[row[name] for name in heads] for row in gold["acknowledged"]]))
    parts.append("<h3>Brokers: every life, by generation</h3>")
    parts.append(_brokers(gold, scale))
    parts.append("<h3>Partitions: who led, and the ISR</h3>")
    parts.append(_partitions(gold, scale))
    parts.append("<h3>Failovers</h3>")
    parts.append(_latencies(gold["latencies"], scale))
    parts.append("<h3>Decisions by rule</h3>")
    rows = sorted(gold["decisions"], key=lambda row: (row["verdict"] != "refused", row["rule"], row["kind"]))
    parts.append(
        _table(
            ("rule", "what", "verdict", "code", "times"),
            [
                (row["rule"], row["kind"], row["verdict"] or "applied", row["error"], row["times"])
                for row in rows
            ],
        )
    )
    if gold["unknown"]:
        parts.append("<h3>Entries that this version does not know</h3>")
        rows = gold["unknown"]
        parts.append(_table(("kind", "times"), [(row["kind"], row["times"]) for row in rows]))
    return parts


class _Scale:
    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.width = max(last - first, 1)

    def x(self, time_ms: int) -> float:
        return LABEL + (time_ms - self.first) / self.width * (WIDTH - LABEL - 10)

    def seconds(self, time_ms: int | None) -> str:
        return "" if time_ms is None else f"{(time_ms - self.first) / 1000:+.3f} s"


def _span(gold: dict[str, list[dict[str, Any]]]) -> tuple[int, int]:
    times = [row["from_ms"] for row in gold["isr_intervals"]] + [
        row["until_ms"] for row in gold["isr_intervals"]
    ]
    for row in gold["generations"]:
        times += [
            row[name] for name in ("registered_ms", "fenced_ms", "replaced_ms") if row[name] is not None
        ]
    times += [row["time_ms"] for row in gold["faults"]]
    return (min(times), max(times)) if times else (0, 1)


def _violations(violations: list[dict[str, Any]]) -> str:
    if not violations:
        return '<p class="good">Every invariant held.</p>'
    rows = [
        (
            row["invariant"],
            f"{row['topic']}-{row['partition']}" if row["topic"] else f"broker {row['broker']}",
            row["given"],
            row["expected"],
            ", ".join(map(str, row["events"])),
        )
        for row in violations
    ]
    return '<h3 class="bad">Violations</h3>' + _table(
        ("invariant", "where", "given", "expected", "events"), rows
    )


def _brokers(gold: dict[str, list[dict[str, Any]]], scale: _Scale) -> str:
    end = scale.first + scale.width
    lanes = sorted({row["broker"] for row in gold["generations"]})
    chart = _Chart(len(lanes), scale)
    for lane, broker in enumerate(lanes):
        chart.label(lane, f"broker {broker}")
        for row in sorted(gold["generations"], key=lambda each: each["registered_ms"]):
            if row["broker"] != broker:
                continue
            until = row["replaced_ms"] or end
            fenced = row["fenced_ms"] if row["fenced_ms"] is not None else until
            title = f"generation {row['generation']}: {row['began']}; {row['ended']}"
            chart.bar(lane, row["registered_ms"], min(fenced, until), COLOURS[lane % len(COLOURS)], title)
            if fenced < until:
                chart.bar(
                    lane, fenced, until, "#9aa3ab", f"generation {row['generation']}: fenced", thin=True
                )
    chart.faults(gold["faults"])
    return chart.drawn()


def _partitions(gold: dict[str, list[dict[str, Any]]], scale: _Scale) -> str:
    found = sorted({(row["topic"], row["partition"]) for row in gold["isr_intervals"]})
    shown = sorted(found, key=lambda key: (key[0].startswith("__"), key))[:MOST_PARTITIONS]
    chart = _Chart(len(shown), scale)
    colours = {
        broker: COLOURS[at % len(COLOURS)]
        for at, broker in enumerate(sorted({row["broker"] for row in gold["generations"]}))
    }
    most = dict.fromkeys(shown, 0)
    for row in gold["isr_intervals"]:
        key = (row["topic"], row["partition"])
        if key in most:
            most[key] = max(most[key], row["size"])
    for lane, key in enumerate(shown):
        chart.label(lane, f"{key[0]}-{key[1]}")
        for row in gold["isr_intervals"]:
            if (row["topic"], row["partition"]) == key:
                title = f"leader {row['leader']}, ISR {row['isr']}: {row['detail'] or row['rule']}"
                colour = colours.get(row["leader"], "#16191c")
                short = row["size"] < most[key]
                chart.bar(lane, row["from_ms"], row["until_ms"], colour, title, thin=short)
    chart.faults(gold["faults"])
    note = "Colour: the leader. A thin bar: replicas are missing from the ISR. Black: no leader."
    if len(found) > len(shown):
        note += f" {len(found) - len(shown)} more partitions are not drawn."
    return chart.drawn() + f"<p>{note}</p>"


def _latencies(latencies: list[dict[str, Any]], scale: _Scale) -> str:
    rows = [
        (
            row["broker"],
            row["fault"] or "",
            scale.seconds(row["fault_ms"]),
            scale.seconds(row["last_heard_ms"]),
            scale.seconds(row["noticed_ms"]),
            row["rule"],
            scale.seconds(row["shrunk_ms"]),
            scale.seconds(row["elected_ms"]),
            "" if row["failover_ms"] is None else row["failover_ms"],
        )
        for row in sorted(latencies, key=lambda each: each["noticed_ms"])
    ]
    heads = (
        "broker",
        "fault",
        "at",
        "last heard",
        "noticed",
        "by",
        "ISR shrunk",
        "new leader",
        "failover, ms",
    )
    return _table(heads, rows) if rows else "<p>No broker was lost.</p>"


class _Chart:
    """Bars in lanes along one time line."""

    def __init__(self, lanes: int, scale: _Scale) -> None:
        self._scale = scale
        self._height = lanes * ROW + 24
        self._parts: list[str] = []

    def label(self, lane: int, text: str) -> None:
        self._parts.append(f'<text x="0" y="{lane * ROW + 15}">{escape(text[:24])}</text>')

    def bar(self, lane: int, first: int, last: int, colour: str, title: str, *, thin: bool = False) -> None:
        left, right = self._scale.x(first), self._scale.x(last)
        top, height = (lane * ROW + 9, 5) if thin else (lane * ROW + 3, 16)
        self._parts.append(
            f'<rect x="{left:.1f}" y="{top}" width="{max(right - left, 1.5):.1f}" height="{height}" '
            f'fill="{colour}"><title>{escape(title)}</title></rect>'
        )

    def faults(self, faults: Iterable[dict[str, Any]]) -> None:
        bottom = self._height - 20
        for row in faults:
            x = self._scale.x(row["time_ms"])
            title = escape(f"{row['detail'] or row['fault']}")
            self._parts.append(
                f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}" stroke="#d0273f" stroke-width="2" '
                f'stroke-dasharray="4 3"><title>{title}</title></line>'
                f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{escape(row["fault"])}</text>'
            )

    def drawn(self) -> str:
        return (
            f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {self._height}" role="img">'
            f"{''.join(self._parts)}</svg></div>"
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _cell(value: object) -> str:
    kind = ' class="n"' if isinstance(value, int) else ""
    return f"<td{kind}>{escape(str(value))}</td>"

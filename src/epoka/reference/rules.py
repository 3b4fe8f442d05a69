"""`docs/rules.md`: the table of `fencing/`, with the document and the story of each rule."""

from __future__ import annotations

import inspect
import re

from epoka.fencing import RULES, Rule
from epoka.reference.markdown import code, page, table
from epoka.sim.mutants import MUTANTS
from epoka.sim.scenarios import SCENARIOS

DOCUMENTS = {
    "KIP-380": "kip-380.md",
    "KIP-343": "kip-343.md",
    "the cache KIP": "update-metadata-cache.md",
    "KIP-841": "kip-841.md",
    "KIP-903": "kip-903.md",
}
"""What the code calls a document, and its page."""

_HEAD = """\
# Rules

Each rule is one function in `src/epoka/fencing`, with one name. Whoever asks it gets a verdict: accepted, or
refused with what was given and what was expected. Refusals go to the ledger
([command-line.md](command-line.md#the-ledger-and-why)) under the name in the first column.

The ledger has a few names more, for what is refused beside these rules: `control.listener` (a control
request to the controller past its control listener), `control.leader-epoch` (LeaderAndIsr with a leader epoch
below the replica's), `isr.partition` and `isr.valid` (a proposal for no partition, or of no possible ISR),
`metadata.offset` (a reader of another metadata log) and `registration.valid` (a registration that cannot be
right). IsrChange compares leader and leader epoch at once, as `isr.leader`, and answers
`NOT_LEADER_OR_FOLLOWER`.

A *generation* is the number of one life of a broker (*broker epoch* on the wire). -1 stands for a sender
whose version has no such field. In the simulator, and nowhere else, each rule can be switched off by its
name; the last column has the stories that show what happens then. Which rule a random schedule notices, and
how soon, is in [track-record.md](track-record.md#rules-taken-away).

This page is written from the code by `python -m epoka.reference`.
"""


def written() -> str:
    rows = [
        (
            code(rule.name),
            rule.asked_by,
            rule.refuses_when,
            _answer(rule.answer),
            _document(rule),
            _stories(rule),
        )
        for rule in RULES.values()
    ]
    return page(
        _HEAD,
        table(("rule", "asked by", "refuses when", "answer", "from", "story"), rows),
        "## Remarks",
        [
            f"- {code(rule.name)} ({_where(rule)}): {_remark(rule)}"
            for rule in RULES.values()
            if _remark(rule)
        ],
    )


def _answer(text: str) -> str:
    return re.sub(r"\b[A-Z]+(?:_[A-Z]+)+\b", lambda found: code(found[0]), text) or "none: it never refuses"


def _document(rule: Rule) -> str:
    known = MUTANTS[rule.name].document if rule.name in MUTANTS else ""
    for name, where in DOCUMENTS.items():
        if known.startswith(name):
            return f"[{name}]({where})"
    found = re.match(r"(KAFKA|KIP)-\d+", known)
    return found[0] if found else ""


def _stories(rule: Rule) -> str:
    return ", ".join(
        f"[{each.name}](scenarios.md#{each.name})" for each in SCENARIOS.values() if rule.name in each.rules
    )


def _where(rule: Rule) -> str:
    module = rule.function.__module__.rpartition(".")[2]
    return f"{code(f'fencing/{module}.py')}, {code(rule.function.__name__)}"


def _remark(rule: Rule) -> str:
    return " ".join((inspect.getdoc(rule.function) or "").split())

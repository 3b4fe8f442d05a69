"""What a fencing rule answers, the table of all rules, and the switch that only the simulator turns.

A verdict is a value. Nothing here compares anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, ParamSpec

import msgspec

from epoka.wire.error_codes import ErrorCode

P = ParamSpec("P")


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one rule: accepted, or refused with what was given and what was expected."""

    rule: str
    accepted: bool = True
    error: ErrorCode = ErrorCode.NONE
    given: str = ""
    expected: str = ""
    reason: str = ""

    @property
    def refused(self) -> bool:
        return not self.accepted


class Rule(msgspec.Struct, frozen=True):
    """A row of the table that the documentation prints."""

    name: str
    function: Callable[..., Verdict]
    asked_by: str
    refuses_when: str
    answer: str


RULES: Final[dict[str, Rule]] = {}
_NAMES: Final[dict[Callable[..., Verdict], str]] = {}


def rule(
    name: str, *, asked_by: str, refuses_when: str, answer: str
) -> Callable[[Callable[P, Verdict]], Callable[P, Verdict]]:
    """Enter a function into the table of rules."""

    def enter(function: Callable[P, Verdict]) -> Callable[P, Verdict]:
        if name in RULES:
            raise ValueError(f"there are two rules named {name}")
        RULES[name] = Rule(name, function, asked_by, refuses_when, answer)
        _NAMES[function] = name
        return function

    return enter


class Rules(msgspec.Struct, frozen=True):
    """How a core asks a rule. The simulator switches rules off by name; nobody else does."""

    off: frozenset[str] = frozenset()

    def ask(self, function: Callable[P, Verdict], *args: P.args, **kwargs: P.kwargs) -> Verdict:
        """The verdict of the rule, or acceptance when the rule is switched off."""
        if self.off and _NAMES[function] in self.off:
            return Verdict(_NAMES[function], reason="the rule is switched off")
        return function(*args, **kwargs)

    @classmethod
    def without(cls, *names: str) -> Rules:
        unknown = sorted(set(names) - set(RULES))
        if unknown:
            raise ValueError(f"there is no fencing rule named {', '.join(unknown)}")
        return cls(frozenset(names))


ALL_RULES: Final = Rules()


@cache
def accept(name: str) -> Verdict:
    """The acceptance by a rule: always the same value, asked for with nearly every request."""
    return Verdict(name)


def refuse(name: str, error: ErrorCode, *, given: object, expected: object, reason: str) -> Verdict:
    return Verdict(name, False, error, str(given), str(expected), reason)

"""Which rules can be taken away in which mode.

Most rules are asked in both modes. Those in `OF_ONE_MODE` are not: whoever takes one away in the other mode
has taken nothing away, and would read that nothing was violated as an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from epoka.cli.output import usage
from epoka.fencing import RULES
from epoka.sim.mutants import MUTANTS

OF_ONE_MODE: Final = frozenset(
    {
        # Control requests, the registry and ControlledShutdown are ZooKeeper's.
        "control.generation",
        "control.max-generation",
        "control.controller",
        "control.connection",
        "max-of-living",
        "registry.bounce",
        "reply.generation",
        "shutdown.generation",
        "start-before-failure",
        "two-reads",
        # Registrations by request and the stored metadata log are log mode's.
        "acts-before-own-registration",
        "bounce-keeps-isr",
        "one-generation",
        "registration.cluster",
        "registration.incarnation",
        "registration-by-disk-alone",
        "unflushed-metadata",
    }
)
"""Each belongs to the mode that `MUTANTS` has for it."""


def unknown(names: Sequence[str]) -> str | None:
    """The first name that is no rule's."""
    return next((name for name in names if name not in RULES and name not in MUTANTS), None)


def misplaced(names: Sequence[str], mode: str) -> tuple[str, str] | None:
    """The first rule that nothing asks in that mode, and the mode that it belongs to."""
    for name in names:
        for part in MUTANTS[name].parts or (name,):
            if part in OF_ONE_MODE and MUTANTS[part].mode != mode:
                return name, MUTANTS[part].mode
    return None


def refuse(name: str, its_mode: str, mode: str) -> NoReturn:
    usage(f"{name} is a rule of {its_mode} mode, nothing asks it in {mode} mode: give --mode {its_mode}")

"""The one exception of the cores: our own bug.

A refusal is a value and a peer's fault is a wire error; this is neither. The process that meets it stops.
"""

from __future__ import annotations


class InvariantBroken(Exception):
    """Something that can't happen has happened. Carries the story of how it got there."""

    def __init__(self, what: str, *story: str) -> None:
        super().__init__("\n  ".join((what, *story)))
        self.what = what
        self.story = story

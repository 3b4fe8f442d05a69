"""Error messages as answers can carry them.

A message may repeat what a peer sent, and that may be as long as a string on the wire can be: with a word of
ours around it, it would not fit any more.
"""

from __future__ import annotations

from typing import Final

MOST_CHARACTERS: Final = 1_000


def fitting(message: str | None) -> str | None:
    if message is None or len(message) <= MOST_CHARACTERS:
        return message
    return f"{message[:MOST_CHARACTERS]}..."

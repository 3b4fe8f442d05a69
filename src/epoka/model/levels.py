"""The feature ladder: which of the fencing documents a cluster lives by.

A level includes everything below it. Decides which levels exist and how they are named, never when a
cluster climbs: that is the controller's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

FEATURE_NAME: Final = "epoka.level"
"""The feature that registrations, ApiVersions, UpdateFeatures and FeatureLevelRecord speak of."""


class FeatureLevel(IntEnum):
    """A rung of the ladder; written with dashes wherever people read or type it."""

    LEGACY = 0
    GENERATIONS = 1
    HEARTBEATS = 2
    SHARED_UPDATES = 3
    ELIGIBLE_ISR = 4
    FETCH_EPOCHS = 5

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")

    @classmethod
    def parse(cls, text: str) -> FeatureLevel:
        """The level of that name or number; ValueError names the thing and the choices."""
        wanted = text.strip().lower().replace("_", "-")
        for level in cls:
            if wanted in (level.label, str(int(level))):
                return level
        choices = ", ".join(level.label for level in cls)
        raise ValueError(f"there is no feature level {text!r}; choose one of {choices}")

    def __str__(self) -> str:
        return self.label


LOWEST_IN_LOG_MODE: Final = FeatureLevel.HEARTBEATS
HIGHEST: Final = FeatureLevel.FETCH_EPOCHS

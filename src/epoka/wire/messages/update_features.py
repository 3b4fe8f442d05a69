# Generated from schemas/update_features.msg by epoka.wire.generate; do not edit.

"""UpdateFeatures: raise or lower the finalized level of cluster features."""

from typing import ClassVar

import msgspec

__all__ = [
    "FeatureUpdateKey",
    "UpdatableFeatureResult",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]


class FeatureUpdateKey(msgspec.Struct, frozen=True, gc=False):
    feature: str = ""
    # below 1 deletes the feature
    max_version_level: int = 0
    allow_downgrade: bool = False
    # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade
    upgrade_type: int = 1


class UpdateFeaturesRequest(msgspec.Struct, frozen=True, gc=False):
    """UpdateFeaturesRequest, versions 0 to 1, flexible from 0."""

    API_KEY: ClassVar[int] = 57
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "UpdateFeaturesRequest"

    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: bool = False


class UpdatableFeatureResult(msgspec.Struct, frozen=True, gc=False):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = None


class UpdateFeaturesResponse(msgspec.Struct, frozen=True, gc=False):
    """UpdateFeaturesResponse, versions 0 to 1, flexible from 0."""

    API_KEY: ClassVar[int] = 57
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "UpdateFeaturesResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: tuple[UpdatableFeatureResult, ...] = ()

"""ApiVersions: what is served, with the floors that old clients look for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Request
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.wire.messages import api_versions as wire

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.ApiVersionsRequest
VERSIONS = (0, 4)
ALWAYS = True


def handle(core: BrokerCore, request: Request, now: int) -> wire.ApiVersionsResponse:
    return wire.ApiVersionsResponse(
        api_keys=tuple(
            wire.ApiVersion(
                api_key=handler.key, min_version=handler.advertised_from, max_version=handler.versions[1]
            )
            for handler in sorted(core.handlers.values(), key=lambda handler: handler.key)
            if request.peer.control or not handler.control
        ),
        supported_features=(
            wire.SupportedFeatureKey(
                name=FEATURE_NAME, min_version=int(min(FeatureLevel)), max_version=int(max(FeatureLevel))
            ),
        ),
        finalized_features_epoch=core.image.offset,
        finalized_features=(
            wire.FinalizedFeatureKey(
                name=FEATURE_NAME,
                max_version_level=int(core.image.level),
                min_version_level=int(core.image.level),
            ),
        ),
    )

# Generated from schemas/broker_registration.msg by epoka.wire.generate; do not edit.

"""BrokerRegistration: a new life of a broker makes itself known; the answer carries its broker epoch."""

from typing import ClassVar
from uuid import UUID

import msgspec

from epoka.wire.notation import ZERO_UUID

__all__ = [
    "BrokerListener",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "SupportedFeature",
]


class BrokerListener(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


class SupportedFeature(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


class BrokerRegistrationRequest(msgspec.Struct, frozen=True, gc=False):
    """BrokerRegistrationRequest, versions 0 to 4, flexible from 0."""

    API_KEY: ClassVar[int] = 62
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "BrokerRegistrationRequest"

    broker_id: int = 0
    cluster_id: str = ""
    # random, made when the process starts
    incarnation_id: UUID = ZERO_UUID
    listeners: tuple[BrokerListener, ...] = ()
    features: tuple[SupportedFeature, ...] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[UUID, ...] = ()
    # known after a clean shutdown only
    previous_broker_epoch: int = -1
    # Epoka's own: the last one that its log directories have seen
    last_broker_epoch: int = -1


class BrokerRegistrationResponse(msgspec.Struct, frozen=True, gc=False):
    """BrokerRegistrationResponse, versions 0 to 4, flexible from 0."""

    API_KEY: ClassVar[int] = 62
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 0
    NAME: ClassVar[str] = "BrokerRegistrationResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1

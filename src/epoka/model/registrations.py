"""What the cluster knows of one broker's life. Values only."""

from __future__ import annotations

from uuid import UUID

import msgspec

from epoka.model.ids import BrokerEpoch, BrokerId

CONTROL_LISTENER = "CONTROL"
"""The name of the endpoint on which brokers and controllers, and nobody else, talk to each other."""

WITHOUT_HEARTBEATS = 4
WITH_HEARTBEATS = 5
"""Versions of a registration in zookeeper mode. A broker that sends heartbeats is inactive until one of them
asks for more (KIP-343); an older one is always active."""


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    name: str
    host: str
    port: int
    security_protocol: int = 0


class Feature(msgspec.Struct, frozen=True, gc=False):
    name: str
    min_supported_version: int
    max_supported_version: int


class BrokerRegistration(msgspec.Struct, frozen=True, gc=False):
    """One life of a broker, as the metadata log tells it."""

    id: BrokerId
    epoch: BrokerEpoch
    incarnation: UUID
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()

    @property
    def active(self) -> bool:
        """May lead and be in an ISR: neither fenced nor stopping (KIP-841)."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint(self, name: str) -> Endpoint | None:
        for each in self.endpoints:
            if each.name == name:
                return each
        return None

    @property
    def control_endpoint(self) -> Endpoint | None:
        """Where other brokers reach this one."""
        return self.endpoint(CONTROL_LISTENER)

    @property
    def client_endpoints(self) -> tuple[Endpoint, ...]:
        """What clients are told; the control listener is never shown to them."""
        return tuple(each for each in self.endpoints if each.name != CONTROL_LISTENER)

    def feature(self, name: str) -> Feature | None:
        return next((each for each in self.features if each.name == name), None)

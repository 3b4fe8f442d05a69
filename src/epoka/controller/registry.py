"""What a picture of the registry means: new brokers, dead ones and bounced ones, as KIP-380 lists them.

A bounce is the end of one life and the beginning of another, in this order, also when the controller never
saw the moment between them. Below level `generations` a bounce can't be seen: only ids are compared. A life
without heartbeats is active as long as it is registered; one with them begins inactive (KIP-343). Nothing
here changes anything: every function returns what is to be decided.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from epoka import fencing
from epoka.controller.decision import Decision
from epoka.controller.elections import lead_again, leave_all
from epoka.controller.state import ControllerState
from epoka.model.events import RegistryChanged, RegistryEntry
from epoka.model.ids import BrokerEpoch, BrokerId
from epoka.model.image import register_broker_record
from epoka.model.levels import FeatureLevel
from epoka.model.registrations import WITH_HEARTBEATS, BrokerRegistration
from epoka.wire.messages.metadata_records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord


class Changes(msgspec.Struct, frozen=True):
    new: tuple[RegistryEntry, ...] = ()
    dead: tuple[BrokerRegistration, ...] = ()
    bounced: tuple[RegistryEntry, ...] = ()
    living: tuple[RegistryEntry, ...] = ()
    """The same life as before; what it says of itself may be new."""


def compare(state: ControllerState, picture: RegistryChanged) -> Changes:
    known = state.image.brokers
    seen = {entry.id: entry for entry in sorted(picture.registrations, key=lambda entry: entry.id)}
    new, bounced, living = [], [], []
    for entry in seen.values():
        broker = known.get(BrokerId(entry.id))
        if broker is None:
            new.append(entry)
        elif is_bounce(state, broker, entry.epoch):
            bounced.append(entry)
        elif entry.epoch == broker.epoch:
            living.append(entry)
    dead = [
        broker
        for broker in known.values()
        # A life that is younger than the picture, told of by a heartbeat, is not dead but not in it yet.
        if broker.id not in seen and not 0 <= picture.position < broker.epoch
    ]
    return Changes(tuple(new), tuple(dead), tuple(bounced), tuple(living))


def is_bounce(state: ControllerState, broker: BrokerRegistration, epoch: int) -> bool:
    if state.image.level < FeatureLevel.GENERATIONS:
        return False
    return fencing.registry.is_bounce(state.rules.ask(fencing.registry.bounce, broker.epoch, epoch))


def beats(entry: RegistryEntry) -> bool:
    return entry.version >= WITH_HEARTBEATS


def end(state: ControllerState, broker: BrokerRegistration, because: str) -> Decision:
    """Failure handling: the life is over, and with it every leadership and every place in an ISR."""
    records = [
        *leave_all(state, broker.id),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]
    return Decision(None, records, rule="registry.bounce", because=because)


def begin(state: ControllerState, entry: RegistryEntry, because: str, *, takeover: bool = False) -> Decision:
    """A new life is known from here on."""
    fenced = beats(entry) and not (takeover and counts_as_active(state, entry.id))
    return Decision(
        None,
        [register_broker_record(registration(entry, fenced=fenced))],
        rule="registry.bounce",
        because=because,
    )


def start_up(state: ControllerState, broker_id: int) -> Decision:
    """Start-up handling: what has no leader and waited for this broker gets one. An inactive one waits."""
    broker = state.image.broker(broker_id)
    records = [] if broker is None or broker.fenced else lead_again(state, broker_id)
    return Decision(None, records, rule="leader.eligible", because="a broker came back")


def strangers(state: ControllerState) -> list[int]:
    """Brokers that lead or are in an ISR and that nobody knows: they ended while there was no controller."""
    partitions = state.image.partitions
    hosts = sorted(partitions.places_by_host(partitions.rows()))
    return [each for each in hosts if state.image.broker(each) is None and counts_as_active(state, each)]


def left(state: ControllerState, broker_id: int, because: str) -> Decision:
    """Failure handling for a life that this controller does not know, or knows no more."""
    return Decision(None, leave_all(state, broker_id), rule="registry.bounce", because=because)


def counts_as_active(state: ControllerState, broker_id: int) -> bool:
    """Whether the controller before this one counted on the broker: whether anybody is active is not stored,
    but who leads or is in an ISR is."""
    partitions = state.image.partitions
    return bool(len(partitions.rows_led_by(broker_id)) or len(partitions.rows_with_isr_member(broker_id)))


def refresh(state: ControllerState, entry: RegistryEntry, *, takeover: bool = False) -> Decision:
    """The same life says something new of itself: addresses, features, or that it sends heartbeats now."""
    known = state.image.broker(entry.id)
    assert known is not None
    if takeover and known.fenced and (not beats(entry) or counts_as_active(state, entry.id)):
        change = BrokerRegistrationChangeRecord(broker_id=known.id, broker_epoch=known.epoch, fenced=-1)
        return Decision(None, [change], rule="heartbeat.generation", because="active before the takeover")
    now = msgspec.structs.replace(
        registration(entry, fenced=known.fenced),
        incarnation=known.incarnation,
        in_controlled_shutdown=known.in_controlled_shutdown,
        log_dirs=known.log_dirs,
    )
    records = [] if now == known else [register_broker_record(now)]
    return Decision(None, records, rule="registry.bounce", because="the same life said more of itself")


def registration(entry: RegistryEntry, *, fenced: bool) -> BrokerRegistration:
    return BrokerRegistration(
        BrokerId(entry.id),
        BrokerEpoch(entry.epoch),
        # In this mode the generation is what tells one life from another.
        UUID(int=entry.epoch),
        entry.endpoints,
        entry.features,
        entry.rack,
        fenced=fenced,
    )

"""A broker's new life begins: BrokerRegistration, and its end: UnregisterBroker.

The checks come in Kafka's order: cluster, incarnation, log directories, features. A life that is already
known keeps its generation and its state. A new life gets the offset of its registration record as
generation, is fenced, is no longer stopping, and leaves every ISR it can leave; what it led gets a new
leader epoch. All of that is one atomic batch with the registration record last.
"""

from __future__ import annotations

from epoka import fencing
from epoka.controller.decision import Decision, refusal
from epoka.controller.elections import leave_all
from epoka.controller.state import ControllerState
from epoka.fencing import Verdict
from epoka.model.ids import BrokerEpoch, BrokerId
from epoka.model.image import register_broker_record
from epoka.model.levels import FEATURE_NAME
from epoka.model.registrations import BrokerRegistration, Endpoint, Feature
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from epoka.wire.messages.metadata_records import UnregisterBrokerRecord
from epoka.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_RESERVED_LOG_DIRS = 100
"""Directory ids below this have a meaning of their own (lost, unassigned) and name no directory."""


def on_broker_registration(state: ControllerState, request: BrokerRegistrationRequest, now: int) -> Decision:
    for verdict in (
        state.rules.ask(fencing.registration.cluster, request.cluster_id, state.cluster_id),
        _generation(state, request),
        _incarnation(state, request, now),
        _broker_id(request),
        _log_dirs(state, request),
        _features(state, request),
    ):
        if verdict.refused:
            return Decision(
                BrokerRegistrationResponse(error_code=verdict.error),
                events=[
                    refusal(verdict, broker=request.broker_id, broker_epoch=request.previous_broker_epoch)
                ],
            )
    known = state.image.broker(request.broker_id)
    if known and known.incarnation == request.incarnation_id:
        again = _registration(request, known.epoch, known.fenced, known.in_controlled_shutdown)
        records = [] if again == known else [register_broker_record(again)]
        return Decision(
            BrokerRegistrationResponse(broker_epoch=known.epoch),
            records,
            rule="registration.incarnation",
            because="the same life registered again",
        )
    # One that was unregistered may have been taken into an ISR since, below `eligible-isr`.
    changes = leave_all(state, request.broker_id)
    epoch = BrokerEpoch(state.next_offset + len(changes))
    new = _registration(request, epoch, fenced=True, in_controlled_shutdown=False)
    because = "a new broker"
    if known:
        clean = request.previous_broker_epoch == known.epoch
        because = f"after {'a clean' if clean else 'an unclean'} end of generation {known.epoch}"
    return Decision(
        BrokerRegistrationResponse(broker_epoch=epoch),
        [*changes, register_broker_record(new)],
        rule="registry.bounce" if known else "registration.incarnation",
        because=because,
    )


def _incarnation(state: ControllerState, request: BrokerRegistrationRequest, now: int) -> Verdict:
    known = state.image.broker(request.broker_id)
    return state.rules.ask(
        fencing.registration.incarnation,
        request.incarnation_id,
        known.incarnation if known else None,
        session_valid=state.session_valid(request.broker_id, now),
        has_its_disk=known is not None
        and known.log_dirs == tuple(request.log_dirs)
        and known.epoch == request.last_broker_epoch,
    )


def _generation(state: ControllerState, request: BrokerRegistrationRequest) -> Verdict:
    """Generations are offsets of this log: a disk with a later one has lived by another, and would take its
    topics for deleted. Refused before it is registered, because registrations make the log longer."""
    known = state.registered_epoch(request.broker_id)
    highest = state.image.offset if known is None else known
    if request.last_broker_epoch <= highest:
        return Verdict("registration.valid")
    return _invalid(
        f"generation {request.last_broker_epoch}", f"{highest} or less", "the disk has lived by another log"
    )


def _broker_id(request: BrokerRegistrationRequest) -> Verdict:
    if request.broker_id < 0:
        return _invalid(f"broker id {request.broker_id}", "an id of 0 or more", "the broker id is negative")
    if request.is_migrating_zk_broker:
        return Verdict(
            "registration.valid",
            False,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "a migrating broker",
            "a broker of this mode",
            "brokers do not migrate from ZooKeeper into a cluster in log mode",
        )
    return Verdict("registration.valid")


def _log_dirs(state: ControllerState, request: BrokerRegistrationRequest) -> Verdict:
    log_dirs = request.log_dirs
    if not log_dirs:
        return _invalid("no log directory", "one or more", "the broker names no log directory")
    if len(set(log_dirs)) != len(log_dirs):
        return _invalid("a log directory twice", "each once", "the broker names a log directory twice")
    for log_dir in log_dirs:
        if log_dir.int < _RESERVED_LOG_DIRS:
            return _invalid(str(log_dir), "a random id", "the log directory id is a reserved one")
    for broker in state.image.brokers.values():
        if broker.id != request.broker_id:
            for log_dir in log_dirs:
                if log_dir in broker.log_dirs:
                    return _invalid(
                        str(log_dir),
                        "a directory of its own",
                        f"the log directory belongs to broker {broker.id}",
                    )
    return Verdict("registration.valid")


def _features(state: ControllerState, request: BrokerRegistrationRequest) -> Verdict:
    level = state.image.level
    for feature in request.features:
        if feature.name == FEATURE_NAME:
            if feature.min_supported_version <= level <= feature.max_supported_version:
                return Verdict("registration.valid")
            return Verdict(
                "registration.valid",
                False,
                ErrorCode.UNSUPPORTED_VERSION,
                f"levels {feature.min_supported_version} to {feature.max_supported_version}",
                f"level {int(level)}, {level}",
                "the broker does not know the level the cluster is on",
            )
    return _invalid(
        f"no feature {FEATURE_NAME}", f"level {int(level)}, {level}", "the broker names no levels"
    )


def _invalid(given: str, expected: str, reason: str) -> Verdict:
    return Verdict("registration.valid", False, ErrorCode.INVALID_REGISTRATION, given, expected, reason)


def _registration(
    request: BrokerRegistrationRequest, epoch: BrokerEpoch, fenced: bool, in_controlled_shutdown: bool
) -> BrokerRegistration:
    return BrokerRegistration(
        BrokerId(request.broker_id),
        epoch,
        request.incarnation_id,
        tuple(
            Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        ),
        tuple(
            Feature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ),
        request.rack,
        fenced,
        in_controlled_shutdown,
        tuple(request.log_dirs),
    )


def on_unregister_broker(state: ControllerState, request: UnregisterBrokerRequest) -> Decision:
    broker = state.image.broker(request.broker_id)
    if broker is None:
        return Decision(
            UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"broker {request.broker_id} is not registered",
            )
        )
    records = [
        *leave_all(state, broker.id),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]
    return Decision(UnregisterBrokerResponse(), records, rule="registry.bounce", because="unregistered")

"""The cluster climbs the feature ladder: UpdateFeatures.

One rung at a time, never down, and only when every registered broker knows the next rung. A climb to
`eligible-isr` also cleans up: from then on no fenced or stopping broker may be in an ISR, so those that an
earlier level let in leave with the same batch.
"""

from __future__ import annotations

from epoka.controller.decision import Decision
from epoka.controller.partition_change import change
from epoka.controller.state import ControllerState
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.model.records import MetadataRecord
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.metadata_records import BrokerRegistrationChangeRecord, FeatureLevelRecord
from epoka.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from epoka.wire.texts import fitting


def on_update_features(state: ControllerState, request: UpdateFeaturesRequest) -> Decision:
    """All updates or none, as there is only one feature."""
    records: list[MetadataRecord] = []
    results = []
    failed: tuple[ErrorCode, str] | None = None
    for update in request.feature_updates:
        problem = _problem(state, update)
        if len(request.feature_updates) > 1 and problem is None:
            problem = ErrorCode.INVALID_REQUEST, f"there is one feature, {FEATURE_NAME}; name it once"
        if problem is None:
            records = _climb(state, FeatureLevel(update.max_version_level))
        failed = failed or problem
        error, message = problem or (ErrorCode.NONE, None)
        results.append(
            UpdatableFeatureResult(feature=update.feature, error_code=error, error_message=fitting(message))
        )
    error, message = failed or (ErrorCode.NONE, None)
    response = UpdateFeaturesResponse(
        error_code=error, error_message=fitting(message), results=tuple(results)
    )
    if failed or request.validate_only:
        records = []
    return Decision(response, records, rule="isr.eligible", because="the feature level rose")


def _problem(state: ControllerState, update: FeatureUpdateKey) -> tuple[ErrorCode, str] | None:
    present, wanted = state.image.level, update.max_version_level
    if update.feature != FEATURE_NAME:
        return ErrorCode.INVALID_UPDATE_VERSION, f"there is no feature {update.feature!r}"
    if not 0 <= wanted <= max(FeatureLevel):
        return ErrorCode.INVALID_UPDATE_VERSION, f"there is no feature level {wanted}"
    level = FeatureLevel(wanted)
    if level < present:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"it is on {present} and never goes down to {level}",
        )
    if level > present + 1:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"the cluster is on {present} and climbs one level at a time, to {FeatureLevel(present + 1)}",
        )
    for broker in state.image.brokers.values():
        feature = broker.feature(FEATURE_NAME)
        if feature is None or not feature.min_supported_version <= level <= feature.max_supported_version:
            return ErrorCode.FEATURE_UPDATE_FAILED, f"broker {broker.id} does not know level {level}"
    return None


def _climb(state: ControllerState, level: FeatureLevel) -> list[MetadataRecord]:
    if level == state.image.level:
        return []
    records: list[MetadataRecord] = [FeatureLevelRecord(name=FEATURE_NAME, feature_level=level)]
    if level == FeatureLevel.ELIGIBLE_ISR:
        records += _persisted_shutdowns(state)
        records += _cleaned_isrs(state)
    return records


def _persisted_shutdowns(state: ControllerState) -> list[MetadataRecord]:
    """What was soft state below this level."""
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        for broker in state.image.brokers.values()
        if not broker.in_controlled_shutdown and not broker.fenced and state.stopping(broker.id)
    ]


def _cleaned_isrs(state: ControllerState) -> list[MetadataRecord]:
    image = state.image
    barred = {broker.id for broker in image.brokers.values() if broker.fenced or state.stopping(broker.id)}

    def may_lead(candidate: int) -> bool:
        return candidate not in barred and image.broker(candidate) is not None

    records: list[MetadataRecord] = []
    for ref in image.all_partitions():
        partition = image.state(ref)
        isr = [member for member in partition.isr if may_lead(member)]
        if len(isr) == len(partition.isr):
            continue
        if not isr:
            # One member has to stay, and the last leader knows most.
            stays = partition.leader if partition.leader in partition.isr else partition.isr[0]
            partition_isr = (stays,)
            record = change(ref.topic.id, ref.index, partition, may_lead, isr=partition_isr)
        else:
            record = change(ref.topic.id, ref.index, partition, may_lead, isr=isr)
        if record is not None:
            records.append(record)
    return records

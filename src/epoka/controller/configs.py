"""Settings of topics and brokers: IncrementalAlterConfigs and AlterConfigs.

Each resource of a request succeeds or fails as a whole, on its own. Describing them is the brokers' business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from epoka.controller.decision import Decision
from epoka.controller.state import ControllerState
from epoka.model.config_keys import BadValue, ConfigKey, Kind
from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE
from epoka.model.records import MetadataRecord
from epoka.model.topic_configs import TOPIC_KEYS
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from epoka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from epoka.wire.messages.metadata_records import ConfigRecord
from epoka.wire.texts import fitting

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

BROKER_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.synonyms[0]: key for key in TOPIC_KEYS.values() if key.synonyms
}
"""Defaults for all topics, which can be set for one broker or, with an empty resource name, for all."""

Outcome = tuple[ErrorCode, str | None, list[MetadataRecord]]


def on_incremental_alter_configs(state: ControllerState, request: IncrementalAlterConfigsRequest) -> Decision:
    return _on_each(
        state, request, _alter, IncrementalAlterConfigsResourceResponse, IncrementalAlterConfigsResponse
    )


def on_alter_configs(state: ControllerState, request: AlterConfigsRequest) -> Decision:
    return _on_each(state, request, _replace, AlterConfigsResourceResponse, AlterConfigsResponse)


def _on_each(
    state: ControllerState,
    request: IncrementalAlterConfigsRequest | AlterConfigsRequest,
    alter: Callable[[ControllerState, Any], Outcome],
    resource_response: Callable[..., Any],
    response: Callable[..., Any],
) -> Decision:
    """One resource at a time; a refusal of one does not touch the others."""
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    records: list[MetadataRecord] = []
    responses = []
    for resource in request.resources:
        error, message, changes = (
            (ErrorCode.INVALID_REQUEST, "the resource is named twice", [])
            if named[resource.resource_type, resource.resource_name] > 1
            else alter(state, resource)
        )
        records += changes
        responses.append(
            resource_response(
                error_code=error,
                error_message=fitting(message),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return Decision(response(responses=tuple(responses)), [] if request.validate_only else records)


def _alter(state: ControllerState, resource: IncrementalAlterConfigsResource) -> Outcome:
    table = _table(state, resource.resource_type, resource.resource_name)
    if not isinstance(table, Mapping):
        return table
    current = state.image.config(resource.resource_type, resource.resource_name)
    wanted: dict[str, str | None] = {}
    for each in resource.configs:
        key = table.get(each.name)
        if key is None:
            return ErrorCode.INVALID_CONFIG, f"there is no setting {each.name!r}", []
        if each.name in wanted:
            return ErrorCode.INVALID_REQUEST, f"{each.name} is altered twice", []
        if each.config_operation == DELETE:
            wanted[each.name] = None
            continue
        if each.config_operation not in (SET, APPEND, SUBTRACT):
            return ErrorCode.INVALID_REQUEST, f"there is no operation {each.config_operation}", []
        value = each.value
        if each.config_operation != SET:
            if key.kind is not Kind.LIST:
                return ErrorCode.INVALID_CONFIG, f"{each.name} is not a list", []
            old = current.get(each.name, key.text(key.default)) or ""
            value = _list_operation(old, value or "", append=each.config_operation == APPEND)
        complaint = _complaint(each.name, key, value)
        if complaint:
            return ErrorCode.INVALID_CONFIG, complaint, []
        wanted[each.name] = value
    return ErrorCode.NONE, None, _records(resource.resource_type, resource.resource_name, current, wanted)


def _replace(state: ControllerState, resource: AlterConfigsResource) -> Outcome:
    table = _table(state, resource.resource_type, resource.resource_name)
    if not isinstance(table, Mapping):
        return table
    current = state.image.config(resource.resource_type, resource.resource_name)
    wanted: dict[str, str | None] = dict.fromkeys(current)
    for each in resource.configs:
        key = table.get(each.name)
        if key is None:
            return ErrorCode.INVALID_CONFIG, f"there is no setting {each.name!r}", []
        complaint = _complaint(each.name, key, each.value)
        if complaint:
            return ErrorCode.INVALID_CONFIG, complaint, []
        wanted[each.name] = each.value
    return ErrorCode.NONE, None, _records(resource.resource_type, resource.resource_name, current, wanted)


def _table(state: ControllerState, resource_type: int, name: str) -> Mapping[str, ConfigKey] | Outcome:
    """The settings a resource has, or why it has none."""
    if resource_type == TOPIC_RESOURCE:
        if state.image.topic(name) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}", []
        return TOPIC_KEYS
    if resource_type == BROKER_RESOURCE:
        if name and not (name.isascii() and name.isdigit()):
            return ErrorCode.INVALID_REQUEST, f"{name!r} is not a broker id", []
        return BROKER_KEYS
    return ErrorCode.INVALID_REQUEST, f"resources of type {resource_type} have no settings", []


def _complaint(name: str, key: ConfigKey, value: str | None) -> str | None:
    if value is None:
        return f"{name} has no value"
    try:
        key.parse(value)
    except BadValue as bad:
        return f"{name} {bad}"
    return None


def _list_operation(old: str, given: str, *, append: bool) -> str:
    words = [word for word in old.split(",") if word]
    given_words = [word.strip() for word in given.split(",") if word.strip()]
    if append:
        return ",".join(dict.fromkeys(words + given_words))
    return ",".join(word for word in words if word not in given_words)


def _records(
    resource_type: int, name: str, current: Mapping[str, str], wanted: Mapping[str, str | None]
) -> list[MetadataRecord]:
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in wanted.items()
        if current.get(key) != value
    ]

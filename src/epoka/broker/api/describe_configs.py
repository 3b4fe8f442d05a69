"""DescribeConfigs: the settings of topics and of this broker, and where each value comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model import topic_configs
from epoka.model.config_keys import ConfigKey, Kind
from epoka.model.events import Request
from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import describe_configs as wire
from epoka.wire.texts import fitting

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

REQUEST = wire.DescribeConfigsRequest
VERSIONS = (1, 4)

DYNAMIC_TOPIC = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT_BROKER = 3
STATIC_BROKER = 4
DEFAULT = 5


def handle(core: BrokerCore, request: Request, now: int) -> wire.DescribeConfigsResponse:
    message: wire.DescribeConfigsRequest = request.message
    return wire.DescribeConfigsResponse(
        results=tuple(_describe(core, asked, message) for asked in dict.fromkeys(message.resources))
    )


def _describe(
    core: BrokerCore, asked: wire.DescribeConfigsResource, message: wire.DescribeConfigsRequest
) -> wire.DescribeConfigsResult:
    wanted = None if asked.configuration_keys is None else set(asked.configuration_keys)
    if asked.resource_type == TOPIC_RESOURCE:
        if core.image.topic(asked.resource_name) is None:
            return _failed(
                asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.resource_name}"
            )
        configs = [
            _topic_setting(core, asked.resource_name, key, message)
            for key in topic_configs.TOPIC_KEYS.values()
            if wanted is None or key.name in wanted
        ]
    elif asked.resource_type == BROKER_RESOURCE:
        if asked.resource_name not in ("", str(core.config.broker_id)):
            return _failed(
                asked,
                ErrorCode.INVALID_REQUEST,
                f"this is broker {core.config.broker_id}, not {asked.resource_name}",
            )
        texts = {**core.config.described, **core.replicas.dynamic_defaults()}
        configs = [
            wire.DescribeConfigsResourceResult(
                name=name,
                value=value,
                read_only=_set_by(core, name) in (STATIC_BROKER, DEFAULT),
                config_source=_set_by(core, name),
                config_type=int(Kind.STRING),
            )
            for name, value in sorted(texts.items())
            if wanted is None or name in wanted
        ]
    else:
        return _failed(
            asked, ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no settings here"
        )
    return wire.DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, configs=tuple(configs)
    )


def _topic_setting(
    core: BrokerCore, topic: str, key: ConfigKey, message: wire.DescribeConfigsRequest
) -> wire.DescribeConfigsResourceResult:
    own = core.image.topic_config(topic).get(key.name)
    inherited, synonym = topic_configs.default(key.name, core.replicas.topic_defaults())
    fallback = key.text(inherited)
    inherited_source = DEFAULT if synonym is None else _set_by(core, synonym)
    synonyms = []
    if own is not None:
        synonyms.append(wire.DescribeConfigsSynonym(name=key.name, value=own, source=DYNAMIC_TOPIC))
    synonyms.append(
        wire.DescribeConfigsSynonym(name=synonym or key.name, value=fallback, source=inherited_source)
    )
    return wire.DescribeConfigsResourceResult(
        name=key.name,
        value=fallback if own is None else own,
        config_source=inherited_source if own is None else DYNAMIC_TOPIC,
        synonyms=tuple(synonyms) if message.include_synonyms else (),
        config_type=int(key.kind),
        documentation=key.about if message.include_documentation else None,
    )


def _set_by(core: BrokerCore, name: str) -> int:
    if name in core.image.config(BROKER_RESOURCE, str(core.config.broker_id)):
        return DYNAMIC_BROKER
    if name in core.image.config(BROKER_RESOURCE, ""):
        return DYNAMIC_DEFAULT_BROKER
    return STATIC_BROKER if name in core.config.configured else DEFAULT


def _failed(asked: wire.DescribeConfigsResource, error: ErrorCode, reason: str) -> wire.DescribeConfigsResult:
    return wire.DescribeConfigsResult(
        error_code=error,
        error_message=fitting(reason),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )

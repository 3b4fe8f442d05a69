"""What brokers read for themselves, because control requests do not carry it: the level, and all settings."""

from __future__ import annotations

import logging
from collections.abc import Callable

from epoka.coordination.zookeeper import paths
from epoka.coordination.zookeeper.session import Session, Watch, ZooKeeperError
from epoka.coordination.zookeeper.znodes import BadZnode, allowed, decode_config, decode_features
from epoka.model.events import SettingsRead
from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE
from epoka.model.levels import FEATURE_NAME, HIGHEST

log = logging.getLogger(__name__)


class UnknownLevel(ZooKeeperError):
    """The cluster is on a level of a later release."""


def read_settings(session: Session, token: int = 0) -> SettingsRead | None:
    """The level and every resource's settings; None before the first controller has set a level.

    `token` is the last with which a broker had asked for them before this call.
    """
    session.sync(paths.FEATURES)
    node = session.get(paths.FEATURES)
    if node is None:
        return None
    try:
        level = decode_features(paths.FEATURES, node.data)[FEATURE_NAME]
    except BadZnode as bad:
        raise ZooKeeperError(f"the cluster's level is unknown: {bad}") from bad
    except KeyError:
        return None
    if level > HIGHEST:
        raise UnknownLevel(
            f"{paths.FEATURES}: the cluster is on level {level}; "
            f"this release ends at {int(HIGHEST)}, {HIGHEST}"
        )
    configs: dict[tuple[int, str], dict[str, str]] = {}
    for resource_type, folder in (
        (TOPIC_RESOURCE, paths.TOPIC_CONFIGS),
        (BROKER_RESOURCE, paths.BROKER_CONFIGS),
    ):
        names = session.children_of(folder)
        nodes = session.get_many([f"{folder}/{name}" for name in names])
        for name, each in zip(names, nodes):
            if each is None:
                continue
            try:
                path = f"{folder}/{name}"
                settings = allowed(path, decode_config(path, each.data), log.warning)
            except BadZnode as bad:
                log.warning("%s; it is left alone", bad)
                continue
            if settings:
                configs[resource_type, "" if name == paths.DEFAULT_BROKER else name] = settings
    return SettingsRead(level, configs, token)


def watch_settings(session: Session, callback: Callable[[], None]) -> tuple[Watch, Watch]:
    """Be told that the level or a setting may have changed: read them again. Runs on kazoo's thread."""
    return (
        session.watch_children(paths.CONFIG_CHANGES, callback),
        session.watch_node(paths.FEATURES, callback),
    )

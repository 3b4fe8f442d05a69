"""Configurations, producer ids and the feature level."""

from __future__ import annotations

import pytest

from epoka.model.image import BROKER_RESOURCE, TOPIC_RESOURCE
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from epoka.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from epoka.wire.messages.broker_registration import SupportedFeature
from epoka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementallyAlterableConfig,
)
from epoka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.controller.office import Office, check_invariants

SET, DELETE, APPEND, SUBTRACT = range(4)


def with_topic() -> Office:
    office = Office()
    office.join(1)
    office.create("t", [1])
    return office


def alter(
    office: Office,
    *changes: tuple[str, int, str | None],
    resource: int = TOPIC_RESOURCE,
    name: str = "t",
    validate_only: bool = False,
) -> ErrorCode:
    configs = tuple(IncrementallyAlterableConfig(*change) for change in changes)
    request = IncrementalAlterConfigsRequest(
        (IncrementalAlterConfigsResource(resource, name, configs),), validate_only
    )
    (response,) = office.ask(request, 1).responses
    return ErrorCode(response.error_code)


def test_a_setting_is_set_and_taken_back() -> None:
    office = with_topic()
    assert alter(office, ("retention.ms", SET, "5"), ("segment.ms", SET, "7")) == ErrorCode.NONE
    assert office.image.topic_config("t") == {"retention.ms": "5", "segment.ms": "7"}
    assert alter(office, ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert office.image.topic_config("t") == {"segment.ms": "7"}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    office = with_topic()
    assert alter(office, ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert office.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    assert alter(office, ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert office.image.topic_config("t") == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_changes(change: tuple[str, int, str | None], error: ErrorCode) -> None:
    office = with_topic()
    assert alter(office, ("segment.ms", SET, "7"), change) == error
    assert office.image.topic_config("t") == {}, "a resource is changed whole or not at all"


def test_bad_resources() -> None:
    office = with_topic()
    assert alter(office, ("retention.ms", SET, "1"), name="nobody") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(office, resource=BROKER_RESOURCE, name="one") == ErrorCode.INVALID_REQUEST
    assert alter(office, resource=8, name="x") == ErrorCode.INVALID_REQUEST
    assert alter(office, ("segment.ms", SET, "1"), ("segment.ms", SET, "2")) == ErrorCode.INVALID_REQUEST


def test_validate_only_writes_nothing() -> None:
    office = with_topic()
    assert alter(office, ("retention.ms", SET, "5"), validate_only=True) == ErrorCode.NONE
    assert office.image.topic_config("t") == {}


def test_a_default_for_all_brokers_holds_for_elections() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2])
    office.propose("t", [1])
    key = "unclean.leader.election.enable"
    assert alter(office, (key, SET, "true"), resource=BROKER_RESOURCE, name="") == ErrorCode.NONE
    office.fence(1)
    assert office.partition("t").leader == 2
    assert office.image.config(BROKER_RESOURCE, "") == {key: "true"}


@pytest.mark.parametrize("resource", [TOPIC_RESOURCE, BROKER_RESOURCE], ids=["topic", "all-brokers"])
def test_a_partition_without_a_leader_gets_one_when_unclean_elections_are_allowed(resource: int) -> None:
    office = Office()
    office.join(1, 2)
    for topic in ("t", "u"):
        office.create(topic, [1, 2])
        office.propose(topic, [1])
    office.fence(1)
    assert office.partition("t").leader == office.partition("u").leader == -1
    change = ("unclean.leader.election.enable", SET, "true")
    name = "t" if resource == TOPIC_RESOURCE else ""
    assert alter(office, change, resource=resource, name=name, validate_only=True) == ErrorCode.NONE
    assert office.partition("t").leader == -1
    assert alter(office, change, resource=resource, name=name) == ErrorCode.NONE
    assert (office.partition("t").leader, office.partition("t").isr) == (2, (2,))
    assert office.partition("u").leader == (-1 if resource == TOPIC_RESOURCE else 2)
    check_invariants(office.image)


def test_alter_configs_replaces_everything() -> None:
    office = with_topic()
    alter(office, ("retention.ms", SET, "5"), ("segment.ms", SET, "7"))
    resource = AlterConfigsResource(TOPIC_RESOURCE, "t", (AlterableConfig("segment.ms", "8"),))
    (response,) = office.ask(AlterConfigsRequest((resource,)), 2).responses
    assert response.error_code == ErrorCode.NONE
    assert office.image.topic_config("t") == {"segment.ms": "8"}


def test_every_producer_id_is_given_once_even_across_a_restart() -> None:
    office = Office(producer_id_block=10)
    office.join(1)
    blocks = []
    for _ in range(2):
        response = office.ask(AllocateProducerIdsRequest(1, office.epoch(1)))
        blocks.append((response.producer_id_start, response.producer_id_len))
    office.restart()
    response = office.ask(AllocateProducerIdsRequest(1, office.epoch(1)))
    blocks.append((response.producer_id_start, response.producer_id_len))
    assert blocks == [(0, 10), (10, 10), (20, 10)]


@pytest.mark.parametrize("difference", [-1, 1, None], ids=["one less", "one more", "-1"])
def test_producer_ids_are_for_registered_generations(difference: int | None) -> None:
    office = Office()
    office.join(1)
    epoch = -1 if difference is None else office.epoch(1) + difference
    response = office.ask(AllocateProducerIdsRequest(1, epoch))
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert office.image.next_producer_id == 0


def raise_level(office: Office, level: int, feature: str = FEATURE_NAME) -> ErrorCode:
    request = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature, level),))
    return ErrorCode(office.ask(request, 1).error_code)


def test_the_cluster_climbs_one_level_at_a_time() -> None:
    office = Office(FeatureLevel.HEARTBEATS)
    office.join(1)
    assert raise_level(office, FeatureLevel.ELIGIBLE_ISR) == ErrorCode.INVALID_UPDATE_VERSION
    for level in (FeatureLevel.SHARED_UPDATES, FeatureLevel.ELIGIBLE_ISR, FeatureLevel.FETCH_EPOCHS):
        assert raise_level(office, level) == ErrorCode.NONE
        assert office.image.level == level
    assert [event.given for event in office.events("level")][1:] == [
        "shared-updates",
        "eligible-isr",
        "fetch-epochs",
    ]
    office.restart()
    assert office.image.level == HIGHEST


@pytest.mark.parametrize("level", [-1, 0, 3, 6, 99])
def test_levels_it_does_not_go_to(level: int) -> None:
    office = Office(FeatureLevel.ELIGIBLE_ISR)
    assert raise_level(office, level) == ErrorCode.INVALID_UPDATE_VERSION
    assert office.image.level == FeatureLevel.ELIGIBLE_ISR


def test_the_level_it_is_on_is_fine() -> None:
    office = Office(FeatureLevel.ELIGIBLE_ISR)
    offset = office.image.offset
    assert raise_level(office, FeatureLevel.ELIGIBLE_ISR) == ErrorCode.NONE and office.image.offset == offset


def test_an_unknown_feature_is_refused() -> None:
    assert raise_level(Office(), 1, "group.version") == ErrorCode.INVALID_UPDATE_VERSION


def test_it_waits_for_brokers_that_do_not_know_the_next_level() -> None:
    office = Office(FeatureLevel.ELIGIBLE_ISR)
    office.join(1, features=(SupportedFeature(FEATURE_NAME, 2, 4),))
    assert raise_level(office, FeatureLevel.FETCH_EPOCHS) == ErrorCode.FEATURE_UPDATE_FAILED
    assert office.image.level == FeatureLevel.ELIGIBLE_ISR


def test_climbing_to_eligible_isr_cleans_up_what_was_let_in_before() -> None:
    office = Office(FeatureLevel.SHARED_UPDATES)
    office.join(1, 2, 3)
    office.create("fenced-inside", [1, 2])
    office.create("stopping-inside", [3, 1])
    office.fence(2)
    office.propose("fenced-inside", [1, 2], version=1)
    office.stop(3)
    office.propose("stopping-inside", [1, 3], version=1)
    assert raise_level(office, FeatureLevel.ELIGIBLE_ISR) == ErrorCode.NONE
    assert office.partition("fenced-inside").isr == (1,)
    assert office.partition("stopping-inside").isr == (1,)
    broker = office.image.broker(3)
    assert broker is not None and broker.in_controlled_shutdown
    check_invariants(office.image)

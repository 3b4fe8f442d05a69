"""Error codes are Kafka's: an outside list is the judge of numbers, names and of what may be retried."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KafkaErrorCode

from epoka.wire.error_codes import ErrorCode

OURS = {ErrorCode.INVALID_INCARNATION_ID}


def test_every_code_of_kafka_exists_under_its_name() -> None:
    assert {int(code): code.name for code in ErrorCode if code not in OURS} == {
        int(code): code.name.upper() for code in KafkaErrorCode
    }


def test_the_numbers_run_from_minus_one_to_133_without_a_gap() -> None:
    assert sorted(code for code in ErrorCode if code not in OURS) == list(range(-1, 134))


@pytest.mark.parametrize("code", KafkaErrorCode, ids=lambda code: code.name)
def test_kafka_agrees_on_what_may_be_retried(code: KafkaErrorCode) -> None:
    assert ErrorCode(int(code)).retriable == code.retriable


def test_stale_metadata_is_named_as_such() -> None:
    assert {code.name for code in ErrorCode if code.refresh_metadata} == {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "KAFKA_STORAGE_ERROR",
        "LISTENER_NOT_FOUND",
        "FENCED_LEADER_EPOCH",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
    }


def test_whatever_needs_fresh_metadata_may_be_retried() -> None:
    assert all(code.retriable for code in ErrorCode if code.refresh_metadata)


def test_a_code_of_our_own_stays_clear_of_kafkas_numbers() -> None:
    assert ErrorCode.INVALID_INCARNATION_ID == 10000
    assert not ErrorCode.INVALID_INCARNATION_ID.retriable


def test_every_code_explains_itself_in_words_of_its_own() -> None:
    messages = [code.message for code in ErrorCode]
    assert all(messages)
    assert len(set(messages)) == len(messages)


def test_a_code_is_found_by_its_number_and_writes_as_it() -> None:
    assert ErrorCode(77) is ErrorCode.STALE_BROKER_EPOCH
    assert int(ErrorCode.STALE_BROKER_EPOCH).to_bytes(2, "big") == b"\x00\x4d"

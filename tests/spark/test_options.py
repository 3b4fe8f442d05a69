"""Options mean what they mean to Spark's Kafka connector; a complaint names the option and its value."""

from __future__ import annotations

import logging

import pytest

from epoka.client.cluster import EARLIEST, LATEST
from epoka.spark.options import COLUMNS, BadOption, ReadOptions, read_options, write_options

SOMEWHERE = {"kafka.bootstrap.servers": "host:9092", "subscribe": "t"}


def read(*, streaming: bool = False, **options: str) -> ReadOptions:
    return read_options(
        SOMEWHERE | {k.replace("__", "."): v for k, v in options.items()}, streaming=streaming
    )


def complaint(*, streaming: bool = False, **options: str) -> str:
    with pytest.raises(BadOption) as caught:
        read(streaming=streaming, **options)
    return str(caught.value)


def test_defaults_of_a_batch() -> None:
    options = read()
    assert (options.starting.offset, options.ending.offset) == (EARLIEST, LATEST)
    assert options.columns == COLUMNS
    assert options.fail_on_data_loss
    assert not options.pushdown


def test_a_stream_begins_at_the_end() -> None:
    assert read(streaming=True).starting.offset == LATEST


def test_the_address_is_required() -> None:
    with pytest.raises(BadOption, match=r"kafka\.bootstrap\.servers is not set"):
        read_options({"subscribe": "t"}, streaming=False)


@pytest.mark.parametrize("address", ["host", "host:", ":9092", "host:port", "host:70000", ""])
def test_an_address_that_is_none_is_named(address: str) -> None:
    assert "host:port" in complaint(kafka__bootstrap__servers=address)


def test_names_of_options_know_no_case() -> None:
    options = read_options(
        {"KAFKA.bootstrap.SERVERS": "h:1", "SubScribe": "t", "STARTINGOFFSETS": "Earliest"}, streaming=True
    )
    assert options.starting.offset == EARLIEST


def test_exactly_one_option_says_what_to_read() -> None:
    with pytest.raises(BadOption, match="one of assign, subscribe, subscribePattern"):
        read_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)
    assert "only one of" in complaint(assign='{"t":[0]}')
    assert "only one of" in complaint(subscribePattern="t.*")


def test_subscribe_is_a_list() -> None:
    assert read(subscribe=" a, b ,a").topics == ("a", "b")
    assert "empty" in complaint(subscribe=" ")
    assert "names no topic" in complaint(subscribe=",")


def test_a_pattern_has_to_be_one() -> None:
    with pytest.raises(BadOption, match=r"subscribePattern='t\[' is no regular expression"):
        read_options({"kafka.bootstrap.servers": "h:1", "subscribePattern": "t["}, streaming=False)


@pytest.mark.parametrize("text", ["t", '["t"]', '{"t":0}', '{"t":["x"]}', "{}", '{"t":[]}'])
def test_assign_names_topics_and_partitions(text: str) -> None:
    with pytest.raises(BadOption, match="assign"):
        read_options({"kafka.bootstrap.servers": "h:1", "assign": text}, streaming=False)


def test_assign_is_read() -> None:
    options = read_options({"kafka.bootstrap.servers": "h:1", "assign": '{"t":[0,2]}'}, streaming=False)
    assert options.assigned == (("t", 0), ("t", 2))


def test_a_time_for_all_goes_before_times_for_each_and_those_before_offsets() -> None:
    each = '{"t":{"0":5}}'
    assert read(startingOffsets=each).starting.offsets == {("t", 0): 5}
    assert read(startingOffsets=each, startingOffsetsByTimestamp=each).starting.timestamps == {("t", 0): 5}
    every = read(startingOffsets=each, startingOffsetsByTimestamp=each, startingTimestamp="7")
    assert (every.starting.timestamp, every.starting.timestamps) == (7, None)
    assert read(endingOffsets=each, endingTimestamp="7").ending.timestamp == 7


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    text = complaint(streaming=True, **{name: "5"})
    assert name in text
    assert "5" in text


def test_a_batch_cannot_begin_at_the_end_nor_end_at_the_beginning() -> None:
    assert "startingOffsets=latest" in complaint(startingOffsets="latest")
    assert "endingOffsets=earliest" in complaint(endingOffsets="earliest")
    assert "t-0 -1" in complaint(startingOffsets='{"t":{"0":-1}}')
    assert "t-0 -2" in complaint(endingOffsets='{"t":{"0":-2}}')


def test_a_stream_may_begin_anywhere() -> None:
    offsets = read(streaming=True, startingOffsets='{"t":{"0":-1,"1":-2,"2":9}}').starting.offsets
    assert offsets == {("t", 0): -1, ("t", 1): -2, ("t", 2): 9}


def test_both_ends_name_the_same_partitions_in_order() -> None:
    assert "t-1" in complaint(startingOffsets='{"t":{"0":1}}', endingOffsets='{"t":{"0":2,"1":2}}')
    assert "t-0" in complaint(startingOffsets='{"t":{"0":3}}', endingOffsets='{"t":{"0":2}}')


@pytest.mark.parametrize("text", ["soon", '{"t":5}', '{"t":{"x":5}}', '{"t":{"0":"five"}}', "[1]"])
def test_offsets_that_are_none_are_named(text: str) -> None:
    assert "startingOffsets" in complaint(startingOffsets=text)


def test_offsets_below_minus_two_are_refused() -> None:
    assert "-3" in complaint(startingOffsets='{"t":{"0":-3}}')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minPartitions", "0"),
        ("minPartitions", "many"),
        ("maxRecordsPerPartition", "-1"),
        ("maxOffsetsPerTrigger", "0"),
        ("minOffsetsPerTrigger", "0"),
        ("failOnDataLoss", "yes"),
        ("includeHeaders", "1"),
        ("startingTimestamp", "-1"),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("maxTriggerDelay", "soon"),
        ("maxBytesPerTrigger", "much"),
        ("kafkaConsumer__pollTimeoutMs", "0"),
        ("fetchOffset__numRetries", "-1"),
    ],
)
def test_values_that_cannot_be_are_named(name: str, value: str) -> None:
    text = complaint(**{name: value})
    assert name.replace("__", ".") in text
    assert value in text


def test_a_trigger_cannot_read_at_least_more_than_at_most() -> None:
    text = complaint(streaming=True, minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")
    assert "minOffsetsPerTrigger=9" in text
    assert "maxOffsetsPerTrigger=5" in text


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("15m", 900_000), ("30s", 30_000), ("250ms", 250), ("2h", 7_200_000)]
)
def test_delays_have_units(text: str, delay_ms: int) -> None:
    assert read(streaming=True, maxTriggerDelay=text).max_trigger_delay_ms == delay_ms
    assert read(streaming=True).max_trigger_delay_ms == 900_000


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("64m", 64 << 20), ("2GB", 2 << 30), ("8 kb", 8 << 10)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert read(streaming=True, maxBytesPerTrigger=text).max_bytes_per_trigger == size


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
    ],
)
def test_properties_that_would_lie_are_refused_with_what_to_say_instead(name: str) -> None:
    with pytest.raises(BadOption, match=rf"kafka.{name}=x cannot be set"):
        read_options(SOMEWHERE | {f"kafka.{name}": "x"}, streaming=True)


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer", "interceptor.classes"])
def test_a_writer_has_serialisers_of_its_own_and_nobody_between(name: str) -> None:
    with pytest.raises(BadOption, match=f"kafka.{name}"):
        write_options({"kafka.bootstrap.servers": "h:1", f"kafka.{name}": "x"})


def test_other_properties_pass_through() -> None:
    options = read(
        kafka__isolation__level="read_committed",
        kafka__client__id="me",
        kafka__client__rack="r1",
        kafka__request__timeout__ms="1234",
        kafka__session__timeout__ms="9",
    )
    assert options.client.isolation == 1
    assert (options.client.client_id, options.client.rack, options.client.request_timeout_ms) == (
        "me",
        "r1",
        1234,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "TLS"),
        ("isolation.level", "serializable"),
        ("acks", "2"),
        ("compression.type", "brotli"),
        ("request.timeout.ms", "soon"),
        ("ssl.truststore.location", "/no/such/file"),
    ],
)
def test_properties_that_cannot_be_are_named(name: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"kafka.{name}"):
        read_options(SOMEWHERE | {f"kafka.{name}": value}, streaming=False)


def test_a_mechanism_that_is_not_spoken_is_refused_and_not_passed_over() -> None:
    text = complaint(kafka__security__protocol="SASL_SSL", kafka__sasl__mechanism="SCRAM-SHA-512")
    assert "SCRAM-SHA-512" in text


def test_headers_come_when_asked_for() -> None:
    assert read(includeHeaders="true").columns == (*COLUMNS, "headers")


def test_columns_choose_and_order() -> None:
    assert read(columns="VALUE, offset").columns == ("value", "offset")
    assert "'colour'" in complaint(columns="value,colour")
    assert "twice" in complaint(columns="value,value")


def test_committing_offsets_needs_a_group() -> None:
    assert "kafka.group.id" in complaint(streaming=True, commitOffsets="true")
    assert read(streaming=True, commitOffsets="true", kafka__group__id="g").commit_group == "g"


def test_what_nobody_knows_is_passed_over_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read(startingOffset="earliest", maxOffsetsPerTrigger="5")
    assert "startingOffset=earliest" in caplog.text
    assert "maxOffsetsPerTrigger=5 says nothing to a batch" in caplog.text

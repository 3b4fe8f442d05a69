"""How records are written by `epoka consume` and read by `epoka produce`, without any cluster."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from epoka.cli.format import BadFormat, as_json, compiled, plain, unescaped
from epoka.cli.produce import Shape, _from_json, _plain
from epoka.cli.writing import BATCH_BYTES, _batches
from epoka.client.batching import murmur2
from epoka.wire.records import Record

RECORD = Record(7, 1234, b"k", b"pay", (("a", b"1"), ("b", None)))
PLAIN = Shape(None, None, None, (), False, False)


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("%s\\n", b"pay\n"),
        ("%t [%p] %o: %k=%s", b"orders [3] 7: k=pay"),
        ("%K %S %T", b"1 3 1234"),
        ("%R", b"\0\0\0\3"),
        ("%h", b"a=1,b=NULL"),
        ("100%%\\x00\\t", b"100%\0\t"),
    ],
)
def test_format_tokens_mean_what_they_mean_in_kcat(template: str, written: bytes) -> None:
    assert compiled(template)("orders", 3, RECORD) == written


def test_a_null_has_length_minus_one() -> None:
    assert compiled("%K %S|%k%s")("t", 0, Record(0, 0, None, None)) == b"-1 -1|"
    assert compiled("%R")("t", 0, Record(0, 0, None, None)) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("template", ["%x", "ends in %"])
def test_a_token_that_nobody_knows_is_refused(template: str) -> None:
    with pytest.raises(BadFormat, match="there is no %"):
        compiled(template)


def test_keys_are_written_when_a_delimiter_is_given() -> None:
    assert plain(b":", b";")("t", 0, RECORD) == b"k:pay;"
    assert plain(None, b"\n")("t", 0, RECORD) == b"pay\n"


def test_escapes_become_bytes() -> None:
    assert unescaped(r"a\n\t\\\x41\q") == b"a\n\t\\A\\q"


@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=20),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
)
def test_what_is_written_as_json_is_read_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = as_json("t", 2, Record(5, 99, key, value, tuple(headers)))
    assert json.loads(line)["offset"] == 5
    assert _from_json(line, 0, 1) == (2, Record(0, 99, key, value, tuple(headers)))


def test_header_values_that_are_no_text_stand_beside_the_headers() -> None:
    told = json.loads(as_json("t", 0, Record(0, 0, None, None, (("a", b"1"), ("b", b"\xff"), ("c", None)))))
    assert told["headers"] == ["a", "1", "b", None, "c", None]
    assert told["headers_base64"] == [None, "/w==", None]
    assert "headers_base64" not in json.loads(as_json("t", 0, RECORD))


def test_json_tells_whose_clock_the_timestamp_is_of() -> None:
    assert [json.loads(as_json("t", 0, RECORD, kind))["tstype"] for kind in (0, 1)] == ["create", "logappend"]


def test_keys_and_payloads_are_told_apart() -> None:
    shape = Shape(None, None, b":", (), False, False)
    assert _plain(b"a:b:c", 1, shape) == Record(0, 1, b"a", b"b:c")
    assert _plain(b"abc", 1, shape) == Record(0, 1, None, b"abc")


def test_nothing_is_null_only_when_asked_for() -> None:
    assert _plain(b"", 1, PLAIN).value == b""
    assert _plain(b":", 1, Shape(None, None, b":", (), True, False)) == Record(0, 1, None, None)


@given(st.binary(max_size=40))
def test_keys_go_where_other_producers_put_them(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key)


@given(st.lists(st.integers(0, BATCH_BYTES * 2), max_size=8))
def test_batches_keep_the_order_and_are_small_enough(sizes: list[int]) -> None:
    records = [Record(0, 0, None, bytes(size)) for size in sizes]
    batches = _batches(records)
    assert [record for batch in batches for record in batch] == records
    for batch in batches:
        assert len(batch) <= 1 or sum(len(record.value or b"") for record in batch) <= BATCH_BYTES

"""Rows become the batches that Kafka's own clients would send, whichever encoder serves."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from epoka.client import batching, columns
from epoka.client.batching import Rows, batch_of, murmur2, partition_numbers, sizes_of
from epoka.client.columns import BytesColumn, HeaderColumns
from epoka.cluster.cluster import Cluster
from epoka.wire.compression import Codec
from epoka.wire.records import decode_batch
from tests.client.topics import Topics

KERNELS = [pytest.param(batching._SLOW, id="slow")]
if columns.compiled() is not None:
    KERNELS.append(pytest.param(columns.compiled(), id="numba"))

Header = tuple[str, bytes | None]


def strings(values: list[bytes | None]) -> BytesColumn:
    ends = np.cumsum([0, *(len(value or b"") for value in values)]).astype(np.int32)
    valid = np.array([value is not None for value in values], np.uint8)
    content = np.frombuffer(b"".join(value or b"" for value in values) or b"\0", np.uint8)
    return BytesColumn(ends, content, None if valid.all() else valid)


def headers(rows: list[list[Header]]) -> HeaderColumns:
    flat = [header for row in rows for header in row]
    ends = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int32)
    return HeaderColumns(ends, strings([name.encode() for name, _ in flat]), strings([v for _, v in flat]))


some_bytes = st.none() | st.binary(max_size=300)
some_headers = st.lists(st.tuples(st.text(max_size=6), some_bytes), max_size=3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(some_bytes, some_bytes, some_headers), min_size=1, max_size=20), picked=st.data()
)
def test_any_rows_can_be_read_back(
    kernel: ModuleType,
    codec: Codec,
    rows: list[tuple[bytes | None, bytes | None, list[Header]]],
    picked: st.DataObject,
) -> None:
    chosen = sorted(picked.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    given_rows = Rows(
        strings([value for _, value, _ in rows]),
        strings([key for key, _, _ in rows]),
        headers([found for _, _, found in rows]),
    )
    batch = batch_of(given_rows, np.array(chosen, np.int64), timestamp_ms=77, codec=codec, kernel=kernel)
    read = [
        (each.offset, each.timestamp, each.key, each.value, list(each.headers))
        for each in decode_batch(batch)
    ]
    assert read == [(at, 77, *rows[row][:2], rows[row][2]) for at, row in enumerate(chosen)]
    assert len(batch) - 61 <= sizes_of(given_rows)[chosen].sum() or codec


def test_both_encoders_write_the_same_bytes() -> None:
    compiled = columns.compiled()
    if compiled is None:
        pytest.skip("numba is not installed")
    values: list[bytes | None] = [b"x" * size for size in (0, 1, 63, 64, 8191, 8192)] + [None]
    rows = Rows(
        strings(values),
        strings([*reversed(values)]),
        headers([[("h", b"1")], [], [], [], [], [], [("", None)]]),
    )
    every = np.arange(len(values))
    slow, fast = (batch_of(rows, every, timestamp_ms=5, kernel=each) for each in (batching._SLOW, compiled))
    assert bytes(slow) == bytes(fast)


@pytest.mark.parametrize(
    ("key", "number"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_own_tests(key: bytes, number: int) -> None:
    assert murmur2(key) == number & 0xFFFFFFFF


@pytest.mark.parametrize("kernel", KERNELS)
@settings(deadline=None)
@given(keys=st.lists(some_bytes, min_size=1, max_size=30))
def test_the_partitioner_hashes_keys_and_leaves_nulls(kernel: ModuleType, keys: list[bytes | None]) -> None:
    found = partition_numbers(strings(keys), kernel=kernel)
    assert found.tolist() == [-1 if key is None else murmur2(key) & 0x7FFFFFFF for key in keys]


def test_keys_land_where_another_client_puts_them(cluster: Cluster, topics: Topics) -> None:
    name = topics.create(7)
    keys = [b"key-%d" % number for number in range(200)]
    landed: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(name, b"v", key, on_delivery=lambda _, m: landed.__setitem__(m.key(), m.partition()))
    assert producer.flush(60) == 0
    assert [landed[key] for key in keys] == (partition_numbers(strings([*keys])) % 7).tolist()

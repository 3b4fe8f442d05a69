"""Metadata records as bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoka.model.records import MetadataRecord, decode_record, encode_record
from epoka.wire.errors import WireError
from epoka.wire.messages import metadata_records as m
from tests.model.strategies import histories


@given(histories(max_steps=10))
def test_a_record_comes_back_as_it_was(history: list[MetadataRecord]) -> None:
    for record in history:
        assert decode_record(encode_record(record)) == record


def test_the_frame_is_frame_version_key_and_version() -> None:
    assert encode_record(m.RemoveTopicRecord()) == bytes([1, 9, 0]) + bytes(16) + bytes([0])


@pytest.mark.parametrize(
    "frame", [b"", b"\x01", b"\x01\x09", b"\x02\x09\x00", b"\x01\x63\x00", b"\x01\x09\x09", b"\xff" * 9]
)
def test_what_is_not_a_record_is_a_wire_error(frame: bytes) -> None:
    with pytest.raises(WireError):
        decode_record(frame)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_a_wire_error(frame: bytes) -> None:
    with contextlib.suppress(WireError):
        decode_record(frame)

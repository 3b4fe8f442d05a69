"""Columns as Spark gets them; without Spark."""

from __future__ import annotations

import pytest

from epoka.client import columns
from epoka.spark.arrow import BatchMaker
from epoka.wire.records import encode_batch


@pytest.mark.parametrize(
    ("name", "read"), [("né".encode(), "né"), (b"n\xe9!", "n\ufffd!"), (b"\xff\xfe!", "\ufffd\ufffd!")]
)
def test_a_header_name_that_is_not_text_fails_no_query(
    monkeypatch: pytest.MonkeyPatch, name: bytes, read: str
) -> None:
    """Kafka's clients let nobody write such a name, and read it as this does."""
    rows = [(None, b"v", 0, headers) for headers in ((("a", b"1"),), (), (("???", b"2"), ("z", None)))]
    buffer = encode_batch(rows).replace(b"???", name)
    monkeypatch.setattr(columns, "crc_ok", lambda *_: True)
    (chunk,) = columns.decode(memoryview(buffer), 0, 3, about="t-0")
    (made,) = BatchMaker(("headers",), "t", 0).batches(chunk)
    made.validate(full=True)
    assert made.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}],
        None,
        [{"key": read, "value": b"2"}, {"key": "z", "value": None}],
    ]

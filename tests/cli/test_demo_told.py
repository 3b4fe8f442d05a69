"""What `epoka demo` says of what it has read."""

from __future__ import annotations

from epoka.cli.demo import _told_read


def test_nothing_read_is_told_without_a_rate() -> None:
    assert _told_read(2_000, 0.5) == "read  2,000 records of 256 bytes in 0.50 s: 4,000/s"
    assert _told_read(0, 0.0) == "read  0 records of 256 bytes in 0.00 s"

"""The sparse index: sparse, growing, and never believed when it is wrong."""

from __future__ import annotations

from itertools import pairwise

import pytest

from epoka.log import LogConfig, PartitionLog, Store
from epoka.log.segment import Segment
from tests.log.logs import append, offsets_in, open_log, values_in

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
FIRST = "00000000000000000000"


def filled(store: Store, batches: int = 200) -> PartitionLog:
    log = open_log(store, CONFIG)
    for index in range(batches):
        append(log, (None, b"v%03d" % index * 20, 1000 + index))
    return log


def test_entries_grow_in_offset_position_and_time_and_are_an_interval_apart(store: Store) -> None:
    log = filled(store)
    segment: Segment = log._segments[0]
    entries = segment.index_entries
    assert len(entries) > 10
    for before, after in pairwise(entries):
        assert before[0] < after[0]
        assert after[1] - before[1] >= 500
        assert before[2] <= after[2]
    assert len(entries) < segment.size // 500 + 2


@pytest.mark.parametrize("damage", ["missing", "cut", "zeros", "shuffled", "shifted", "noise"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_file_that_is_wrong_is_made_again(store: Store, damage: str, suffix: str) -> None:
    log = filled(store)
    expected = values_in(log)
    lookup = log.offset_for_timestamp(1050)
    log.close()
    content = store.read_all(FIRST + suffix)
    assert content
    entry = 8 if suffix == ".index" else 12
    broken = {
        "missing": None,
        "cut": content[: len(content) // 2 + 3],
        "zeros": bytes(len(content)),
        "shuffled": content[entry * 4 :] + content[: entry * 4],
        "shifted": content[3:],
        "noise": bytes((byte * 7 + 13) % 256 for byte in content),
    }[damage]
    store.delete(FIRST + suffix)
    if broken is not None:
        store.replace(FIRST + suffix, broken)
    again = open_log(store, CONFIG, recovery_point=200, clean=True)
    assert values_in(again) == expected
    assert again.offset_for_timestamp(1050) == lookup
    for offset in range(0, 200, 7):
        assert offsets_in(again.read(offset, 100))[0][0] == offset


def test_an_index_that_leads_to_the_wrong_batch_is_noticed_when_it_is_used(store: Store) -> None:
    log = filled(store)
    log.close()
    again = open_log(store, CONFIG, recovery_point=200, clean=True)
    segment: Segment = again._segments[0]
    offset, position, _timestamp = segment.index_entries[5]
    following = segment.index_entries[6]
    segment._positions[5] = (position + following[1]) // 2
    assert offsets_in(again.read(offset, 200))[0][0] == offset
    assert segment.index_entries[5][1] == position


def test_the_index_of_the_active_segment_survives_a_crash_as_far_as_it_was_flushed(store: Store) -> None:
    log = filled(store, 100)
    log.flush()
    stored = len(store.read_all(segment_file(log, ".index")) or b"")
    assert stored > 0
    for index in range(20):
        append(log, b"w%d" % index * 30)
    recovery_point = log.recovery_point
    again = open_log(store, CONFIG, recovery_point=recovery_point)
    assert again.end_offset == 120
    assert values_in(again)[100:] == [b"w%d" % index * 30 for index in range(20)]


def test_stored_entries_above_the_recovery_point_are_not_believed(store: Store) -> None:
    log = filled(store, 80)
    log.close()
    entries = log._segments[0].index_entries
    content = bytearray(store.read_all(FIRST + ".index") or b"")
    times = bytearray(store.read_all(FIRST + ".timeindex") or b"")
    content[5 * 8 + 3] += 1
    times[5 * 12 + 11] += 1
    store.replace(FIRST + ".index", bytes(content))
    store.replace(FIRST + ".timeindex", bytes(times))
    believed = open_log(store, CONFIG, recovery_point=80)._segments[0].index_entries
    assert believed != entries
    checked = open_log(store, CONFIG, recovery_point=entries[5][0])._segments[0].index_entries
    assert checked == entries


def segment_file(log: PartitionLog, suffix: str) -> str:
    return f"{log.segment_bases[-1]:020d}{suffix}"

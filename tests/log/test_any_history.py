"""Any history of appends, flushes, truncations, deletions and crashes against a list that cannot be wrong."""

from __future__ import annotations

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from epoka.log import Appended, LogConfig, LogDirectory, MemoryStore, PartitionLog
from epoka.wire.records import encode_batch, validate
from tests.log.logs import NOW, offsets_in, records_in

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=150)
TOPIC = UUID(int=1)


class History(RuleBasedStateMachine):
    """`records` is what the log should hold: (offset, value, leader epoch), from the log start on.

    `durable` is how many offsets no crash may take: what was flushed and not truncated since.
    """

    @initialize()
    def begin(self) -> None:
        self.store = MemoryStore()
        self.generation = 0
        self.epoch = 0
        self.sequence = 0
        self.serial = 0
        self.records: list[tuple[int, bytes, int]] = []
        self.start = 0
        self.durable = 0
        self.open()
        self.directory.create("t", 0, TOPIC)

    def open(self) -> None:
        self.directory = LogDirectory.open(
            self.store,
            cluster_id="c",
            node_id=1,
            now=NOW,
            directory_id=UUID(int=2),
            config_of=lambda topic: CONFIG,
        )

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs["t", 0]

    @property
    def end(self) -> int:
        return self.records[-1][0] + 1 if self.records else self.start

    @rule(count=st.integers(1, 4), size=st.integers(1, 90), batches=st.integers(1, 3))
    def append(self, count: int, size: int, batches: int) -> None:
        buffer = bytearray()
        for _ in range(batches):
            values = []
            for _ in range(count):
                self.serial += 1
                values.append(b"%06d" % self.serial * (size // 6 + 1))
            buffer += encode_batch([(None, value, NOW) for value in values])
            for value in values:
                self.records.append((self.end, value, self.epoch))
        done = self.log.append_as_leader(buffer, validate(buffer, max_batch_bytes=1 << 20), self.epoch, NOW)
        assert isinstance(done, Appended)
        assert done.last_offset == self.end - 1

    @rule()
    def next_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.durable = self.end

    @rule()
    def flush_sealed(self) -> None:
        self.log.flush_sealed()
        self.durable = max(self.durable, min(self.log.recovery_point, self.end))

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint()

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        target = max(self.start, self.end - back)
        end = self.log.truncate_to(target)
        assert end <= target
        self.records = [record for record in self.records if record[0] < end]
        self.start = min(self.start, self.log.log_start_offset)
        self.durable = min(self.durable, end)
        self.epoch += 1

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        target = self.start + int((self.end - self.start) * share)
        self.start = self.log.delete_records_before(target)
        assert self.start == target
        end = self.end
        self.records = [record for record in self.records if record[0] >= self.start]
        if not self.records:
            self.start = end

    @rule()
    def retain(self) -> None:
        self.log.apply_retention(NOW, self.end)

    @rule()
    def restart_cleanly(self) -> None:
        self.generation += 1
        self.directory.shutdown(self.generation)
        self.durable = self.end
        self.open()
        assert self.directory.previous_generation == self.generation
        assert self.log.recovery.cut is None

    @rule()
    def kill_the_process(self) -> None:
        """What was written stays in the page cache."""
        self.directory.abandon()
        self.open()
        assert self.log.recovery.cut is None

    @rule(data=st.data())
    def crash_the_machine(self, data: st.DataObject) -> None:
        self.store.crash(lambda name, unflushed: data.draw(st.integers(0, unflushed)))
        self.open()
        end = self.log.end_offset
        assert min(self.durable, self.end) <= end <= max(self.end, self.start)
        self.records = [record for record in self.records if record[0] < end]
        self.epoch += 1

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def read_somewhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end - 1))
        found = offsets_in(self.log.read(offset, data.draw(st.integers(1, 2000))))
        assert found
        assert found[0][0] <= offset <= found[0][1]

    @invariant()
    def the_log_is_the_list(self) -> None:
        assert self.log.end_offset == self.end
        assert self.log.log_start_offset == self.start
        assert [(record.offset, record.value) for record in records_in(self.log)] == [
            (offset, value) for offset, value, _epoch in self.records
        ]

    @invariant()
    def every_record_is_in_the_epoch_it_was_written_in(self) -> None:
        for offset, _value, epoch in self.records:
            assert self.log.epochs.epoch_of(offset) == epoch


History.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyHistory = History.TestCase

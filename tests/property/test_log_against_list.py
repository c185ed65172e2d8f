"""The log against a plain list, through appends, reads, rolls, retention, clean stops, crashes and torn tails."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kohort.errors import ApiError, ErrorCode
from kohort.wire.record_batch import read_batch, split_batches
from support.machines.log_stage import OPTIONS, LogStage, batch, values_from

TIMES = st.one_of(st.just(-1), st.integers(1_600_000_000_000, 1_700_000_000_000))
values = st.lists(st.text("abc", max_size=120), min_size=1, max_size=6)


class LogAgainstList(RuleBasedStateMachine):
    """``records`` is the truth: offset, value, timestamp of everything that may be read."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = LogStage(retention_ms="-1")
        self.records: list[tuple[int, str, int]] = []
        self.next_offset = 0
        self.sequence = 0

    @property
    def log(self):
        return self.stage.log

    @rule(values=values, at_ms=TIMES)
    def append(self, values, at_ms):
        appended = self.stage.append(*values, at_ms=at_ms)
        self.remember(values, at_ms, appended)

    @rule(values=values, repeat=st.booleans())
    def append_as_a_producer(self, values, repeat):
        records = batch(values, at_ms=5, producer_id=9, producer_epoch=0, base_sequence=self.sequence)
        appended = self.log.append(records, self.stage.now_ms)
        assert not appended.duplicate
        self.sequence += len(values)
        self.remember(values, 5, appended)
        if repeat:
            again = self.log.append(records, self.stage.now_ms)
            assert again == appended._replace(duplicate=True)

    def remember(self, values, at_ms, appended):
        assert (appended.base_offset, appended.last_offset) == (self.next_offset, self.next_offset + len(values) - 1)
        self.records += [(self.next_offset + i, value, at_ms) for i, value in enumerate(values)]
        self.next_offset += len(values)

    @rule(at=st.floats(0, 1), max_bytes=st.integers(0, 3000))
    def read(self, at, max_bytes):
        start = self.log.log_start_offset
        offset = start + int(at * (self.next_offset - start))
        buffers = self.log.read(offset, max_bytes)
        data = b"".join(buffers)
        found = [r for place, _ in split_batches(data) for r in read_batch(data, place) if r.offset >= offset]
        expected = [(o, v) for o, v, _ in self.records if o >= offset][: len(found)]
        assert [(r.offset, r.value.decode()) for r in found] == expected
        assert bool(found) == (offset < self.next_offset)
        assert len(data) <= max_bytes or len(list(split_batches(data))) == 1
        assert self.log.bytes_available(offset) >= len(data)

    @rule(time=st.integers(1_599_999_999_999, 1_700_000_000_001))
    def find_by_time(self, time):
        expected = next(((o, at) for o, _, at in self.records if at >= time), None)
        found = self.log.find_by_time(time)
        assert (found[:2] if found else None) == expected

    @rule()
    def find_the_latest(self):
        latest = max((at for _, _, at in self.records), default=-1)
        expected = next(((o, at) for o, _, at in self.records if at == latest), None)
        found = self.log.max_timestamp()
        assert (found[:2] if found else None) == expected

    @rule(at=st.floats(0, 1))
    def delete_records(self, at):
        start = self.log.log_start_offset
        offset = start + int(at * (self.next_offset - start))
        assert self.log.delete_records_before(offset) == offset
        self.log.retain(self.stage.now_ms)
        self.stage.topics._upkeep.write_checkpoints()
        self.records = [r for r in self.records if r[0] >= offset]

    @rule(keep=st.integers(0, 5000))
    def retain_by_size(self, keep):
        self.stage.topics.alter_config("orders", OPTIONS | {"retention.ms": "-1", "retention.bytes": str(keep)})
        size = self.log.size_bytes
        self.log.retain(self.stage.now_ms)
        assert self.log.size_bytes >= min(size, keep)
        self.forget_what_was_retained()
        self.stage.topics.alter_config("orders", OPTIONS | {"retention.ms": "-1"})

    def forget_what_was_retained(self):
        self.records = [r for r in self.records if r[0] >= self.log.log_start_offset]

    @rule()
    def flush(self):
        self.log.flush()
        self.stage.topics._upkeep.write_checkpoints()

    @rule()
    def idle(self):
        self.stage.clock.advance(61_000)
        self.stage.topics.tick(self.stage.now_ms)

    @rule()
    def stop_and_start(self):
        assert self.stage.restart() == []

    @rule()
    def crash(self):
        assert not any("truncated" in note for note in self.stage.crash())

    @precondition(lambda self: self.log.segments[-1].size)
    @rule(torn=values, data=st.data())
    def crash_in_the_middle_of_an_append(self, torn, data):
        whole = batch(torn, base_offset=self.next_offset)
        kept = data.draw(st.integers(1, len(whole) - 1))
        name = f"orders-0/{self.log.segments[-1].log_name}"
        self.stage.storage.open(name).append([whole[:kept]])
        notes = self.stage.crash()
        assert any(f"truncated {kept} bytes at offset {self.next_offset}" in note for note in notes)

    @precondition(lambda self: self.next_offset > self.log.recovery_point)
    @rule(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 63), torn=st.integers(0, 60))
    def crash_and_a_base_offset_loses_a_bit(self, at, bit, torn):
        unflushed = self.log._unflushed_segments()
        batches = [(segment, position) for segment in unflushed for position, _ in segment.headers()]
        segment, position = batches[int(at * len(batches))]
        data = self.stage.storage._folders["orders-0"][segment.log_name]
        data[position + bit // 8] ^= 1 << bit % 8
        self.stage.storage.open(f"orders-0/{self.log.segments[-1].log_name}").append([batch(["torn"])[:torn]])
        notes = self.stage.crash()
        assert any("repaired base offset" in note for note in notes)
        assert any("truncated" in note for note in notes) == bool(torn)

    @invariant()
    def the_log_is_the_list(self):
        self.stage.check()
        start = self.log.log_start_offset
        assert self.log.log_end_offset == self.next_offset
        assert [r[0] for r in self.records] == list(range(start, self.next_offset))
        assert values_from(self.log, start) == [value for _, value, _ in self.records]
        for beyond in (start - 1, self.next_offset + 1):
            with pytest.raises(ApiError) as error:
                self.log.read(beyond, 1)
            assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=20, stateful_step_count=20)

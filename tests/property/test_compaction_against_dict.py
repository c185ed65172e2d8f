"""A compacted log against a plain dict, through appends, tombstones, compactions, clean stops and crashes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from support.machines.compacting_machine import HORIZON_MS, CompactingMachine
from support.machines.log_stage import LogStage

KEYS = [b"a", b"b", b"", b"a longer key", b"e"]
pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.text("xyz", max_size=80)), min_size=1, max_size=6)


class CompactionAgainstDict(CompactingMachine):
    """``appended`` is every record there ever was, by offset; ``latest`` the last value of every key."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = LogStage(
            cleanup_policy="compact", min_cleanable_dirty_ratio="0", delete_retention_ms=str(HORIZON_MS)
        )
        self.appended: dict[int, tuple[bytes, bytes | None, int]] = {}
        self.latest: dict[bytes, bytes | None] = {}
        self.sequence = 0

    @rule(pairs=pairs, codec=st.sampled_from([Codec.NONE, Codec.LZ4]), timed=st.booleans(), produced=st.booleans())
    def append(self, pairs, codec, timed, produced):
        at_ms = self.stage.now_ms if timed else -1
        records = [
            NewRecord(key, None if value is None else value.encode(), (("h", b"1"),), at_ms) for key, value in pairs
        ]
        producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": self.sequence} if produced else {}
        at = self.log.append(build_batch(records, codec=codec, **producer), self.stage.now_ms).base_offset
        self.sequence += len(pairs) * produced
        for i, record in enumerate(records):
            self.appended[at + i] = (record.key, record.value, at_ms)
            self.latest[record.key] = record.value

    @rule()
    def crash(self):
        notes = self.stage.crash()
        assert not any("truncated" in note or "missing" in note for note in notes), notes

    @rule()
    def compact_whole(self):
        """After a compaction each key is unique in the dirty part, and no expired tombstone is left."""
        self.log.roll(self.stage.now_ms) if self.log.segments[-1].size else None
        self.compact_all_that_is_dirty()
        keys = [key for _, key, _ in self.records()]
        assert len(keys) == len(set(keys))

    def records(self):
        found, offset = [], self.log.log_start_offset
        while offset < self.log.log_end_offset:
            data = b"".join(self.log.read(offset, 1 << 20))
            assert data
            for at, header in split_batches(data):
                for record in read_batch(data, at):
                    assert self.appended[record.offset] == (record.key, record.value, record.timestamp_ms)
                    assert record.headers == [("h", b"1")]
                    found.append((record.offset, record.key, record.value))
                assert header.base_offset >= offset
                offset = header.next_offset
        return found

    @invariant()
    def the_log_gives_the_dict(self):
        self.stage.check()
        assert self.log.log_end_offset == len(self.appended)
        records = self.records()
        assert [r[0] for r in records] == sorted({r[0] for r in records})
        state = {key: value for _, key, value in records}
        assert _living(state) == _living(self.latest)
        if self.sequence:
            again = self.log.producers.get(9)
            assert again is not None
            assert again.last_sequence == self.sequence - 1


def _living(state):
    return {key: value for key, value in state.items() if value is not None}


TestCompactionAgainstDict = CompactionAgainstDict.TestCase
TestCompactionAgainstDict.settings = settings(max_examples=30, stateful_step_count=25)

"""A compacted log of transactions against a plain dict: as a consumer of committed records reads it, through aborts,
compactions, horizons, clean stops, crashes, lost snapshots, and days after which producers are forgotten."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from kohort.columns.batches import AbortedFilter
from kohort.wire.record_batch import Marker, NewRecord, build_batch, parse_marker, read_batch, split_batches
from support.machines.compacting_machine import HORIZON_MS, CompactingMachine
from support.machines.log_stage import LogStage

KEYS = [b"a", b"b", b"c"]
PRODUCERS = [1, 2, 3]
pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.text("xyz", max_size=40)), min_size=1, max_size=3)


class CompactedTransactions(CompactingMachine):
    """``decided`` is every record that counts, by offset; ``pending`` those of each transaction that is open;
    ``last_write_ms`` when each producer wrote something last."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: dict[int, tuple[bytes, bytes | None]] = {}
        self.pending: dict[int, dict[int, tuple[bytes, bytes | None]]] = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.last_write_ms: dict[int, int] = {}
        self.marked: set[int] = set()

    @initialize(budget=st.sampled_from([1, 400, 1 << 20]))
    def begin(self, budget):
        """A small budget of memory makes a compaction end in the middle of a segment."""
        self.stage = LogStage(
            compaction_bytes=budget,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0",
            delete_retention_ms=str(HORIZON_MS),
        )

    @rule(pairs=pairs, producer=st.sampled_from([None, *PRODUCERS]))
    def append(self, pairs, producer):
        records = [
            NewRecord(key, None if value is None else value.encode(), (), self.stage.now_ms) for key, value in pairs
        ]
        options = {}
        into = self.decided
        if producer is not None:
            sequence = self.sequences[producer]
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "is_transactional": True,
            }
            self.sequences[producer] += len(records)
            self.last_write_ms[producer] = self.stage.now_ms
            into = self.pending.setdefault(producer, {})
        at = self.log.append(build_batch(records, **options), self.stage.now_ms).base_offset
        into.update({at + i: (record.key, record.value) for i, record in enumerate(records)})

    @rule(producer=st.sampled_from(PRODUCERS), committed=st.booleans())
    def end(self, producer, committed):
        """With nothing written, too: Kafka writes a marker into each partition that was named to the coordinator."""
        self.marked.add(self.log.end_transaction(Marker(producer, 0, committed, 0), self.stage.now_ms).base_offset)
        ended = self.pending.pop(producer, {})
        self.decided.update(ended if committed else {})

    @rule(lost=st.integers(0, 2))
    def crash(self, lost):
        """Crash and lose the latest snapshots, which are not flushed."""
        for name in sorted(self.stage.files(".snapshot"))[::-1][:lost]:
            self.stage.storage.delete(f"orders-0/{name}")
        notes = self.stage.crash()
        assert not any("truncated" in note or "missing" in note for note in notes), notes

    @precondition(lambda self: self.marked)
    @rule()
    def compact_whole(self):
        """After the retention times no marker is left, except the last of each live producer."""
        for producer in list(self.pending):
            self.end(producer, committed=False)
        producer_ids = {pid for pid, _ in self.log.producers}
        for _ in range(4):  # a tombstone gets its horizon, the data goes, the marker gets one, the marker goes
            self.append([(b"a", "x")], None)
            self.log.roll(self.stage.now_ms)
            self.compact_all_that_is_dirty()
            self.let_horizons_pass()
        met, of_nothing = set(), []
        for data, header in self.batches(0):
            if header.is_control and parse_marker(data, header) is not None:
                if header.producer_id not in met:
                    of_nothing.append(header.producer_id)
                met.discard(header.producer_id)
            elif header.is_transactional and not header.is_control:
                met.add(header.producer_id)
        needed = producer_ids - {pid for pid, producer in self.log.producers if producer.batches}
        assert set(of_nothing) <= needed, f"markers without records are left of producers {of_nothing}"

    def batches(self, start):
        offset = start
        while offset < self.log.last_stable_offset:
            data = b"".join(self.log.read(offset, 1 << 20, end=self.log.last_stable_offset))
            assert data
            for at, header in split_batches(data):
                assert header.base_offset >= offset
                yield data[at : at + header.size], header
                offset = header.next_offset

    def committed_records(self):
        taken_back = self.log.aborted.between(self.log.log_start_offset, self.log.last_stable_offset)
        aborted = AbortedFilter([(a.producer_id, a.first_offset) for a in taken_back])
        for data, header in self.batches(self.log.log_start_offset):
            if not aborted.skips(header, data, 0) and not header.is_control:
                yield from read_batch(data, 0)

    @invariant()
    def what_was_committed_is_read(self):
        self.stage.check()
        first_open = min((min(records) for records in self.pending.values()), default=self.log.log_end_offset)
        assert self.log.last_stable_offset == first_open
        read = {}
        for record in self.committed_records():
            assert self.decided[record.offset] == (record.key, record.value)
            read[record.key] = record.value
        latest = {key: value for at, (key, value) in sorted(self.decided.items()) if at < first_open}
        assert _living(read) == _living(latest)

    @invariant()
    def producers_are_known(self):
        for pid, sequence in self.sequences.items():
            if sequence and self.stage.now_ms - self.last_write_ms[pid] < self.stage.config.producer_id_expiration_ms:
                assert self.log.producers.get(pid).last_sequence == sequence - 1


def _living(state):
    return {key: value for key, value in state.items() if value is not None}


TestCompactedTransactions = CompactedTransactions.TestCase
TestCompactedTransactions.settings = settings(max_examples=30, stateful_step_count=30)

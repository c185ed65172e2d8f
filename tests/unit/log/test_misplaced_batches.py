"""A flipped bit in a base offset, which the CRC does not cover: detected, repaired if possible, reported."""

import struct

import pytest

from kohort.errors import ApiError, CorruptRecord, ErrorCode
from kohort.log.batches import original_base_offset
from kohort.wire.record_batch import parse_batch_header, read_batch, split_batches
from support.machines.log_stage import LogStage, batch

COUNT = 40
BITS = [0, 1, 2, 4, 5, 6, 12, 20, 30, 31, 32, 40, 62, 63]
WHICH = {"the first": 0, "one in the middle": 13, "the last of its segment": -1, "the last of all": COUNT - 1}


def flip(stage, offset, bit):
    segment, position = next(
        (segment, position)
        for segment in stage.log.segments
        for position, header in segment.headers()
        if header.base_offset == offset
    )
    stage.storage._folders["orders-0"][segment.log_name][position + 7 - bit // 8] ^= 1 << bit % 8


def filled(**options):
    stage = LogStage(**options)
    return stage, dict(enumerate(stage.fill(COUNT)))


def ends_of_segments(stage):
    return [segment.base_offset - 1 for segment in stage.log.segments[1:]]


def chosen(stage, which):
    return ends_of_segments(stage)[1] if which == "the last of its segment" else WHICH[which]


def handed_out(log, offset=0):
    found = {}
    while offset < log.log_end_offset:
        try:
            data = b"".join(log.read(offset, 1 << 20))
        except ApiError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            return found, offset
        assert data, f"no batch and no error at {offset}"
        for at, header in split_batches(data):
            found |= {r.offset: (r.value or b"").decode() for r in read_batch(data, at)}
            offset = header.next_offset
    return found, None


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("which", WHICH)
def test_unclean_restart_repairs_base_offset(which, bit):
    stage, names = filled()
    flip(stage, chosen(stage, which), bit)

    notes = stage.crash()

    assert stage.log.log_end_offset == COUNT
    assert handed_out(stage.log) == (names, None)
    assert [note for note in notes if ": repaired base offset " in note]
    assert not [note for note in notes if "truncated" in note or "deleted" in note]
    stage.append("next")
    stage.check()
    assert not [note for note in stage.crash() if "repaired base offset" in note], "the first start repaired the file"


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("which", WHICH)
def test_clean_restart_repairs_or_rejects_base_offset(which, bit):
    stage, names = filled()
    stage.topics.close()
    flip(stage, chosen(stage, which), bit)

    stage.crash()

    assert stage.log.log_end_offset == COUNT
    found, refused_at = handed_out(stage.log)
    assert found.items() <= names.items()
    if refused_at is not None:
        assert refused_at == chosen(stage, which), "batches before the damaged one are readable"
        behind, refused_again = handed_out(stage.log, refused_at + 1)
        assert (behind, refused_again) == ({k: v for k, v in names.items() if k > refused_at}, None)


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("which", WHICH)
def test_reads_of_running_broker_skip_no_records(which, bit):
    stage, names = filled()
    offset = chosen(stage, which)
    flip(stage, offset, bit)

    for start in (0, offset):
        found, refused_at = handed_out(stage.log, start)
        assert found == {k: v for k, v in names.items() if start <= k < offset}
        assert refused_at == offset


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("bit", BITS)
def test_compacted_log_starts_with_misplaced_batch(bit, clean):
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for i in range(60):
        stage.append(f"value {i} {'x' * 40}", key=b"k%d" % (i % 7))
    for _ in range(20):
        stage.clock.advance(15_000)
        stage.topics.tick(stage.now_ms)
    kept, _ = handed_out(stage.log)
    assert len(kept) < 40, "the compacted log has gaps"
    offset = sorted(kept)[len(kept) // 3]
    if clean:
        stage.topics.close()
    flip(stage, offset, bit)

    stage.crash()

    found, _ = handed_out(stage.log)
    others = {k: v for k, v in found.items() if v != kept[offset]}
    assert others.items() <= kept.items()
    assert max(kept) - 1 <= stage.log.log_end_offset <= 60
    stage.append("next", key=b"k")


def test_compaction_stops_at_misplaced_batch():
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for i in range(60):
        stage.append(f"value {i} {'x' * 40}", key=b"k%d" % (i % 7))
    flip(stage, 5, 40)

    notes = []
    for _ in range(10):
        stage.clock.advance(15_000)
        notes += map(str, stage.topics.tick(stage.now_ms))

    assert [note for note in notes if "cannot be compacted" in note]
    assert stage.append("next", key=b"k").base_offset == 60


def test_rebuilt_index_ends_before_bad_batch():
    stage, names = filled()
    stage.topics.close()
    offset = ends_of_segments(stage)[0] - 2
    flip(stage, offset, 40)
    first = f"{0:020d}"
    for ending in ("index", "timeindex"):
        del stage.storage._folders["orders-0"][f"{first}.{ending}"]
    stage.crash()

    found, refused_at = handed_out(stage.log)

    assert (found, refused_at) == ({k: v for k, v in names.items() if k < offset}, offset)
    assert any(f"where {offset + 1}" in str(note) or "batch" in str(note) for note in stage.log.take_notes())


@pytest.mark.parametrize("damage", ["length", "zeros"])
def test_damage_in_later_segment_hides_no_earlier_record(damage):
    stage, names = filled(segment_bytes="4000")
    stage.topics.close()
    last = stage.log.segments[1]
    data = stage.storage._folders["orders-0"][last.log_name]
    if damage == "length":
        struct.pack_into(">i", data, 8, -1)
    else:
        data[:] = bytes(len(data))
    stage.crash()

    for start in (0, last.base_offset // 2):
        found, refused_at = handed_out(stage.log, start)
        assert found == {k: v for k, v in names.items() if start <= k < last.base_offset}
        assert refused_at in (last.base_offset, None)


def test_time_index_beyond_log_end_is_rebuilt():
    stage, names = filled()
    stage.topics.close()
    index = stage.storage._folders["orders-0"][f"{stage.log.segments[-1].base_offset:020d}.timeindex"]
    index[-2] ^= 0x40

    notes = stage.crash()

    assert "timeindex has offset" in notes[0]
    stage.clock.advance(5)
    assert stage.append("next").base_offset == COUNT
    assert handed_out(stage.log) == ({**names, COUNT: "next"}, None)
    stage.check()


def test_damaged_leader_epoch_is_ignored():
    for bit in range(30, 32):
        stage, names = filled()
        data = stage.storage._folders["orders-0"][stage.log.segments[-1].log_name]
        data[12 + 3 - bit // 8] ^= 1 << bit % 8

        stage.crash()

        assert stage.log.leader_epoch == 1
        stage.append("next")
        assert handed_out(stage.log)[0] == {**names, COUNT: "next"}


@pytest.mark.parametrize(
    ("stored_offset", "expected", "after", "contiguous", "original_offset"),
    [
        (7, 7, None, True, 7),
        (7 ^ 1 << 40, 7, 8, True, 7),
        (-(1 << 63) + 7, 7, 8, True, 7),
        (3, 7, 8, False, 7),
        (9, 7, 20, False, 9),  # a gap that compaction left
        (9, 7, None, False, 9),
        (9 ^ 1 << 40, 7, 20, False, 9),  # between gaps there is one place that a flipped bit leads to
        (5, 7, None, True, 7),
        (12, 7, 6, False, 12),  # the next one is wrong
        (4, 7, None, True, None),  # no flipped bit: the batch is misplaced
        (12, 7, 6, True, 12),
    ],
)
def test_original_base_offset_is_found_by_neighbours(stored_offset, expected, after, contiguous, original_offset):
    header = parse_batch_header(batch(["v"]))._replace(base_offset=stored_offset)

    if original_offset is None:
        with pytest.raises(Exception, match="expected 7"):
            original_base_offset(header, expected, after, 0, contiguous=contiguous)
    else:
        assert original_base_offset(header, expected, after, 0, contiguous=contiguous) == original_offset


@pytest.mark.parametrize("delta", [-1, -2, -(1 << 31)])
def test_original_base_offset_rejects_negative_length(delta):
    header = parse_batch_header(batch(["v"]))._replace(base_offset=7, last_offset_delta=delta)

    with pytest.raises(CorruptRecord, match="expected 7"):
        original_base_offset(header, 7, None, 0, contiguous=True)

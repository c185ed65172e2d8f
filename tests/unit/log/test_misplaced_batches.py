"""A flipped bit in the base offset of a batch, which its CRC does not cover: found, mended where it can be, told."""

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
    """Flip a bit in the base offset of the batch at ``offset``: bit 0 is the lowest."""
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
    """Every record that reads hand out, by its offset, and where they stopped with an error, if they did."""
    found = {}
    while offset < log.log_end_offset:
        try:
            data = b"".join(log.read(offset, 1 << 20))
        except ApiError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            return found, offset
        assert data, f"nothing at {offset} and no word about it"
        for at, header in split_batches(data):
            found |= {r.offset: (r.value or b"").decode() for r in read_batch(data, at)}
            offset = header.next_offset
    return found, None


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("which", WHICH)
def test_after_an_unclean_stop_it_is_mended_and_told_and_nothing_is_lost(which, bit):
    stage, names = filled()
    flip(stage, chosen(stage, which), bit)

    notes = stage.crash()

    assert stage.log.log_end_offset == COUNT
    assert handed_out(stage.log) == (names, None)
    assert [note for note in notes if ": repaired base offset " in note]
    assert not [note for note in notes if "cut" in note or "deleted" in note]
    stage.append("next")
    stage.check()
    assert not [note for note in stage.crash() if "said base offset" in note], "it was mended on the disk"


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("which", WHICH)
def test_after_a_clean_stop_it_is_mended_or_refused_and_never_believed(which, bit):
    stage, names = filled()
    stage.topics.close()
    flip(stage, chosen(stage, which), bit)

    stage.crash()

    assert stage.log.log_end_offset == COUNT
    found, refused_at = handed_out(stage.log)
    assert found.items() <= names.items()
    if refused_at is not None:
        assert refused_at == chosen(stage, which), "what lies before it is handed out"
        behind, refused_again = handed_out(stage.log, refused_at + 1)
        assert (behind, refused_again) == ({k: v for k, v in names.items() if k > refused_at}, None)


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("which", WHICH)
def test_while_the_broker_runs_no_reader_is_sent_past_records(which, bit):
    stage, names = filled()
    offset = chosen(stage, which)
    flip(stage, offset, bit)

    for start in (0, offset):
        found, refused_at = handed_out(stage.log, start)
        assert found == {k: v for k, v in names.items() if start <= k < offset}
        assert refused_at == offset


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("bit", BITS)
def test_a_compacted_log_starts_whatever_one_of_its_batches_says(bit, clean):
    stage = LogStage(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for i in range(60):
        stage.append(f"value {i} {'x' * 40}", key=b"k%d" % (i % 7))
    for _ in range(20):
        stage.clock.advance(15_000)
        stage.topics.tick(stage.now_ms)
    kept, _ = handed_out(stage.log)
    assert len(kept) < 40, "it has gaps"
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


def test_compaction_leaves_a_log_alone_whose_batches_contradict_each_other():
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


def test_an_index_made_anew_ends_before_the_bad_batch_and_hides_nothing_before_it():
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
def test_damage_in_a_later_segment_hides_no_record_before_it(damage):
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


def test_a_time_index_that_reaches_beyond_its_log_is_made_anew():
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


def test_a_leader_epoch_that_lost_a_bit_is_not_believed():
    for bit in range(30, 32):
        stage, names = filled()
        data = stage.storage._folders["orders-0"][stage.log.segments[-1].log_name]
        data[12 + 3 - bit // 8] ^= 1 << bit % 8

        stage.crash()

        assert stage.log.leader_epoch == 1
        stage.append("next")
        assert handed_out(stage.log)[0] == {**names, COUNT: "next"}


@pytest.mark.parametrize(
    ("given", "expected", "after", "contiguous", "said"),
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
        (4, 7, None, True, None),  # no flipped bit: it does not belong here
        (12, 7, 6, True, 12),
    ],
)
def test_where_a_batch_belongs(given, expected, after, contiguous, said):
    header = parse_batch_header(batch(["v"]))._replace(base_offset=given)

    if said is None:
        with pytest.raises(Exception, match="expected 7"):
            original_base_offset(header, expected, after, 0, contiguous=contiguous)
    else:
        assert original_base_offset(header, expected, after, 0, contiguous=contiguous) == said


@pytest.mark.parametrize("delta", [-1, -2, -(1 << 31)])
def test_a_batch_that_ends_before_it_begins_belongs_nowhere(delta):
    header = parse_batch_header(batch(["v"]))._replace(base_offset=7, last_offset_delta=delta)

    with pytest.raises(CorruptRecord, match="expected 7"):
        original_base_offset(header, 7, None, 0, contiguous=True)

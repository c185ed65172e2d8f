"""Position checks of batches against their neighbours, searches, and slices."""

import struct

import pytest

from kohort.errors import CorruptRecord, StorageError
from kohort.log.batches import Search, check_place, original_base_offset
from kohort.log.index import RELATIVE_OFFSET_MAX
from kohort.log.storage import MemoryFile
from kohort.wire.record_batch import HEADER_BYTES, BatchHeader, build_batch, parse_batch_header, split_batches
from support.machines.counted_reads import CountedFile
from support.machines.log_stage import LogStage, batch, values_from

THREE = parse_batch_header(batch(["a", "b", "c"]))


def at(base_offset: int, header: BatchHeader = THREE) -> BatchHeader:
    return header._replace(base_offset=base_offset)


def laid(*places: tuple[int, int]) -> tuple[MemoryFile, list[int]]:
    file, positions = MemoryFile(bytearray()), []
    for base, count in places:
        data = bytearray(batch(["v"] * count))
        data[:8] = struct.pack(">q", base)
        positions.append(file.append([data]))
    return file, positions


def search(file: MemoryFile, reach: int) -> Search:
    return Search(file, file.size, reach)


# ---------------------------------------------------------------- check_place


def test_check_place_accepts_batch_before_next_segment():
    check_place(at(7), 7, 0)
    check_place(at(9), 7, 0, before=12)


def test_check_place_rejects_batch_before_expected_offset():
    with pytest.raises(CorruptRecord, match=r"^batch has offsets 5 to 7, expected 6$"):
        check_place(at(5), 6, 0)


def test_check_place_rejects_batch_with_negative_length():
    with pytest.raises(CorruptRecord, match=r"^batch has offsets 7 to 6, expected 7$"):
        check_place(at(7)._replace(last_offset_delta=-1), 7, 0)


def test_check_place_rejects_batch_overlapping_next_segment():
    with pytest.raises(CorruptRecord, match=r"^batch ends at offset 11, but the next segment begins at 11$"):
        check_place(at(9), 7, 0, before=11)


def test_check_place_rejects_offset_beyond_index_range():
    farthest = 100 + RELATIVE_OFFSET_MAX - 2
    check_place(at(farthest), 7, 100)

    with pytest.raises(
        CorruptRecord, match=f"^batch ends at offset {farthest + 3}, too far from the segment's base offset 100$"
    ):
        check_place(at(farthest + 1), 7, 100)


# ---------------------------------------------------------------- original_base_offset


def repaired_offset(stored_offset: int, expected: int, after: int | None, **how: bool) -> int:
    return original_base_offset(at(stored_offset), expected, after, 0, **how)


def test_base_offset_after_gap_is_limited_by_index_range():
    farthest = RELATIVE_OFFSET_MAX - 2
    assert repaired_offset(farthest, 7, None, contiguous=False) == farthest

    with pytest.raises(CorruptRecord, match=f"^batch has offsets {farthest + 1} to {farthest + 3}, expected 7$"):
        repaired_offset(farthest + 1, 7, None, contiguous=False)


def test_base_offset_gap_at_end_of_contiguous_log_is_repaired():
    with pytest.raises(CorruptRecord, match=r"^batch has offsets 12 to 14, expected 7$"):
        repaired_offset(12, 7, None, contiguous=True)


def test_base_offset_of_batch_that_ends_at_next_batch_is_kept():
    assert repaired_offset(9, 7, 12, contiguous=False) == 9
    assert repaired_offset(9, 7, 12, contiguous=True) == 9


def test_base_offset_of_negative_length_batch_is_an_error():
    header = at(7)._replace(last_offset_delta=-1)
    with pytest.raises(CorruptRecord, match=r"^batch has offsets 7 to 6, expected 5$"):
        original_base_offset(header, 5, None, 0, contiguous=True)


# ---------------------------------------------------------------- search


def test_search_finds_batch_by_any_of_its_offsets():
    file, positions = laid((0, 3), (3, 1), (4, 4))

    found = [search(file, 8).find(offset, 0, 0) for offset in range(9)]

    assert found == [positions[0]] * 3 + [positions[1]] + [positions[2]] * 4 + [file.size]


def test_search_finds_next_batch_after_gap():
    file, positions = laid((0, 1), (5, 2), (20, 1))

    assert [search(file, 21).find(offset, 0, 0) for offset in (3, 5, 6, 7, 20)] == [
        *[positions[1]] * 3,
        *[positions[2]] * 2,
    ]


@pytest.mark.parametrize("begins", [1, 2])
def test_search_rejects_batch_overlapping_previous_batch(begins):
    file, positions = laid((0, 3), (begins, 4))

    with pytest.raises(
        CorruptRecord, match=f"^at position {positions[1]}: batch has offsets {begins} to .*, expected 3$"
    ):
        search(file, 7).find(4, 0, 0)


def test_search_rejects_batch_overlapping_next_batch():
    file, positions = laid((0, 1), (5, 3), (6, 4))

    with pytest.raises(CorruptRecord, match=f"^at position {positions[1]}: batch has offsets 5 to 7, expected 1$"):
        search(file, 10).find(6, 0, 0)
    assert search(file, 10).readable(0, file.size, 0, 10) == (positions[1], 1)


def test_search_skips_misplaced_batch_before_the_offset():
    file, positions = laid((0, 1), (1 << 40, 1), (2, 1))

    assert search(file, 3).find(2, 0, 0) == positions[2]


def test_search_of_misplaced_offset_raises_corrupt_record():
    file, positions = laid((0, 1), (1 << 40, 2), (3, 1))

    with pytest.raises(
        CorruptRecord, match=f"^at position {positions[1]}: batch has offsets {1 << 40} to .*, expected 1$"
    ):
        search(file, 4).find(1, 0, 0)


def test_search_rejects_misplaced_batch_with_the_offset():
    file, positions = laid((0, 1), (9, 2), (2, 1), (3, 6), (9, 2))

    for offset in (9, 10):
        with pytest.raises(CorruptRecord, match=f"^at position {positions[1]}: batch has offsets 9 to 10, expected 1$"):
            search(file, 11).find(offset, 0, 0)


def test_search_does_not_skip_two_misplaced_batches():
    file, positions = laid((0, 5), (50, 1), (2, 1), (7, 1))

    with pytest.raises(CorruptRecord, match=f"^at position {positions[2]}: batch has offsets 2 to 2, expected 5$"):
        search(file, 8).find(5, 0, 0)
    assert search(file, 8).find(7, 0, 0) == positions[3]


def test_search_can_go_back():
    file, positions = laid((0, 1), (1, 2), (3, 3))
    one = search(file, 6)

    assert [one.place(at)[:2] for at in reversed(positions)] == [(3, 5), (1, 2), (0, 0)]


def test_malformed_batch_error_has_its_position():
    file, positions = laid((0, 1), (1, 1))
    file.overwrite(positions[1] + 8, struct.pack(">i", 10))
    with pytest.raises(CorruptRecord, match=f"^at position {positions[1]}: invalid batch length 10$"):
        search(file, 2).place(positions[1])

    file.truncate(positions[1] + HEADER_BYTES - 1)
    shorter = f"^at position {positions[1]}: the file was truncated, or does not end with a batch$"
    with pytest.raises(CorruptRecord, match=shorter):
        search(file, 2).place(positions[1])


# ---------------------------------------------------------------- readable


def test_readable_returns_size_and_next_offset_of_whole_batches():
    file, positions = laid((0, 3), (3, 1), (4, 4))

    assert search(file, 8).readable(0, file.size, 0, 8) == (file.size, 8)
    assert search(file, 8).readable(0, file.size - 1, 0, 8) == (positions[2], 4)
    assert search(file, 8).readable(positions[1], file.size, 3, 8) == (file.size - positions[1], 8)
    assert search(file, 8).readable(0, file.size, 0, 4) == (positions[2], 4)


def test_readable_excludes_batch_overlapping_next_segment():
    file, positions = laid((0, 3), (3, 2))

    assert search(file, 5).readable(0, file.size, 0, 5) == (file.size, 5)
    assert search(file, 4).readable(0, file.size, 0, 4) == (positions[1], 3)
    with pytest.raises(CorruptRecord, match=f"^at position {positions[1]}: batch has offsets 3 to 4, expected 3$"):
        search(file, 4).readable(positions[1], file.size, 3, 4)


def test_readable_includes_batch_emptied_by_compaction():
    file, _ = laid((0, 1))
    file.append([build_batch([], base_offset=1)])
    file.append([build_batch([], base_offset=5)])

    assert search(file, 6).readable(0, file.size, 0, 6) == (file.size, 6)
    assert search(file, 6).find(1, 0, 0) == file.size - 2 * HEADER_BYTES


# ---------------------------------------------------------------- bytes read per search


def counted(*sizes: int) -> CountedFile:
    data = bytearray()
    for base, size in enumerate(sizes):
        data += struct.pack(">q", base) + batch(["x" * (size - len(batch([""])) - 8)])[8:]
    return CountedFile(data)


def test_search_of_small_batches_reads_each_byte_once():
    file = counted(*[200] * 2_000)

    Search(file, file.size, 2_000).find(1_999, 0, 0)

    assert sum(file.reads) < 1.1 * file.size


def test_search_reuses_its_window():
    file = counted(200, 200)
    one = search(file, 2)

    one.look(0, 4_096)

    assert one.place(0)[:2] == (0, 0)
    assert file.reads == [file.size]


def test_search_reuses_window_for_empty_last_batch():
    file = counted(200, 200)
    file.append([build_batch([], base_offset=2)])

    assert Search(file, file.size, 3).find(2, 0, 0) == file.size - HEADER_BYTES
    assert file.reads == [file.size]


def test_readable_reads_little_more_than_its_result():
    file = counted(*[200] * 2_000)

    size, _ = Search(file, file.size, 2_000).readable(0, 50_000, 0, 2_000)

    assert 49_500 < size <= 50_000
    assert sum(file.reads) < 1.5 * size


@pytest.mark.parametrize(("size", "read"), [(16_000, 65_536), (17_000, 4_096)])
def test_readable_reads_only_headers_of_large_batches(size, read):
    file = counted(*[size] * 50)

    Search(file, file.size, 50).readable(0, file.size, 0, 50)

    assert max(file.reads[1:]) == read


def stage_with(count: int, *, size: int = 500, segment_bytes: str = "1000000000") -> LogStage:
    stage = LogStage(segment_bytes=segment_bytes, max_message_bytes="100000000")
    for i in range(count):
        stage.append(f"{i} " + "x" * size)
    return stage


@pytest.mark.parametrize("preload", [0, 100, 5000, 1 << 20])
@pytest.mark.parametrize("max_bytes", [1, 700, 5000, 70_000, 1 << 20])
def test_slice_equals_read_for_any_preload(preload, max_bytes):
    stage = stage_with(300, segment_bytes="50000")
    for offset in (0, 7, 150, 299, 300):
        found = stage.log.slices(offset, max_bytes, preload=preload)
        data = b"".join(bytes(one.load()) for one in found)
        assert data == b"".join(bytes(b) for b in stage.log.read(offset, max_bytes))
        assert sum(map(len, found)) == len(data)
        if found:
            headers = [header for _, header in split_batches(data)]
            assert headers[0].base_offset == offset
            assert found[-1].next_offset == headers[-1].next_offset
            assert sum(len(one.prefix) for one in found) <= max(preload, 4096) + 4096 * len(found)


def test_slice_stops_before_end_offset():
    stage = stage_with(300)

    (one,) = stage.log.slices(0, 1 << 20, end=200)

    assert one.next_offset == 200
    assert one.preloaded is None


def test_slice_reads_in_pieces():
    stage = stage_with(300)
    (one,) = stage.log.slices(0, 1 << 20)

    pieces = [bytes(one.read(at, min(777, len(one) - at))) for at in range(0, len(one), 777)]

    assert b"".join(pieces) == b"".join(stage.log.read(0, 1 << 20))


def test_slice_does_not_preload_large_batch():
    stage = LogStage(segment_bytes="100000000", max_message_bytes="100000000")
    stage.append("x" * 3_000_000)

    (one,) = stage.log.slices(0, 1, preload=1 << 20)

    assert len(one) > 3_000_000
    assert len(one.prefix) <= 4096
    assert len(one.load()) == len(one)


def test_slice_is_unchanged_by_later_appends():
    stage = stage_with(100)
    before = b"".join(bytes(b) for b in stage.log.read(0, 1 << 20))
    (one,) = stage.log.slices(0, 1 << 20)

    stage.fill(100)

    assert bytes(one.load()) == before


def test_slice_reads_after_release_of_its_file():
    stage = stage_with(100)
    (one,) = stage.log.slices(0, 1 << 20)

    stage.log.release()
    stage.log.release()

    assert len(one.load()) == len(one)


def test_slice_of_deleted_segment_raises_and_creates_no_file():
    stage = stage_with(100, segment_bytes="20000")
    one = stage.log.slices(0, 10_000)[0]
    stage.log.delete_records_before(stage.log.log_end_offset)
    stage.log.retain(stage.now_ms)
    files = stage.files()

    with pytest.raises(StorageError, match="deleted during a read"):
        one.load()

    assert stage.files() == files


def test_slice_of_deleted_topic_raises():
    stage = stage_with(100)
    one = stage.log.slices(0, 1 << 20)[0]

    stage.topics.delete("orders", stage.now_ms)

    with pytest.raises(StorageError, match="deleted during a read"):
        one.load()


def test_slice_ends_before_malformed_batch_and_next_read_raises():
    stage = stage_with(100)
    good = len(b"".join(bytes(b) for b in stage.log.read(0, 1 << 20, end=60)))
    data = stage.storage._folders["orders-0"]["00000000000000000000.log"]
    data[good + 8 : good + 12] = b"\xff\xff\xff\xff"

    for preload in (0, 1 << 20):
        (one,) = stage.log.slices(0, 1 << 20, preload=preload)
        assert one.next_offset == 60


def test_search_finds_batches_of_all_sizes():
    stage = LogStage(segment_bytes="100000000", max_message_bytes="100000000")
    for size in (1, 70_000, 10, 4000, 65_000, 1, 200_000, 3):
        stage.log.append(batch(["x" * size]), stage.now_ms)

    (one,) = stage.log.slices(0, 1 << 30)

    assert one.next_offset == 8
    assert len(values_from(stage.log, 0, max_bytes=1 << 30)) == 8

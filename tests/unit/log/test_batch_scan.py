"""Scan of a batch file with all checks, one window at a time."""

import pytest

from kohort.errors import CorruptRecord
from kohort.log.batches import WINDOW_BYTES, checked_headers, whole_batches
from kohort.log.storage import MemoryFile
from support.machines.counted_reads import CountedFile
from support.machines.log_stage import batch


def sized(size: int) -> bytes:
    value = "x" * (size - len(batch([""])))
    while len(made := batch([value])) > size:
        value = value[1:]
    assert len(made) == size
    return made


def laid(*sizes: int) -> tuple[CountedFile, list[int]]:
    data, positions = bytearray(), []
    for size in sizes:
        positions.append(len(data))
        data += sized(size)
    return CountedFile(data), positions


LONG = (300_000,) * 5 + (WINDOW_BYTES,) + (300_000,) * 3 + (WINDOW_BYTES + 1,) + (100,) * 3 + (WINDOW_BYTES - 1, 200)


def test_scan_reads_one_window_at_a_time():
    file, positions = laid(*LONG)

    found = [(position, header.size) for position, header in checked_headers(file, file.size)]

    assert found == list(zip(positions, LONG, strict=True))
    assert max(file.reads) <= WINDOW_BYTES
    assert sum(file.reads) < 2 * file.size, "only batches across the end of a window are read twice"


def test_scan_reads_small_batches_once():
    file, _ = laid(*[70_000] * 14)

    assert len(list(checked_headers(file, file.size))) == 14

    assert file.reads == [file.size]


@pytest.mark.parametrize("size", [WINDOW_BYTES - 1, WINDOW_BYTES])
def test_scan_reads_window_sized_batch_once(size):
    file, _ = laid(size)

    assert len(list(checked_headers(file, file.size))) == 1

    assert file.reads == [size]


@pytest.mark.parametrize("which", range(len(LONG)))
def test_scan_detects_flipped_bit_at_any_window_boundary(which):
    file, positions = laid(*LONG)
    last = positions[which] + LONG[which] - 1
    file.overwrite(last, bytes((file.read(last, 1)[0] ^ 1,)))

    batches = checked_headers(file, file.size)

    assert [next(batches)[0] for _ in range(which)] == positions[:which]
    with pytest.raises(CorruptRecord, match=r"^CRC is 0x[0-9a-f]{8}, expected 0x[0-9a-f]{8}$"):
        next(batches)


def test_scan_reports_size_of_incomplete_last_batch():
    file, positions = laid(400_000, 400_000, 400_000)

    with pytest.raises(CorruptRecord, match=r"^batch incomplete: 399999 of 400000 bytes$"):
        list(checked_headers(file, file.size - 1))
    with pytest.raises(CorruptRecord, match=r"^a batch header of 60 bytes, fewer than 61$"):
        list(checked_headers(file, positions[2] + 60))


# ---------------------------------------------------------------- whole_batches


def piece(file: MemoryFile, at: int, end: int, size: int) -> list[tuple[int, int]]:
    data, found = whole_batches(file, at, end, size)
    assert data[: found[-1][0] + found[-1][1].size] == file.read(at, sum(header.size for _, header in found))
    return [(place, header.size) for place, header in found]


def test_whole_batches_returns_complete_batches():
    file, positions = laid(200, 300, 400, 500)

    assert piece(file, 0, file.size, 899) == [(0, 200), (200, 300)]
    assert piece(file, 0, file.size, 900) == [(0, 200), (200, 300), (500, 400)]
    assert piece(file, positions[2], file.size, 400) == [(0, 400)]
    assert piece(file, positions[2], file.size, 1 << 20) == [(0, 400), (400, 500)]


def test_whole_batches_returns_large_first_batch_alone():
    file, positions = laid(200, 3_000, 400)

    assert piece(file, positions[1], file.size, 1_000) == [(0, 3_000)]


def test_whole_batches_stops_at_the_given_end():
    file, positions = laid(200, 300, 400, 500)

    assert piece(file, positions[1], positions[3], 1 << 20) == [(0, 300), (300, 400)]
    assert piece(file, positions[2], positions[3], 1 << 20) == [(0, 400)]
    with pytest.raises(CorruptRecord, match=r"^batch incomplete: 399 of 400 bytes$"):
        whole_batches(file, positions[2], positions[3] - 1, 1 << 20)


def test_whole_batches_reads_at_most_the_given_size():
    file, positions = laid(*[300] * 20)

    whole_batches(file, positions[3], file.size, 1_000)
    assert file.reads == [1_000]

    whole_batches(file, positions[3], file.size, 300)
    assert file.reads == [1_000, 300], "a batch of the window's size is read once"


def test_whole_batches_detects_flipped_bit():
    for which in range(3):
        file, positions = laid(200, 300, 400, 500)
        at = positions[which] + 100
        file.overwrite(at, bytes((file.read(at, 1)[0] ^ 1,)))
        with pytest.raises(CorruptRecord, match=r"^CRC "):
            whole_batches(file, 0, file.size, 900)

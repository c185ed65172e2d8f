"""A file of batches is gone through with every check, a window at a time; what is bad is named."""

import pytest

from kohort.errors import CorruptRecord
from kohort.log.batches import WINDOW_BYTES, checked_headers, whole_batches
from kohort.log.storage import MemoryFile
from support.machines.counted_reads import CountedFile
from support.machines.log_stage import batch


def sized(size: int) -> bytes:
    """A batch of so many bytes."""
    value = "x" * (size - len(batch([""])))
    while len(made := batch([value])) > size:
        value = value[1:]
    assert len(made) == size
    return made


def laid(*sizes: int) -> tuple[CountedFile, list[int]]:
    """A file of batches of these sizes, and where each begins."""
    data, positions = bytearray(), []
    for size in sizes:
        positions.append(len(data))
        data += sized(size)
    return CountedFile(data), positions


LONG = (300_000,) * 5 + (WINDOW_BYTES,) + (300_000,) * 3 + (WINDOW_BYTES + 1,) + (100,) * 3 + (WINDOW_BYTES - 1, 200)
"""More than a window holds, with batches across the ends of windows, and some as large as one, or larger."""


def test_a_log_of_any_length_is_gone_through_a_window_at_a_time():
    file, positions = laid(*LONG)

    found = [(position, header.size) for position, header in checked_headers(file, file.size)]

    assert found == list(zip(positions, LONG, strict=True))
    assert max(file.reads) <= WINDOW_BYTES
    assert sum(file.reads) < 2 * file.size, "what is across the end of a window is read twice, and nothing else"


def test_small_batches_are_read_once():
    file, _ = laid(*[70_000] * 14)

    assert len(list(checked_headers(file, file.size))) == 14

    assert file.reads == [file.size]


@pytest.mark.parametrize("size", [WINDOW_BYTES - 1, WINDOW_BYTES])
def test_a_batch_that_fills_a_window_is_read_once(size):
    file, _ = laid(size)

    assert len(list(checked_headers(file, file.size))) == 1

    assert file.reads == [size]


@pytest.mark.parametrize("which", range(len(LONG)))
def test_a_flipped_bit_is_found_in_its_batch_wherever_windows_end(which):
    file, positions = laid(*LONG)
    last = positions[which] + LONG[which] - 1
    file.overwrite(last, bytes((file.read(last, 1)[0] ^ 1,)))

    batches = checked_headers(file, file.size)

    assert [next(batches)[0] for _ in range(which)] == positions[:which]
    with pytest.raises(CorruptRecord, match=r"^CRC is 0x[0-9a-f]{8}, expected 0x[0-9a-f]{8}$"):
        next(batches)


def test_a_log_that_ends_within_a_batch_says_what_is_there_of_it():
    file, positions = laid(400_000, 400_000, 400_000)

    with pytest.raises(CorruptRecord, match=r"^batch incomplete: 399999 of 400000 bytes$"):
        list(checked_headers(file, file.size - 1))
    with pytest.raises(CorruptRecord, match=r"^a batch header of 60 bytes, fewer than 61$"):
        list(checked_headers(file, positions[2] + 60))


# ---------------------------------------------------------------- pieces of whole batches


def piece(file: MemoryFile, at: int, end: int, size: int) -> list[tuple[int, int]]:
    data, found = whole_batches(file, at, end, size)
    assert data[: found[-1][0] + found[-1][1].size] == file.read(at, sum(header.size for _, header in found))
    return [(place, header.size) for place, header in found]


def test_a_piece_has_the_batches_that_lie_whole_in_it():
    file, positions = laid(200, 300, 400, 500)

    assert piece(file, 0, file.size, 899) == [(0, 200), (200, 300)]
    assert piece(file, 0, file.size, 900) == [(0, 200), (200, 300), (500, 400)]
    assert piece(file, positions[2], file.size, 400) == [(0, 400)]
    assert piece(file, positions[2], file.size, 1 << 20) == [(0, 400), (400, 500)]


def test_a_first_batch_that_is_larger_than_the_piece_comes_whole_and_alone():
    file, positions = laid(200, 3_000, 400)

    assert piece(file, positions[1], file.size, 1_000) == [(0, 3_000)]


def test_a_piece_ends_where_the_log_ended_when_it_was_asked_for():
    file, positions = laid(200, 300, 400, 500)

    assert piece(file, positions[1], positions[3], 1 << 20) == [(0, 300), (300, 400)]
    assert piece(file, positions[2], positions[3], 1 << 20) == [(0, 400)]
    with pytest.raises(CorruptRecord, match=r"^batch incomplete: 399 of 400 bytes$"):
        whole_batches(file, positions[2], positions[3] - 1, 1 << 20)


def test_a_piece_is_read_within_its_bound():
    file, positions = laid(*[300] * 20)

    whole_batches(file, positions[3], file.size, 1_000)
    assert file.reads == [1_000]

    whole_batches(file, positions[3], file.size, 300)
    assert file.reads == [1_000, 300], "a batch that fills it is read once"


def test_a_flipped_bit_in_any_batch_of_a_piece_is_told():
    for which in range(3):
        file, positions = laid(200, 300, 400, 500)
        at = positions[which] + 100
        file.overwrite(at, bytes((file.read(at, 1)[0] ^ 1,)))
        with pytest.raises(CorruptRecord, match=r"^CRC "):
            whole_batches(file, 0, file.size, 900)

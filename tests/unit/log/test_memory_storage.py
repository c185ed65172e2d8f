"""Reads of the memory storage: large ones use reusable buffers, small ones are copied."""

from kohort.log.storage import MemoryFile, MemoryStorage

MEGABYTE = 1 << 20


def with_file(size: int) -> MemoryFile:
    storage = MemoryStorage()
    storage.replace("f", bytes(range(256)) * (size // 256))
    return storage.open("f")


def test_reads_from_128_kilobytes_use_reusable_buffers():
    file = with_file(MEGABYTE)

    small, large = file.lend(3, 128 * 1024 - 1), file.lend(3, 128 * 1024)

    assert isinstance(small, bytes)
    assert isinstance(large, memoryview)
    assert (small, bytes(large)) == (file.read(3, 128 * 1024 - 1), file.read(3, 128 * 1024))


def test_buffer_is_reused_without_views():
    file = with_file(2 * MEGABYTE)
    lent = file.lend(0, MEGABYTE)
    first = lent.obj

    assert file.lend(5, MEGABYTE).obj is not first, "the first buffer has a view"
    del lent
    assert file.lend(5, MEGABYTE).obj is first
    assert bytes(file.lend(5, MEGABYTE)) == file.read(5, MEGABYTE)


def test_buffers_keep_at_most_32_megabytes():
    file = with_file(MEGABYTE)

    lent = [file.lend(0, MEGABYTE) for _ in range(40)]

    assert file._buffers.kept_bytes == 32 * MEGABYTE
    assert all(piece[255:258] == b"\xff\x00\x01" for piece in lent)


def test_read_past_the_end_is_short():
    file = with_file(MEGABYTE)

    assert len(file.lend(MEGABYTE - 10, MEGABYTE)) == 10
    assert len(file.lend(10, 2 * MEGABYTE)) == MEGABYTE - 10


def test_memory_file_is_always_flushed():
    file = with_file(1024)
    file.append([b"more"])
    file.start_flush()

    assert (file.flushed, file.is_flushing) == (1028, False)

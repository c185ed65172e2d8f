"""The kernel that walks the batch headers of a buffer and makes the table of sections for the record kernels.

It takes what is plainly sound; the rest it leaves to the walk in ``batches``, which says what is wrong.
"""

from __future__ import annotations

from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import big16, big32, big64, load8, part, store64

# Columns of the section table: one row of int64 per batch. The records lie at ADDRESS, decompressed, LENGTH bytes of
# them; ROWS is filled in by ``measure``: how many are wanted.
ADDRESS, LENGTH, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, FIXED_TIME, TIME_TYPE, ROWS = range(9)
BATCH_AT, BATCH_SIZE, CODEC, LEADER_EPOCH = range(9, 13)
SECTION_FIELDS = 13

INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


@part
def is_sound(batch: int, size: int) -> bool:
    """Tell whether a batch header is one that the fast way may take: format 2, sane offsets and count."""
    base_offset, last_delta = big64(batch), big32(batch + 23)
    return (
        size >= 61
        and load8(batch + 16) == 2
        and base_offset >= 0
        and last_delta >= 0
        and base_offset < INT64_MAX - last_delta
        and big32(batch + 57) >= 0
    )


@kernel
def scan(buf: int, size: int, start: int, stop: int, table: int, room: int) -> int:
    """Make the section table (not written where it is 0) of the whole batches in a buffer, up to ``stop``; how many, or
    -1 for a batch that the plain walk must judge. Batches that hold nothing wanted get a count and length of 0."""
    at, end, rows, after = buf, buf + size, 0, 0
    while end - at >= 61:
        batch_size = big32(at + 8) + 12
        if not is_sound(at, batch_size):
            return -1
        base_offset = big64(at)
        if base_offset < after:
            return -1
        if batch_size > end - at or base_offset >= stop:
            break
        after = base_offset + big32(at + 23) + 1
        if table != 0 and rows < room:
            write_section(table + rows * 8 * SECTION_FIELDS, at, batch_size, at - buf, start)
        rows += 1
        at += batch_size
    return rows


@part
def write_section(section: int, batch: int, size: int, position: int, start: int) -> None:
    """One row of the section table, from a batch header."""
    attributes = big16(batch + 21)
    last_delta = big32(batch + 23)
    base_offset = big64(batch)
    is_wanted = (attributes & 0x20) == 0 and base_offset + last_delta >= start
    count = big32(batch + 57) if is_wanted else 0
    store64(section + 8 * ADDRESS, batch + 61)
    store64(section + 8 * LENGTH, size - 61 if count > 0 else 0)
    store64(section + 8 * COUNT, count)
    store64(section + 8 * BASE_OFFSET, base_offset)
    store64(section + 8 * LAST_DELTA, last_delta)
    store64(section + 8 * BASE_TIME, big64(batch + 27))
    store64(section + 8 * FIXED_TIME, big64(batch + 35))
    store64(section + 8 * TIME_TYPE, (attributes >> 3) & 1)
    store64(section + 8 * ROWS, 0)
    store64(section + 8 * BATCH_AT, position)
    store64(section + 8 * BATCH_SIZE, size)
    store64(section + 8 * CODEC, attributes & 7)
    store64(section + 8 * LEADER_EPOCH, big32(batch + 12))

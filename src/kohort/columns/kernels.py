"""Kernels that read records: ``scan`` finds batches, ``walk`` records, ``walk_headers`` headers; ``gather`` copies.

``scan`` fills a table with a row for each batch. If a batch seems invalid, the module ``batches`` reads all batches and
raises the error. ``walk`` reads every record in one call, without the GIL. It checks each varint and length against the
record's end, and stores the positions of keys, values and headers. When all records are checked and their sizes are
known, ``gather`` copies a column of byte strings in Arrow's layout.

Kernels raise no exceptions: a negative result is a negated ``Problem``.
"""

from __future__ import annotations

from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import big16, big32, big64, copy, load8, load64, part, store8, store32, store64

# Columns of the section table: a row of int64 per batch. The LENGTH bytes of records at ADDRESS are decompressed.
# ``walk`` sets ROWS, the number of records within the span.
ADDRESS, LENGTH, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, FIXED_TIME, TIME_TYPE, ROWS = range(9)
BATCH_AT, BATCH_SIZE, CODEC, LEADER_EPOCH = range(9, 13)
SECTION_FIELDS = 13

INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


@part
def is_sound(batch: int, size: int) -> bool:
    """Return True if the kernels can read a batch: format 2, valid offsets and count."""
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
    """Fill the section table (if not 0) with the whole batches of a buffer, up to offset ``stop``; return their number.

    Returns -1 for a batch that only ``batches`` can check. Batches without records to read get count and length 0.
    """
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
    """Write one row of the section table from a batch header."""
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


# Arrays of int64 that ``walk`` writes, one entry per record; the plan has their addresses. Positions are addresses;
# length -1 means null.
OFFSETS, TIMES, KEY_AT, KEY_LENGTH, VALUE_AT, VALUE_LENGTH, HEADERS_AT, HEADERS_END = range(8)
ROOM, BAD_SECTION, BAD_RECORD, KEY_BYTES, KEY_NULLS, VALUE_BYTES, VALUE_NULLS, TIME_NONE, HEADERS = range(8, 17)
PLAN_FIELDS = 17
"""After the arrays: their capacity in entries, then results of ``walk``: position of a bad record, and sums."""

# Values of ``plain.Problem``, as constants for numba.
TRUNCATED, VARINT, RECORD_LENGTH, OFFSET_DELTA, TIMESTAMP, KEY, VALUE, HEADER_COUNT = 1, 2, 3, 4, 5, 6, 7, 8
HEADER_KEY, HEADER_VALUE, NOT_FILLED, TRAILING, CHANGED = 9, 10, 12, 13, 14
LENGTH_PAST_END = 99
"""Only in this file: the caller knows the kind of length."""

NO_TIMESTAMP = -1
INT64_MIN = -INT64_MAX - 1


@part
def varint(at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag varint of at most 64 bits and its end. Most have one or two bytes."""
    if end - at > 1:
        first, second = load8(at), load8(at + 1)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        if second < 0x80:
            value = first & 0x7F | second << 7
            return (value >> 1) ^ -(value & 1), at + 2
    return long_varint(at, end)


@part
def long_varint(at: int, end: int) -> tuple[int, int]:
    """Read a varint byte by byte."""
    value, shift = 0, 0
    while at < end:
        byte = load8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                return 0, -VARINT
            return ((value >> 1) & INT64_MAX) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            return 0, -VARINT
    return 0, -TRUNCATED


@part
def blob(at: int, end: int) -> tuple[int, int]:
    """Return length (-1: null) and position of a nullable byte string before ``end``; return a Problem in ``at``."""
    if at < 0:
        return 0, at
    length, at = varint(at, end)
    if at < 0:
        return 0, at
    if length < -1 or length > end - at:
        return 0, -LENGTH_PAST_END
    return length, at


@part
def check_headers(at: int, end: int) -> int:
    """Check the headers of one record, which end at ``end``; return their number or a Problem."""
    count, at = varint(at, end)
    if at < 0:
        return at
    if count < 0 or count > (end - at) // 2:
        return -HEADER_COUNT
    for _ in range(count):
        length, name_at = blob(at, end)
        if name_at < 0 or length < 0:
            return name_at if name_at < 0 and name_at != -LENGTH_PAST_END else -HEADER_KEY
        length, at = blob(name_at + length, end)
        if at < 0:
            return at if at != -LENGTH_PAST_END else -HEADER_VALUE
        at += max(length, 0)
    return count if at == end else -NOT_FILLED


@part
def note(array: int, row: int, value: int) -> None:
    """Write one entry of an array of the plan, if the plan has that array."""
    address = load64(array)
    if address != 0:
        store64(address + 8 * row, value)


@part
def overflows(time: int, delta: int) -> bool:
    return (delta > 0 and time > INT64_MAX - delta) or (delta < 0 and time < INT64_MIN - delta)


@part
def note_blob(array: int, row: int, at: int, length: int) -> None:
    """Write position and length of a byte string into two consecutive arrays of the plan."""
    note(array, row, at)
    note(array + 8, row, length)


@kernel
def walk(table: int, sections: int, start: int, stop: int, plan: int) -> int:  # noqa: C901 - one loop, kept whole for the compiler
    """Check every record, and store those with ``start <= offset < stop``; return their number or a Problem."""
    row, key_bytes, key_nulls, value_bytes, value_nulls, time_none, all_headers = 0, 0, 0, 0, 0, 0, 0
    room = load64(plan + 8 * ROOM)
    for i in range(sections):
        section = table + 8 * SECTION_FIELDS * i
        at = load64(section + 8 * ADDRESS)
        section_end = at + load64(section + 8 * LENGTH)
        base_offset, last_delta = load64(section + 8 * BASE_OFFSET), load64(section + 8 * LAST_DELTA)
        base_time, is_append_time = load64(section + 8 * BASE_TIME), load64(section + 8 * TIME_TYPE) != 0
        fixed_time = load64(section + 8 * FIXED_TIME) if is_append_time else NO_TIMESTAMP
        has_own_times = not is_append_time and base_time != NO_TIMESTAMP
        first_row = row
        store64(plan + 8 * BAD_SECTION, i)
        for j in range(load64(section + 8 * COUNT)):
            store64(plan + 8 * BAD_RECORD, j)
            length, at = varint(at, section_end)
            if at < 0:
                return at
            if length < 0 or length > section_end - at:
                return -RECORD_LENGTH
            end = at + length
            time_delta, at = varint(at + 1, end)
            offset_delta, at = varint(at, end) if at >= 0 else (0, at)
            key_length, key_at = blob(at, end)
            if key_at < 0:
                return key_at if key_at != -LENGTH_PAST_END else -KEY
            value_length, value_at = blob(key_at + max(key_length, 0), end)
            if value_at < 0:
                return value_at if value_at != -LENGTH_PAST_END else -VALUE
            if offset_delta < 0 or offset_delta > last_delta:
                return -OFFSET_DELTA
            time = fixed_time
            if has_own_times:
                if overflows(base_time, time_delta):
                    return -TIMESTAMP
                time = base_time + time_delta
            headers_at = value_at + max(value_length, 0)
            headers = check_headers(headers_at, end)
            if headers < 0:
                return headers
            offset, at = base_offset + offset_delta, end
            if offset < start or offset >= stop:
                continue
            if row >= room:
                return -CHANGED
            note(plan + 8 * OFFSETS, row, offset)
            note(plan + 8 * TIMES, row, time)
            note_blob(plan + 8 * KEY_AT, row, key_at, key_length)
            note_blob(plan + 8 * VALUE_AT, row, value_at, value_length)
            note_blob(plan + 8 * HEADERS_AT, row, headers_at if headers > 0 else 0, end)
            row += 1
            all_headers += headers
            key_bytes += max(key_length, 0)
            key_nulls += key_length < 0
            value_bytes += max(value_length, 0)
            value_nulls += value_length < 0
            time_none += time == NO_TIMESTAMP
        if at != section_end:
            store64(plan + 8 * BAD_RECORD, load64(section + 8 * COUNT))
            return -TRAILING
        store64(section + 8 * ROWS, row - first_row)
    store64(plan + 8 * KEY_BYTES, key_bytes)
    store64(plan + 8 * KEY_NULLS, key_nulls)
    store64(plan + 8 * VALUE_BYTES, value_bytes)
    store64(plan + 8 * VALUE_NULLS, value_nulls)
    store64(plan + 8 * TIME_NONE, time_none)
    store64(plan + 8 * HEADERS, all_headers)
    return row


@kernel
def walk_headers(plan: int, rows: int, starts: int, items: int, room: int) -> int:
    """Store the headers of the records that ``walk`` stored; return their number or a Problem.

    ``starts``: rows + 1 starts of Arrow's lists. ``items``: four arrays with ``room`` entries each: position and length
    of names, then of values.
    """
    headers_at, headers_end = load64(plan + 8 * HEADERS_AT), load64(plan + 8 * HEADERS_END)
    item = 0
    store32(starts, 0)
    for row in range(rows):
        at, end = load64(headers_at + 8 * row), load64(headers_end + 8 * row)
        count = 0
        if at != 0:
            count, at = varint(at, end)
        for _ in range(count):
            name_length, name_at = blob(at, end)
            if name_at < 0 or name_length < 0 or item >= room:
                return -CHANGED
            length, at = blob(name_at + name_length, end)
            if at < 0:
                return -CHANGED
            store64(items + 8 * item, name_at)
            store64(items + 8 * (room + item), name_length)
            store64(items + 8 * (2 * room + item), at)
            store64(items + 8 * (3 * room + item), length)
            at += max(length, 0)
            item += 1
        store32(starts + 4 * (row + 1), item)
    return item


@kernel
def gather(places: int, lengths: int, rows: int, column: int) -> int:
    """Copy byte strings into one Arrow column; return the number of bytes.

    ``column``: address of the ``rows`` + 1 starts, 1 if these have 64 bits, address of the bytes, and address of a
    cleared validity bitmap (0: none).
    """
    starts, is_wide = load64(column), load64(column + 8) != 0
    data, bits = load64(column + 16), load64(column + 24)
    position = 0
    for row in range(rows):
        if is_wide:
            store64(starts + 8 * row, position)
        else:
            store32(starts + 4 * row, position)
        length = load64(lengths + 8 * row)
        if length >= 0:
            copy(data + position, load64(places + 8 * row), length)
            position += length
            if bits != 0:
                store8(bits + (row >> 3), load8(bits + (row >> 3)) | (1 << (row & 7)))
    if is_wide:
        store64(starts + 8 * rows, position)
    else:
        store32(starts + 4 * rows, position)
    return position

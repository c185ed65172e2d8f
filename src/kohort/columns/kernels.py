"""The kernels that take record batches apart: measure, then fill or locate.

They see a table of sections, one row of int64 per batch (the columns below), and walk every record of every section in
one call, without the GIL. ``measure`` checks all of it and says how much room the wanted records need. ``fill`` copies
keys and values into Arrow's layout; ``fill_headers`` does the headers; ``locate`` only notes where things lie, for
records as objects. The later walks check again as they go (the cost is small), so that they stay inside their buffers
even if the input changed meanwhile.

A position that is negative is a Problem, negated: numbers only, no exceptions.

These kernels stay in one file on purpose: numba's cache on disk notices a change only in the file of the kernel called,
not in the files of what it inlined.
"""

from __future__ import annotations

from kohort.columns.jit import copy, kernel, load8, load64, store8, store32, store64
from kohort.columns.scan import (
    ADDRESS,
    BASE_OFFSET,
    BASE_TIME,
    COUNT,
    FIXED_TIME,
    LAST_DELTA,
    LENGTH,
    ROWS,
    SECTION_FIELDS,
    TIME_TYPE,
)

# Fields of the totals that ``measure`` writes.
BAD_SECTION, BAD_RECORD, ALL_ROWS, KEY_BYTES, KEY_NULLS, VALUE_BYTES, VALUE_NULLS = range(7)
TIME_MIN, TIME_MAX, TIME_NONE, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS = range(7, 14)
TOTAL_FIELDS = 14

# Columns that ``locate`` writes.
OFFSET, TIMESTAMP, KEY_AT, KEY_END, VALUE_AT, VALUE_END, HEADERS_AT, HEADERS_END = range(8)
LOCATED_FIELDS = 8

# The rules a record can break; the numbers of problems.Problem, which numba takes as constants.
TRUNCATED, VARINT, RECORD_LENGTH, OFFSET_DELTA, TIME, KEY_LENGTH, VALUE_LENGTH = 1, 2, 3, 4, 5, 6, 7
HEADER_COUNT, HEADER_KEY, HEADER_VALUE, NOT_FILLED, TRAILING, OVERRUN = 8, 9, 10, 12, 13, 14

INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
INT64_MIN = -INT64_MAX - 1
NO_TIMESTAMP = -1


@kernel
def varint(at: int, end: int) -> tuple[int, int]:
    """A zig-zag varint of at most 32 bits, and where it ends."""
    if at < end:
        byte = load8(at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
    return wide(at, end, 5)


@kernel
def varlong(at: int, end: int) -> tuple[int, int]:
    """A zig-zag varint of at most 64 bits, and where it ends."""
    if at < end:
        byte = load8(at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
    return wide(at, end, 10)


@kernel
def wide(at: int, end: int, most: int) -> tuple[int, int]:
    """The general case. The last byte of the longest form has room for 4 bits of 32, and for 1 of 64."""
    value = 0
    for place in range(most):
        if at >= end:
            return 0, -TRUNCATED
        byte = load8(at)
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if (place == 4 and most == 5 and byte > 0x0F) or (place == 9 and byte > 1):
                break
            return ((value >> 1) & INT64_MAX) ^ -(value & 1), at
    return 0, -VARINT


@kernel
def blob(at: int, end: int, problem: int) -> tuple[int, int]:
    """A nullable byte string: where its bytes begin, and their length (-1: null), checked against ``end``."""
    length, at = varint(at, end)
    if at < 0:
        return at, 0
    if length < -1 or length > end - at:
        return -problem, 0
    return at, length


@kernel
def record_at(at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """The fields of the record that fills ``at`` to ``end``, as far as its headers:
    timestamp delta, offset delta, key and value (where, how long), where the headers begin."""
    if at >= end:
        return 0, 0, 0, 0, 0, 0, -TRUNCATED
    time_delta, at = varlong(at + 1, end)
    if at < 0:
        return 0, 0, 0, 0, 0, 0, at
    offset_delta, at = varint(at, end)
    if at < 0:
        return 0, 0, 0, 0, 0, 0, at
    key_at, key_length = blob(at, end, KEY_LENGTH)
    if key_at < 0:
        return 0, 0, 0, 0, 0, 0, key_at
    at = key_at + max(key_length, 0)
    value_at, value_length = blob(at, end, VALUE_LENGTH)
    if value_at < 0:
        return 0, 0, 0, 0, 0, 0, value_at
    at = value_at + max(value_length, 0)
    return time_delta, offset_delta, key_at, key_length, value_at, value_length, at


@kernel
def skip_headers(at: int, end: int, totals: int) -> int:
    """Walk the headers of one record and add them to the totals; 0, or the Problem."""
    count, at = varint(at, end)
    if at < 0:
        return -at
    if count == 0:
        return 0 if at == end else NOT_FILLED
    if count < 0 or count > (end - at) // 2:
        return HEADER_COUNT
    key_bytes, value_bytes, nulls = 0, 0, 0
    for _ in range(count):
        at, length = blob(at, end, HEADER_KEY)
        if at < 0:
            return -at
        if length < 0:
            return HEADER_KEY
        key_bytes += length
        at, length = blob(at + length, end, HEADER_VALUE)
        if at < 0:
            return -at
        if length < 0:
            nulls += 1
            length = 0
        value_bytes += length
        at += length
    add(totals, HEADERS, count)
    add(totals, HEADER_KEY_BYTES, key_bytes)
    add(totals, HEADER_VALUE_BYTES, value_bytes)
    add(totals, HEADER_VALUE_NULLS, nulls)
    return 0 if at == end else NOT_FILLED


@kernel
def field(row: int, column: int) -> int:
    return load64(row + 8 * column)


@kernel
def add(row: int, column: int, amount: int) -> None:
    store64(row + 8 * column, load64(row + 8 * column) + amount)


@kernel
def timestamp_of(section: int, delta: int) -> int:
    """The time of a record; the sum is known to fit, once measured."""
    if field(section, TIME_TYPE) != 0:
        return field(section, FIXED_TIME)
    base = field(section, BASE_TIME)
    return NO_TIMESTAMP if base == NO_TIMESTAMP else base + delta


@kernel
def time_overflows(section: int, delta: int) -> bool:
    base = field(section, BASE_TIME)
    if field(section, TIME_TYPE) != 0 or base == NO_TIMESTAMP:
        return False
    return (delta > 0 and base > INT64_MAX - delta) or (delta < 0 and base < INT64_MIN - delta)


@kernel
def add_record(totals: int, key_length: int, value_length: int, timestamp: int) -> None:
    """Count one wanted record."""
    add(totals, ALL_ROWS, 1)
    if key_length < 0:
        add(totals, KEY_NULLS, 1)
    else:
        add(totals, KEY_BYTES, key_length)
    if value_length < 0:
        add(totals, VALUE_NULLS, 1)
    else:
        add(totals, VALUE_BYTES, value_length)
    if timestamp == NO_TIMESTAMP:
        add(totals, TIME_NONE, 1)
    else:
        if timestamp < field(totals, TIME_MIN):
            store64(totals + 8 * TIME_MIN, timestamp)
        if timestamp > field(totals, TIME_MAX):
            store64(totals + 8 * TIME_MAX, timestamp)


@kernel
def measure_record(section: int, at: int, end: int, start: int, stop: int, totals: int, unwanted: int) -> int:
    """Check one record, and count it if its offset is wanted; 0, or the Problem."""
    time_delta, offset_delta, _, key_length, _, value_length, headers = record_at(at, end)
    if headers < 0:
        return -headers
    if offset_delta < 0 or offset_delta > field(section, LAST_DELTA):
        return OFFSET_DELTA
    if time_overflows(section, time_delta):
        return TIME
    offset = field(section, BASE_OFFSET) + offset_delta
    if offset < start or offset >= stop:
        return skip_headers(headers, end, unwanted)
    add(section, ROWS, 1)
    add_record(totals, key_length, value_length, timestamp_of(section, time_delta))
    return skip_headers(headers, end, totals)


@kernel
def measure(table: int, count: int, start: int, stop: int, totals: int, unwanted: int) -> int:
    """Check every record of every section and total up the wanted ones; 0, or the Problem, whose place the totals
    name. ``unwanted`` is room for totals that nobody reads."""
    for i in range(count):
        section = table + i * 8 * SECTION_FIELDS
        at = field(section, ADDRESS)
        section_end = at + field(section, LENGTH)
        store64(section + 8 * ROWS, 0)
        for j in range(field(section, COUNT)):
            length, at = varint(at, section_end)
            problem = 0
            if at < 0:
                problem = -at
            elif length < 0 or length > section_end - at:
                problem = RECORD_LENGTH
            else:
                problem = measure_record(section, at, at + length, start, stop, totals, unwanted)
            if problem != 0:
                store64(totals + 8 * BAD_SECTION, i)
                store64(totals + 8 * BAD_RECORD, j)
                return problem
            at += length
        if at != section_end:
            store64(totals + 8 * BAD_SECTION, i)
            store64(totals + 8 * BAD_RECORD, field(section, COUNT))
            return TRAILING
    return 0


# ---------------------------------------------------------------- into Arrow's layout

# A column of byte strings under construction: where its offsets, bytes and validity bits go (0: none), and the room.
STARTS, IS_WIDE, DATA, BITS, ROOM = range(5)
BLOB_FIELDS = 5
# The plan of ``fill``: plain columns, then two columns of byte strings.
OFFSETS, TIMES, TIME_BITS, TIME_TIMES, TIME_OVER, KEYS = range(6)
VALUES = KEYS + BLOB_FIELDS
ROW_ROOM = VALUES + BLOB_FIELDS
PLAN_FIELDS = ROW_ROOM + 1
# The plan of ``fill_headers``: where lists start, then names and values.
LISTS, NAMES = range(2)
CONTENTS = NAMES + BLOB_FIELDS
LIST_ROOM = CONTENTS + BLOB_FIELDS
ITEM_ROOM = LIST_ROOM + 1
HEADER_PLAN_FIELDS = ITEM_ROOM + 1


@kernel
def set_bit(bits: int, i: int) -> None:
    at = bits + (i >> 3)
    store8(at, load8(at) | (1 << (i & 7)))


@kernel
def put(column: int, i: int, at: int, length: int, position: int) -> int:
    """Add entry ``i`` to a column of byte strings that is filled up to ``position``; the new position, or a Problem."""
    if length >= 0:
        if length > field(column, ROOM) - position:
            return -OVERRUN
        copy(field(column, DATA) + position, at, length)
        position += length
        bits = field(column, BITS)
        if bits != 0:
            set_bit(bits, i)
    if field(column, IS_WIDE) != 0:
        store64(field(column, STARTS) + 8 * (i + 1), position)
    else:
        store32(field(column, STARTS) + 4 * (i + 1), position)
    return position


@kernel
def put_time(plan: int, i: int, timestamp: int) -> None:
    """A timestamp in the unit that is asked for, and its validity."""
    if field(plan, TIME_BITS) != 0 and timestamp != NO_TIMESTAMP:
        set_bit(field(plan, TIME_BITS), i)
    store64(field(plan, TIMES) + 8 * i, timestamp * field(plan, TIME_TIMES) // field(plan, TIME_OVER))


@kernel
def fill(table: int, count: int, start: int, stop: int, plan: int) -> int:
    """Write the wanted columns of the wanted records; how many rows, or a Problem, negated."""
    row, key_position, value_position = 0, 0, 0
    keys, values = plan + 8 * KEYS, plan + 8 * VALUES
    has_keys, has_values = field(keys, STARTS) != 0, field(values, STARTS) != 0
    offsets, times = field(plan, OFFSETS), field(plan, TIMES)
    for i in range(count):
        section = table + i * 8 * SECTION_FIELDS
        at = field(section, ADDRESS)
        section_end = at + field(section, LENGTH)
        base_offset = field(section, BASE_OFFSET)
        for _ in range(field(section, COUNT)):
            length, at = varint(at, section_end)
            if at < 0 or length < 0 or length > section_end - at:
                return -OVERRUN
            time_delta, offset_delta, key_at, key_length, value_at, value_length, headers = record_at(at, at + length)
            at += length
            offset = base_offset + offset_delta
            if offset < start or offset >= stop:
                continue
            if headers < 0 or row >= field(plan, ROW_ROOM):
                return -OVERRUN
            if offsets != 0:
                store64(offsets + 8 * row, offset)
            if times != 0:
                put_time(plan, row, timestamp_of(section, time_delta))
            if has_keys:
                key_position = put(keys, row, key_at, key_length, key_position)
            if has_values:
                value_position = put(values, row, value_at, value_length, value_position)
            if key_position < 0 or value_position < 0:
                return -OVERRUN
            row += 1
    return row


@kernel
def put_headers(
    plan: int, at: int, end: int, item: int, name_position: int, value_position: int
) -> tuple[int, int, int]:
    """The headers of one record, from item number ``item``; the next item and positions, or negative ones."""
    count, at = varint(at, end)
    if at < 0 or count < 0 or count > field(plan, ITEM_ROOM) - item:
        return -OVERRUN, 0, 0
    names, contents = plan + 8 * NAMES, plan + 8 * CONTENTS
    for _ in range(count):
        at, length = blob(at, end, HEADER_KEY)
        if at < 0 or length < 0:
            return -OVERRUN, 0, 0
        name_position = put(names, item, at, length, name_position)
        at, length = blob(at + length, end, HEADER_VALUE)
        if at < 0:
            return -OVERRUN, 0, 0
        value_position = put(contents, item, at, length, value_position)
        if name_position < 0 or value_position < 0:
            return -OVERRUN, 0, 0
        at += max(length, 0)
        item += 1
    return item, name_position, value_position


@kernel
def fill_headers(table: int, count: int, start: int, stop: int, plan: int) -> int:
    """Write the headers of the wanted records as a list column; how many rows, or a Problem, negated."""
    row, item, name_position, value_position = 0, 0, 0, 0
    for i in range(count):
        section = table + i * 8 * SECTION_FIELDS
        at = field(section, ADDRESS)
        section_end = at + field(section, LENGTH)
        base_offset = field(section, BASE_OFFSET)
        for _ in range(field(section, COUNT)):
            length, at = varint(at, section_end)
            if at < 0 or length < 0 or length > section_end - at:
                return -OVERRUN
            end = at + length
            _, offset_delta, _, _, _, _, headers = record_at(at, end)
            at = end
            offset = base_offset + offset_delta
            if offset < start or offset >= stop:
                continue
            if headers < 0 or row >= field(plan, LIST_ROOM):
                return -OVERRUN
            item, name_position, value_position = put_headers(plan, headers, end, item, name_position, value_position)
            if item < 0:
                return -OVERRUN
            row += 1
            store32(field(plan, LISTS) + 4 * row, item)
    return row


# ---------------------------------------------------------------- where things lie


@kernel
def locate(table: int, count: int, start: int, stop: int, out: int, room: int) -> int:
    """Note offset, time, and the places of key, value and headers of each wanted record, column by column, each column
    ``room`` long. Places count from the section's start; -1 stands for null, and for no headers."""
    row = 0
    for i in range(count):
        section = table + i * 8 * SECTION_FIELDS
        at = field(section, ADDRESS)
        section_start = at
        section_end = at + field(section, LENGTH)
        for _ in range(field(section, COUNT)):
            length, at = varint(at, section_end)
            if at < 0 or length < 0 or length > section_end - at:
                return -OVERRUN
            end = at + length
            time_delta, offset_delta, key_at, key_length, value_at, value_length, headers = record_at(at, end)
            at = end
            offset = field(section, BASE_OFFSET) + offset_delta
            if offset < start or offset >= stop:
                continue
            if headers < 0 or row >= room:
                return -OVERRUN
            has_headers = headers + 1 < end or load8(headers) != 0
            column = out + 8 * row
            store64(column + 8 * room * OFFSET, offset)
            store64(column + 8 * room * TIMESTAMP, timestamp_of(section, time_delta))
            store64(column + 8 * room * KEY_AT, key_at - section_start if key_length >= 0 else -1)
            store64(column + 8 * room * KEY_END, key_at - section_start + key_length)
            store64(column + 8 * room * VALUE_AT, value_at - section_start if value_length >= 0 else -1)
            store64(column + 8 * room * VALUE_END, value_at - section_start + value_length)
            store64(column + 8 * room * HEADERS_AT, headers - section_start if has_headers else -1)
            store64(column + 8 * room * HEADERS_END, end - section_start)
            row += 1
    return row

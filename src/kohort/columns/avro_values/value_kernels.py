"""Parts of the kernel that read, write and skip single values.

Each length is checked against the end of the value before its bytes are read. Functions that return a position and a
problem return the problem 0 if there is none.
"""

# ruff: noqa: I001 - dense lists of names
from __future__ import annotations

from kohort.columns.avro_values.operations import (
    BAD_BOOLEAN, BOOLEAN, BRANCH, CAPACITIES, COUNTS, DECIMAL, DECIMAL_RANGE, DOUBLE, FLOAT, FULL, FULL_SLOT, INT,
    INT_RANGE, ITEMS, NEEDED, NEGATIVE, NULL_ENTRIES, NULL_FIXED, NUMBER, SCALED, SKIP_FIXED, SKIP_NUMBER, SYMBOL,
    TIME, TIME_RANGE, TO_DOUBLE, TO_FLOAT, TRUNCATED, UNIT_RANGE, UUID, WIDEN,
)  # fmt: skip
from kohort.columns.kernels import INT64_MAX, INT64_MIN, varint
from kohort.columns.native.primitives import (
    copy, load8, load64, part, store8, store32, store64, store_double, store_float, widen_float,
)  # fmt: skip

INT32_LOW, INT32_HIGH = -0x8000_0000, 0x7FFF_FFFF
HIGHS = -0x7F7F_7F7F_7F7F_7F80
HEX = 0x30


@part
def is_utf8(at: int, end: int) -> bool:
    """Return True for UTF-8 without surrogates and overlong forms."""
    while at < end:
        if end - at >= 8 and load64(at) & HIGHS == 0:
            at += 8
            continue
        first = load8(at)
        if first < 0x80:
            at += 1
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if end - at <= more:
            return False
        second = load8(at + 1)
        lowest = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        highest = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < lowest or second > highest:
            return False
        for i in range(2, more + 1):
            if load8(at + i) & 0xC0 != 0x80:
                return False
        at += 1 + more
    return True


@part
def problem_of(at: int) -> int:
    """Return the problem for a negative position from ``varint``."""
    return TRUNCATED if at == -TRUNCATED else NUMBER


@part
def checked_length(at: int, end: int) -> tuple[int, int]:
    """Return a length and the position behind it; return a negative problem in the position."""
    length, after = varint(at, end)
    if after < 0:
        return 0, -problem_of(after)
    if length < 0:
        return 0, -NEGATIVE
    if length > end - after:
        return 0, -TRUNCATED
    return length, after


@part
def set_valid(column: int, index: int) -> None:
    mask = load64(column)
    if mask != 0:
        store8(mask + index, 1)


@part
def add_text(column: int, index: int, at: int, length: int, state: int) -> int:
    """Append bytes to a text column as entry ``index``; return 0 or FULL."""
    slot = load64(column + 24)
    counter = load64(state + 8 * COUNTS) + 8 * slot
    used = load64(counter)
    if length > load64(load64(state + 8 * CAPACITIES) + 8 * slot) - used:
        store64(state + 8 * FULL_SLOT, slot)
        store64(state + 8 * NEEDED, used + length)
        return FULL
    copy(load64(column + 8) + used, at, length)
    store64(counter, used + length)
    store32(load64(column + 16) + 4 * (index + 1), used + length)
    return 0


@part
def add_uuid(column: int, index: int, at: int, state: int) -> int:
    """Append 16 bytes as the text of a UUID."""
    slot = load64(column + 24)
    counter = load64(state + 8 * COUNTS) + 8 * slot
    used = load64(counter)
    if load64(load64(state + 8 * CAPACITIES) + 8 * slot) - used < 36:
        store64(state + 8 * FULL_SLOT, slot)
        store64(state + 8 * NEEDED, used + 36)
        return FULL
    to = load64(column + 8) + used
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            store8(to, 0x2D)
            to += 1
        byte = load8(at + i)
        high, low = byte >> 4, byte & 15
        store8(to, HEX + high if high < 10 else 0x57 + high)
        store8(to + 1, HEX + low if low < 10 else 0x57 + low)
        to += 2
    store64(counter, used + 36)
    store32(load64(column + 16) + 4 * (index + 1), used + 36)
    return 0


@part
def is_less(left: int, right: int, words: int) -> bool:
    """Compare two signed numbers of ``words`` words, the lowest first."""
    a, b = load64(left + 8 * (words - 1)), load64(right + 8 * (words - 1))
    if a != b:
        return a < b
    for i in range(1, words):
        a = load64(left + 8 * (words - 1 - i)) ^ INT64_MIN
        b = load64(right + 8 * (words - 1 - i)) ^ INT64_MIN
        if a != b:
            return a < b
    return False


@part
def store_decimal(to: int, at: int, size: int, words: int, limits: int) -> int:
    """Store a big-endian number of any size; return 0 or a problem. ``limits``: the exclusive lowest and highest."""
    sign = -1 if size > 0 and load8(at) >= 0x80 else 0
    for i in range(words):
        store64(to + 8 * i, sign)
    extra = size - 8 * words
    for i in range(extra):
        if load8(at + i) != sign & 0xFF:
            return DECIMAL_RANGE
    if extra > 0 and (load8(at + extra) >= 0x80) != (sign < 0):
        return DECIMAL_RANGE
    for i in range(min(size, 8 * words)):
        store8(to + i, load8(at + size - 1 - i))
    if is_less(limits, to, words) and is_less(to, limits + 8 * words, words):
        return 0
    return DECIMAL_RANGE


@part
def scaled(value: int, factor: int) -> tuple[int, int]:
    """Multiply by a positive factor, or divide by a negative one, rounding down; return a problem or 0 second."""
    if factor < 0:
        return value // -factor, 0
    highest = INT64_MAX // factor
    if value > highest or value < -highest:
        return 0, UNIT_RANGE
    return value * factor, 0


@part
def write_value(pc: int, at: int, end: int, index: int, column: int, state: int) -> tuple[int, int]:
    """Read a value that is rare, and write it; return its end and a problem."""
    op, a, b, c = load64(pc), load64(pc + 16), load64(pc + 24), load64(pc + 32)
    data = load64(column + 8)
    if op == SCALED or op == TIME:  # noqa: SIM109 - for numba
        value, at = varint(at, end)
        if at < 0:
            return 0, problem_of(at)
        if b != 0 and (value < 0 or value >= b):
            return 0, TIME_RANGE
        value, problem = scaled(value, a)
        if problem != 0:
            return 0, problem
        if c == 4:
            store32(data + 4 * index, value)
        else:
            store64(data + 8 * index, value)
        return at, 0
    size = b
    if size < 0:
        size, at = checked_length(at, end)
        if at < 0:
            return 0, -at
    if size > end - at:
        return 0, TRUNCATED
    if op == DECIMAL:
        return at + size, store_decimal(data + 8 * a * index, at, size, a, c)
    if op == UUID:
        return at + size, add_uuid(column, index, at, state)
    copy(data + size * index, at, size)
    return at + size, 0


@part
def write_number(op: int, pc: int, at: int, end: int, index: int, column: int) -> tuple[int, int]:
    """Read a number and write it; return its end and a problem."""
    data = load64(column + 8)
    if op >= FLOAT:
        size = 1 if op == BOOLEAN else 8 if op == DOUBLE else 4
        if size > end - at:
            return 0, TRUNCATED
        if op == DOUBLE:
            store64(data + 8 * index, load64(at))
        elif op == FLOAT:
            word = load8(at) | load8(at + 1) << 8 | load8(at + 2) << 16 | load8(at + 3) << 24
            store32(data + 4 * index, word)
        elif op == WIDEN:
            widen_float(data + 8 * index, at)
        else:
            if load8(at) > 1:
                return 0, BAD_BOOLEAN
            store8(data + index, load8(at))
        return at + size, 0
    value, at = varint(at, end)
    if at < 0:
        return 0, problem_of(at)
    if load64(pc + 16) != 0 and (value < INT32_LOW or value > INT32_HIGH):
        return 0, INT_RANGE
    if op == INT:
        store32(data + 4 * index, value)
    elif op == TO_FLOAT:
        store_float(data + 4 * index, value)
    elif op == TO_DOUBLE:
        store_double(data + 8 * index, value)
    else:
        store64(data + 8 * index, value)
    return at, 0


@part
def write_enum(pc: int, at: int, end: int, index: int, column: int) -> tuple[int, int]:
    """Read a symbol, and write the number of the reader's symbol."""
    value, at = varint(at, end)
    if at < 0:
        return 0, problem_of(at)
    if value < 0 or value >= load64(pc + 24):
        return 0, BRANCH
    symbol = load64(load64(pc + 16) + 8 * value)
    if symbol < 0:
        return 0, SYMBOL
    store32(load64(column + 8) + 4 * index, symbol)
    return at, 0


@part
def write_null(op: int, width: int, index: int, column: int, state: int) -> None:
    """Write a null: zeros, or an empty entry."""
    mask = load64(column)
    if mask != 0:
        store8(mask + index, 0)
    if op == NULL_FIXED:
        to = load64(column + 8) + width * index
        for i in range(width):
            store8(to + i, 0)
    elif op == NULL_ENTRIES:
        used = load64(load64(state + 8 * COUNTS) + 8 * load64(column + 24))
        store32(load64(column + 16) + 4 * (index + 1), used)


@part
def next_block(at: int, end: int, least: int) -> tuple[int, int, int]:
    """Return the number of items in the next block of a list, the position behind it, and the size of the block or -1.

    ``least``: smallest size of an item. Returns a negative problem as position.
    """
    count, at = varint(at, end)
    if at < 0:
        return 0, -problem_of(at), -1
    size = -1
    if count < 0:
        if count == INT64_MIN:
            return 0, -ITEMS, -1
        count = -count
        size, at = checked_length(at, end)
        if at < 0:
            return 0, at, -1
    if count > (end - at) // least:
        return 0, -ITEMS, -1
    return count, at, size


@part
def skip(op: int, pc: int, at: int, end: int) -> tuple[int, int]:
    """Skip a value; return its end and a problem."""
    if op == SKIP_NUMBER:
        _, at = varint(at, end)
        if at < 0:
            return 0, problem_of(at)
        return at, 0
    if op == SKIP_FIXED:
        size = load64(pc + 16)
        if size > end - at:
            return 0, TRUNCATED
        return at + size, 0
    size, at = checked_length(at, end)
    if at < 0:
        return 0, -at
    return at + size, 0

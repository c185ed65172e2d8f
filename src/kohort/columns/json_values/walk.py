"""The kernel that walks flat JSON objects and notes where the wanted fields lie.

It is sure of a row only where every reader of JSON would agree on it; see ``flat_objects``. Nothing is read past the
end of a row.
"""

from __future__ import annotations

from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import load8, load64, part, store8, store64

# What is wanted: a row of int64 with the number of columns, and one for each, with the address and the length of its
# name.
NAME_AT, NAME_LENGTH, KIND = range(3)
COLUMN_FIELDS = 3
INTEGER, NUMBER, BOOLEAN, TEXT = range(1, 5)
# Instead of a length: no such field, or the field is null. An integer, and a boolean, has its value for a place.
ABSENT, NULL = -2, -1

SPACE, TAB, NEWLINE, RETURN = 0x20, 0x09, 0x0A, 0x0D
QUOTE, BACKSLASH, COLON, COMMA, OPEN, CLOSE = 0x22, 0x5C, 0x3A, 0x2C, 0x7B, 0x7D
MINUS, PLUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = 0x2D, 0x2B, 0x2E, 0x30, 0x39, 0x65, 0x45
SMALL_F, SMALL_N, SMALL_T = 0x66, 0x6E, 0x74
# The bytes of these words, the first one lowest.
TRUE, NULL_WORD, ALSE = 0x65757274, 0x6C6C756E, 0x65736C61
DIGITS_MOST, NUMBER_MOST, EXPONENT_MOST = 18, 200, 2
ONES, HIGHS = 0x0101_0101_0101_0101, -0x7F7F_7F7F_7F7F_7F80
SPACES, QUOTES, BACKSLASHES = 0x2020_2020_2020_2020, 0x2222_2222_2222_2222, 0x5C5C_5C5C_5C5C_5C5C


@part
def skip_space(at: int, end: int) -> int:
    while at < end:
        byte = load8(at)
        if byte != SPACE and byte != TAB and byte != NEWLINE and byte != RETURN:
            return at
        at += 1
    return at


@part
def text_end(at: int, end: int) -> int:
    """Return where the closing quote is; 0 where there is none, or an escape or a control character before it."""
    while end - at >= 8:
        word = load64(at)
        quotes, slashes = word ^ QUOTES, word ^ BACKSLASHES
        found = ((word - SPACES) & ~word) | ((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes)
        if found & HIGHS != 0:
            break
        at += 8
    while at < end:
        byte = load8(at)
        if byte == QUOTE:
            return at
        if byte == BACKSLASH or byte < SPACE:
            return 0
        at += 1
    return 0


@part
def digits_end(at: int, end: int) -> int:
    while at < end:
        byte = load8(at)
        if byte < ZERO or byte > NINE:
            return at
        at += 1
    return at


@part
def whole_end(at: int, end: int) -> int:
    """Return where the whole part of a number ends; 0 where there is none, or one that begins with a needless zero."""
    first = at + 1 if at < end and load8(at) == MINUS else at
    after = digits_end(first, end)
    if after == first or (after - first > 1 and load8(first) == ZERO):
        return 0
    return after


@part
def number_end(start: int, end: int) -> int:
    """Return where a number ends; 0 for what is not the number of JSON's grammar, or may be too large for a double."""
    at = whole_end(start, end)
    if at != 0 and at < end and load8(at) == POINT:
        after = digits_end(at + 1, end)
        at = after if after > at + 1 else 0
    if at != 0 and at < end and (load8(at) == SMALL_E or load8(at) == LARGE_E):
        at += 1
        if at < end and (load8(at) == PLUS or load8(at) == MINUS):
            at += 1
        after = digits_end(at, end)
        at = after if 0 < after - at <= EXPONENT_MOST else 0
    return at if at - start <= NUMBER_MOST else 0


@part
def whole_number(at: int, after: int) -> int:
    """Return the value of the digits of a whole number of at most 18 digits."""
    negative = load8(at) == MINUS
    value = 0
    for place in range(at + 1 if negative else at, after):
        value = value * 10 + (load8(place) - ZERO)
    return -value if negative else value


@part
def is_word(at: int, end: int, word: int) -> bool:
    """Tell whether the four bytes here are those of ``word``."""
    if end - at < 4:
        return False
    found: bool = load8(at) | load8(at + 1) << 8 | load8(at + 2) << 16 | load8(at + 3) << 24 == word
    return found


@part
def column_of(columns: int, guess: int, name: int, length: int) -> int:
    """Return which column has this name, the guessed one looked at first; -1: none."""
    count = load64(columns)
    for turn in range(count):
        column = guess + turn if guess + turn < count else guess + turn - count
        entry = columns + 8 * COLUMN_FIELDS * (1 + column)
        if load64(entry + 8 * NAME_LENGTH) != length:
            continue
        known, i = load64(entry + 8 * NAME_AT), 0
        while i < length and load8(known + i) == load8(name + i):
            i += 1
        if i == length:
            return column
    return -1


@part
def take(at: int, end: int, kind: int, place: int, length: int) -> int:
    """Note one value for a column of this kind (0: not wanted). Where it ends; 0 for what is not sure."""
    if at >= end:
        return 0
    byte = load8(at)
    content, size, is_kind = 0, NULL, kind == 0
    if byte == QUOTE:
        content, is_kind = at + 1, is_kind or kind == TEXT
        after = text_end(content, end)
        size = after - content
        after = after + 1 if after != 0 else 0
    elif byte == MINUS or (byte >= ZERO and byte <= NINE):
        after = number_end(at, end)
        content, size, is_kind = at, after - at, is_kind or kind == NUMBER
        if kind == INTEGER and after != 0 and whole_end(at, end) == after and after - at <= DIGITS_MOST:
            content, size, is_kind = whole_number(at, after), 0, load8(at) != MINUS or load8(at + 1) != ZERO
    elif byte == SMALL_N:
        after, is_kind = at + 4 if is_word(at, end, NULL_WORD) else 0, True
    elif byte == SMALL_T or byte == SMALL_F:  # noqa: SIM109 - for numba
        is_true = byte == SMALL_T
        is_there = is_word(at, end, TRUE) if is_true else is_word(at + 1, end, ALSE)
        after = (at + 4 if is_true else at + 5) if is_there else 0
        content, size, is_kind = int(is_true), 0, is_kind or kind == BOOLEAN
    else:
        return 0
    if after == 0 or not is_kind:
        return 0
    if kind != 0:
        store64(place, content)
        store64(length, size)
    return after


@part
def is_sure(at: int, end: int, columns: int, cells: int, step: int) -> bool:
    """Walk one object, and tell whether all of it is plainly sound. ``cells``: where its row is in the first column;
    ``step``: to the next one."""
    count = load64(columns)
    places, lengths = cells, cells + step * count
    at = skip_space(at, end)
    if at >= end or load8(at) != OPEN:
        return False
    at = skip_space(at + 1, end)
    if at < end and load8(at) == CLOSE:
        return skip_space(at + 1, end) == end
    guess = 0
    while at < end and load8(at) == QUOTE:
        stop = text_end(at + 1, end)
        if stop == 0:
            return False
        column = column_of(columns, guess, at + 1, stop - at - 1)
        at = skip_space(stop + 1, end)
        if at >= end or load8(at) != COLON:
            return False
        at = skip_space(at + 1, end)
        kind = 0
        if column >= 0:
            guess = column + 1 if column + 1 < count else 0
            kind = load64(columns + 8 * (COLUMN_FIELDS * (1 + column) + KIND))
            if load64(lengths + step * column) != ABSENT:
                return False
        at = take(at, end, kind, places + step * max(column, 0), lengths + step * max(column, 0))
        if at == 0:
            return False
        at = skip_space(at, end)
        if at < end and load8(at) == CLOSE:
            return skip_space(at + 1, end) == end
        if at >= end or load8(at) != COMMA:
            return False
        at = skip_space(at + 1, end)
    return False


@kernel
def walk(starts: int, data: int, rows: int, columns: int, cells: int, sure: int) -> int:
    """Walk ``rows`` objects between the 32-bit ``starts`` in ``data``, and return how many are sure. ``cells``: first
    ``rows`` places for each column, then as many lengths, ABSENT beforehand; ``sure``: a byte for each row, 1 where it
    is."""
    found = 0
    for row in range(rows):
        both = load64(starts + 4 * row)
        begin, end = both & 0xFFFF_FFFF, (both >> 32) & 0xFFFF_FFFF
        if is_sure(data + begin, data + end, columns, cells + 8 * row, 8 * rows):
            store8(sure + row, 1)
            found += 1
    return found

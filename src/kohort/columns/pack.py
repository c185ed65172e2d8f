"""Kernels that write records: ``choose_partitions``, ``fit`` and ``write``.

Byte strings are arrays of addresses and of lengths (-1: null), as in ``kernels``. Address 0 in the plan: the records
have no such field. ORDER and TIMES are always present.
"""

from __future__ import annotations

from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import copy, load8, load64, part, store8, store64

# The plan: addresses of int64 arrays. ORDER has the rows in output order; the others are by row. Headers of row r are
# the items FIRST_HEADER[r] to END_HEADER[r].
ORDER, KEY_AT, KEY_LENGTH, VALUE_AT, VALUE_LENGTH, TIMES, FIRST_HEADER, END_HEADER = range(8)
NAME_AT, NAME_LENGTH, CONTENT_AT, CONTENT_LENGTH = range(8, 12)
# Not an array: any valid timestamp, for a batch with a first record without one. A base timestamp of -1 would mean
# that no record has a timestamp (protocol/records.md#batches).
SOME_TIME = 12
# Results of ``fit`` for a batch.
BODY_BYTES, BASE_TIME, MAX_TIME = range(13, 16)
PLAN_FIELDS = 16

NO_TIMESTAMP = -1
UINT32_MAX = 0xFFFF_FFFF
MURMUR_SEED = 0x9747B28C
MURMUR_M = 0x5BD1E995


@part
def entry(array: int, i: int) -> int:
    """Return an entry of an array of the plan; 0 without that array."""
    address = load64(array)
    return load64(address + 8 * i) if address != 0 else 0


@part
def length_in(array: int, i: int) -> int:
    """Return a length of an array of the plan; -1 (null) without that array."""
    address = load64(array)
    return load64(address + 8 * i) if address != 0 else -1


@part
def varint_size(value: int) -> int:
    """Return the size of a zig-zag varint in bytes."""
    value = (value << 1) ^ (value >> 63)
    size = 1
    while value < 0 or value > 0x7F:
        value = (value >> 7) & 0x01FF_FFFF_FFFF_FFFF
        size += 1
    return size


@part
def put_varint(at: int, value: int) -> int:
    """Write a zig-zag varint; return its end."""
    value = (value << 1) ^ (value >> 63)
    while value < 0 or value > 0x7F:
        store8(at, (value & 0x7F) | 0x80)
        value = (value >> 7) & 0x01FF_FFFF_FFFF_FFFF
        at += 1
    store8(at, value)
    return at + 1


@part
def put_blob(at: int, place: int, length: int) -> int:
    """Write a nullable byte string; return its end."""
    at = put_varint(at, length)
    if length > 0:
        copy(at, place, length)
        at += length
    return at


@part
def record_size(plan: int, row: int, time_delta: int, offset_delta: int) -> int:
    """Return the size of a record in bytes, without its length field."""
    key, value = length_in(plan + 8 * KEY_LENGTH, row), length_in(plan + 8 * VALUE_LENGTH, row)
    first, end = entry(plan + 8 * FIRST_HEADER, row), entry(plan + 8 * END_HEADER, row)
    size = 1 + varint_size(time_delta) + varint_size(offset_delta) + varint_size(end - first)
    size += varint_size(key) + max(key, 0) + varint_size(value) + max(value, 0)
    for i in range(first, end):
        name, content = length_in(plan + 8 * NAME_LENGTH, i), length_in(plan + 8 * CONTENT_LENGTH, i)
        size += varint_size(name) + name + varint_size(content) + max(content, 0)
    return size


@kernel
def fit(plan: int, first: int, last: int, limit: int) -> int:
    """Return how many records from number ``first`` fit a batch of ``limit`` bytes before compression, at least one.

    Stores the batch's size and timestamps in the plan.
    """
    max_time = NO_TIMESTAMP
    base_time = entry(plan + 8 * TIMES, entry(plan + 8 * ORDER, first))
    if base_time == NO_TIMESTAMP:
        base_time = load64(plan + 8 * SOME_TIME)
    size, count = 0, 0
    for i in range(first, last):
        row = entry(plan + 8 * ORDER, i)
        time = entry(plan + 8 * TIMES, row)
        record = record_size(plan, row, time - base_time, count)
        record += varint_size(record)
        if count > 0 and size + record > limit:
            break
        size += record
        count += 1
        max_time = max(max_time, time)
    store64(plan + 8 * BODY_BYTES, size)
    store64(plan + 8 * BASE_TIME, base_time)
    store64(plan + 8 * MAX_TIME, max_time)
    return count


@kernel
def write(plan: int, first: int, count: int, base_time: int, to: int) -> int:
    """Write the records that ``fit`` selected; return the number of bytes."""
    at = to
    for delta in range(count):
        row = entry(plan + 8 * ORDER, first + delta)
        time_delta = entry(plan + 8 * TIMES, row) - base_time
        at = put_varint(at, record_size(plan, row, time_delta, delta))
        store8(at, 0)
        at = put_varint(at + 1, time_delta)
        at = put_varint(at, delta)
        at = put_blob(at, entry(plan + 8 * KEY_AT, row), length_in(plan + 8 * KEY_LENGTH, row))
        at = put_blob(at, entry(plan + 8 * VALUE_AT, row), length_in(plan + 8 * VALUE_LENGTH, row))
        header, end = entry(plan + 8 * FIRST_HEADER, row), entry(plan + 8 * END_HEADER, row)
        at = put_varint(at, end - header)
        for i in range(header, end):
            at = put_blob(at, entry(plan + 8 * NAME_AT, i), length_in(plan + 8 * NAME_LENGTH, i))
            at = put_blob(at, entry(plan + 8 * CONTENT_AT, i), length_in(plan + 8 * CONTENT_LENGTH, i))
    return at - to


@part
def murmur2(at: int, length: int) -> int:
    """Return Kafka's hash of a key: 32-bit murmur2 with its seed, unsigned."""
    value = (MURMUR_SEED ^ length) & UINT32_MAX
    whole = at + (length & ~3)
    while at < whole:
        k = load8(at) | load8(at + 1) << 8 | load8(at + 2) << 16 | load8(at + 3) << 24
        k = (k * MURMUR_M) & UINT32_MAX
        k = ((k ^ (k >> 24)) * MURMUR_M) & UINT32_MAX
        value = ((value * MURMUR_M) & UINT32_MAX) ^ k
        at += 4
    left = length & 3
    if left != 0:
        for i in range(left):
            value ^= load8(at + i) << (8 * i)
        value = (value * MURMUR_M) & UINT32_MAX
    value = ((value ^ (value >> 13)) * MURMUR_M) & UINT32_MAX
    return value ^ (value >> 15)


@kernel
def choose_partitions(places: int, lengths: int, rows: int, partitions: int, out: int) -> int:
    """Write the partition of each key by Java's default partitioner, -1 without a key; return the rows."""
    for row in range(rows):
        length = load64(lengths + 8 * row)
        chosen = -1
        if length >= 0:
            chosen = (murmur2(load64(places + 8 * row), length) & 0x7FFF_FFFF) % partitions
        store64(out + 8 * row, chosen)
    return rows

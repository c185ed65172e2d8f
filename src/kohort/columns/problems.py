"""What can be wrong inside a record: one number per rule, as kernels return it, and the sentence for it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kohort.columns.batches import OffsetRange
from kohort.errors import CorruptRecord


class Problem(IntEnum):
    """The rule that a record breaks (protocol/records.md#fields-of-a-record)."""

    NONE = 0
    TRUNCATED = 1
    VARINT = 2
    RECORD_LENGTH = 3
    OFFSET_DELTA = 4
    TIMESTAMP = 5
    KEY_LENGTH = 6
    VALUE_LENGTH = 7
    HEADER_COUNT = 8
    HEADER_KEY = 9
    HEADER_VALUE = 10
    RECORD_NOT_FILLED = 12
    TRAILING_BYTES = 13
    CHANGED = 14


PROBLEMS: Final = {
    Problem.TRUNCATED: "its bytes end inside a number",
    Problem.VARINT: "a number is longer than its type allows",
    Problem.RECORD_LENGTH: "its length is negative, or passes the end of the batch",
    Problem.OFFSET_DELTA: "its offset lies outside the batch",
    Problem.TIMESTAMP: "its timestamp does not fit its type",
    Problem.KEY_LENGTH: "the length of its key passes the record's end",
    Problem.VALUE_LENGTH: "the length of its value passes the record's end",
    Problem.HEADER_COUNT: "the count of its headers is more than its bytes can hold",
    Problem.HEADER_KEY: "the name of a header is null, or passes the record's end",
    Problem.HEADER_VALUE: "the value of a header passes the record's end",
    Problem.RECORD_NOT_FILLED: "bytes are left after its headers",
    Problem.TRAILING_BYTES: "bytes are left after the last record that the batch counts",
    Problem.CHANGED: "the buffer was changed while it was read",
}


def corrupt(problem: Problem, index: int, base_offset: int, wanted: OffsetRange) -> CorruptRecord:
    """Return the error for record number ``index`` of a batch. It names the batch's offset: what can be skipped."""
    return wanted.corrupt(f"record {index} of the batch: {PROBLEMS[problem]}", base_offset)

"""Numbers that the compiler of programs and the kernel share: operations, problems, words of the kernel's state.

An instruction has six words: operation, column, and up to four operands. The column is the offset of its row in the
table of columns, ``columns.COLUMN_WORDS``. Jump targets are numbers of instructions.
"""

INSTRUCTION_WORDS = 6
INSTRUCTION_BYTES = 48
COLUMN_BYTES = 32

# Operations; operands are A, B, C, D.
END, JUMP, OPTION, SWITCH, FAIL, VALID = range(6)
INT, LONG, TO_FLOAT, TO_DOUBLE, FLOAT, DOUBLE, WIDEN, BOOLEAN = range(6, 14)
STRING, BYTES, FIXED, ENUM, DECIMAL, SCALED, TIME, UUID = range(14, 22)
LIST, LIST_NEXT, CONSTANT, CONSTANT_END = range(22, 26)
NULL_FIXED, NULL_ENTRIES, NULL_MASK = range(26, 29)
SKIP_NUMBER, SKIP_BYTES, SKIP_FIXED, SKIP_LIST, SKIP_NEXT = range(29, 34)

# Results for a row: 0 or a problem; the messages are in ``reader.REASONS``.
TRUNCATED, NUMBER, BRANCH, NOT_RESOLVED, INT_RANGE, BAD_BOOLEAN, NOT_UTF8, SYMBOL = 1, 2, 3, 4, 5, 6, 7, 8
DECIMAL_RANGE, TIME_RANGE, ITEMS, TRAILING, NEGATIVE, UNIT_RANGE = 9, 10, 11, 12, 13, 14
FULL = 99
"""Not a problem of the row: a slot has no room for its next entry."""

# State of the kernel, in words.
STARTS, DATA, ROW_COUNT, SKIPS, ENTRIES, TABLE, COUNTS, CAPACITIES, SAVED, SLOTS = range(10)
PROBLEMS, NEXT_ROW, FULL_SLOT, NEEDED, NULLS, STACK = range(10, 16)
STATE_WORDS = 16
STACK_WORDS = 2

"""Kernel that decodes Avro values by running a program: one compiled kernel for all schemas.

A program reads one value and writes one entry of each column. The stack holds the state of open lists. Each length is
checked against the end of the value, each write against the capacity of its slot. If a slot is full, the kernel returns
its number, the caller grows the buffers, and the kernel decodes the row again.
"""

# ruff: noqa: I001 - dense lists of names
from __future__ import annotations

from kohort.columns.avro_values.operations import (
    BOOLEAN, BRANCH, BYTES, CAPACITIES, CONSTANT, CONSTANT_END, COUNTS, DATA, END, ENTRIES, ENUM, FIXED, FULL,
    FULL_SLOT, INSTRUCTION_BYTES, INT, JUMP, LIST, LIST_NEXT, NEEDED, NEXT_ROW, NOT_RESOLVED, NOT_UTF8, NULLS,
    NULL_FIXED, OPTION, PROBLEMS, ROW_COUNT, SAVED, SKIPS, SKIP_LIST, SKIP_NEXT, SKIP_NUMBER, SLOTS, STACK,
    STACK_WORDS, STARTS, STRING, SWITCH, TABLE, TRAILING, UUID, VALID,
)  # fmt: skip
from kohort.columns.avro_values.value_kernels import (
    add_text, checked_length, is_utf8, next_block, problem_of, set_valid, skip, write_enum, write_null,
    write_number, write_value,
)  # fmt: skip
from kohort.columns.kernels import varint
from kohort.columns.native.jit import kernel
from kohort.columns.native.primitives import big32, copy, load8, load64, part, store32, store64


@part
def choose(op: int, pc: int, at: int, end: int, program: int) -> tuple[int, int, int]:
    """Read the branch of a union; return the next instruction, the position and a problem."""
    branch, after = varint(at, end)
    if after < 0:
        return pc, at, problem_of(after)
    count = 2 if op == OPTION else load64(pc + 16)
    if branch < 0 or branch >= count:
        return pc, at, BRANCH
    if op == SWITCH:
        return pc + INSTRUCTION_BYTES * (1 + branch), after, 0  # the jump of the branch
    if branch == load64(pc + 24):
        return program + INSTRUCTION_BYTES * load64(pc + 16), after, 0
    return pc + INSTRUCTION_BYTES, after, 0


@part
def begin_list(pc: int, index: int, stack: int, program: int) -> int:
    """Push the entry of the list, and the number of items that are left in a block; return the next instruction."""
    store64(stack, index)
    store64(stack + 8, 0)
    return program + INSTRUCTION_BYTES * load64(pc + 16)


@part
def next_item(pc: int, at: int, end: int, stack: int, column: int, state: int) -> tuple[int, int, int]:
    """Return the entry of the next item, or -1 at the end of the list, the position and a problem."""
    slot = load64(column + 24)
    counter = load64(state + 8 * COUNTS) + 8 * slot
    left = load64(stack - 8)
    if left == 0:
        left, at, _ = next_block(at, end, load64(pc + 24))
        if at < 0:
            return 0, 0, -at
    count = load64(counter)
    if left == 0:
        parent = load64(stack - 16)
        store32(load64(column + 16) + 4 * (parent + 1), count)
        set_valid(column, parent)
        return -1, at, 0
    if count >= load64(load64(state + 8 * CAPACITIES) + 8 * slot):
        store64(state + 8 * FULL_SLOT, slot)
        store64(state + 8 * NEEDED, count + 1)
        return 0, at, FULL
    store64(counter, count + 1)
    store64(stack - 8, left - 1)
    return count, at, 0


@part
def next_skipped(pc: int, at: int, end: int, stack: int) -> tuple[int, int, int]:
    """Return 0 for an item to skip, or -1 at the end of the list, the position and a problem."""
    left = load64(stack - 8)
    while left == 0:
        left, at, size = next_block(at, end, load64(pc + 24))
        if at < 0:
            return 0, 0, -at
        if left == 0:
            return -1, at, 0
        if size >= 0:
            at += size
            left = 0
    store64(stack - 8, left - 1)
    return 0, at, 0


@part
def write_text(op: int, at: int, end: int, index: int, column: int, state: int) -> tuple[int, int]:
    """Read a string or bytes, and append it to a column; return the position and a problem."""
    length, at = checked_length(at, end)
    if at < 0:
        return 0, -at
    if op == STRING and not is_utf8(at, at + length):
        return 0, NOT_UTF8
    return at + length, add_text(column, index, at, length, state)


@part
def run(program: int, at: int, end: int, index: int, state: int) -> tuple[int, int]:  # noqa: C901 - one loop, kept whole for the compiler
    """Run a program over one value, and write the entry ``index``; return a problem, or 0, and the instruction."""
    pc = program
    stack, table = load64(state + 8 * STACK), load64(state + 8 * TABLE)
    outer_at, outer_end = at, end
    while True:
        op = load64(pc)
        column = table + load64(pc + 8)
        problem, is_value = 0, True
        if op == STRING or op == BYTES:  # noqa: SIM109 - for numba
            at, problem = write_text(op, at, end, index, column, state)
        elif op >= INT and op <= BOOLEAN:
            at, problem = write_number(op, pc, at, end, index, column)
        elif op >= FIXED and op <= UUID:
            if op == ENUM:
                at, problem = write_enum(pc, at, end, index, column)
            else:
                at, problem = write_value(pc, at, end, index, column, state)
        elif op != VALID:
            is_value = False
        if is_value:
            if problem != 0:
                return problem, pc
            set_valid(column, index)
            pc += INSTRUCTION_BYTES
            continue
        following = pc + INSTRUCTION_BYTES
        if op == OPTION or op == SWITCH:  # noqa: SIM109 - for numba
            following, at, problem = choose(op, pc, at, end, program)
        elif op == JUMP:
            following = program + INSTRUCTION_BYTES * load64(pc + 16)
        elif op == LIST or op == SKIP_LIST:  # noqa: SIM109 - for numba
            following = begin_list(pc, index, stack, program)
            stack += 8 * STACK_WORDS
        elif op == LIST_NEXT or op == SKIP_NEXT:  # noqa: SIM109 - for numba
            if op == LIST_NEXT:
                item, at, problem = next_item(pc, at, end, stack, column, state)
            else:
                item, at, problem = next_skipped(pc, at, end, stack)
            if item >= 0:
                index, following = item, program + INSTRUCTION_BYTES * load64(pc + 16)
            else:
                stack -= 8 * STACK_WORDS
                index = load64(stack)
        elif op == END:
            return (0 if at == end else TRAILING), pc
        elif op >= SKIP_NUMBER:
            at, problem = skip(op, pc, at, end)
        elif op >= NULL_FIXED:
            write_null(op, load64(pc + 16), index, column, state)
        elif op == CONSTANT:
            outer_at, outer_end, at = at, end, load64(pc + 16)
            end = at + load64(pc + 24)
        elif op == CONSTANT_END:
            at, end = outer_at, outer_end
        else:
            return NOT_RESOLVED, pc
        if problem != 0:
            return problem, pc
        pc = following


@kernel
def decode(state: int) -> int:
    """Decode the rows from NEXT_ROW on; return 0, or 1 if FULL_SLOT needs room for NEEDED entries.

    SKIPS has the number of bytes before each value. ENTRIES has the address of each row's program, 0 for a row of
    nulls. A bad row becomes a row of nulls; PROBLEMS gets its problem plus 256 times the number of the instruction.
    """
    starts, data = load64(state + 8 * STARTS), load64(state + 8 * DATA)
    skips, entries = load64(state + 8 * SKIPS), load64(state + 8 * ENTRIES)
    counts, saved, size = load64(state + 8 * COUNTS), load64(state + 8 * SAVED), 8 * load64(state + 8 * SLOTS)
    nulls, problems = load64(state + 8 * NULLS), load64(state + 8 * PROBLEMS)
    for row in range(load64(state + 8 * NEXT_ROW), load64(state + 8 * ROW_COUNT)):
        program = load64(entries + 8 * row)
        if program != 0:
            both = load64(starts + 4 * row)
            begin, end = data + (both & 0xFFFF_FFFF) + load8(skips + row), data + ((both >> 32) & 0xFFFF_FFFF)
            copy(saved, counts, size)
            problem, pc = run(program, begin, end, row, state)
            if problem != 0:
                copy(counts, saved, size)
            if problem == FULL:
                store64(state + 8 * NEXT_ROW, row)
                return 1
            if problem != 0:
                store64(problems + 8 * row, problem + 256 * ((pc - program) // INSTRUCTION_BYTES))
                program = 0
        if program == 0:
            run(nulls, 0, 0, row, state)
    return 0


@kernel
def read_ids(starts: int, data: int, rows: int, ids: int) -> int:
    """Store the schema id of each value with a zero byte and four bytes of id in front, -1 for others.

    Returns the number of values with an id.
    """
    found = 0
    for row in range(rows):
        both = load64(starts + 4 * row)
        begin, end = data + (both & 0xFFFF_FFFF), data + ((both >> 32) & 0xFFFF_FFFF)
        is_framed = end - begin >= 5 and load8(begin) == 0
        store64(ids + 8 * row, big32(begin + 1) & 0xFFFF_FFFF if is_framed else -1)
        found += is_framed
    return found

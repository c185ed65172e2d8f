"""Decode a block of Avro values into columns: find schema ids, get the programs, run the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from kohort.columns.avro_values import operations as op
from kohort.columns.avro_values.columns import Columns, Room
from kohort.columns.avro_values.interpreter import decode, read_ids
from kohort.columns.avro_values.program import Program, compile_program, null_program
from kohort.columns.avro_values.schema import Type
from kohort.columns.conversions import REASON_MOST, Decoded

STACK_DEPTH: Final = 256
"""Capacity for open lists; the nesting limit of schemas is lower."""
REASONS: Final = {
    op.TRUNCATED: "the value is truncated",
    op.NUMBER: "a number of more than 64 bits",
    op.BRANCH: "a branch or symbol index outside the schema",
    op.NOT_RESOLVED: "the branch of the writer's union cannot be read as the reader's type",
    op.INT_RANGE: "an int of more than 32 bits",
    op.BAD_BOOLEAN: "a boolean other than 0 and 1",
    op.NOT_UTF8: "text that is not UTF-8",
    op.SYMBOL: "the reader's enum has neither the symbol nor a default",
    op.DECIMAL_RANGE: "a decimal with more digits than the precision of the schema",
    op.TIME_RANGE: "a time of day outside of one day",
    op.ITEMS: "a list claims more items than the value has bytes",
    op.TRAILING: "bytes follow the Avro value",
    op.NEGATIVE: "a negative length",
    op.UNIT_RANGE: "a timestamp that does not fit the reader's unit",
}


class AvroReader:
    """Decoder of values into the columns of one reader's schema."""

    def __init__(self, reader: Type, target: Any = None) -> None:
        """Create the columns. ``target``: Arrow schema that the reader was made from. Raises AvroProblem."""
        self.columns = Columns(reader, target)
        self.schema = self.columns.schema
        self._nulls = null_program(self.columns.top)

    def program(self, writer: Type) -> Program:
        """Return the program for a writer's schema. Raises AvroProblem if the schemas do not match."""
        return compile_program(writer, self.columns.root)

    def decode(self, values: Any, skips: Any, programs: Mapping[int, Program], entries: Any) -> Decoded:
        """Return the columns of binary ``values``.

        ``skips``: number of bytes before each value, as uint8; ``entries``: address of each row's program in
        ``programs``, 0 for a row of nulls. Raises AvroProblem if a column of the block is too large for Arrow.
        """
        rows = len(values)
        starts, data = addresses(values)
        size = int(np.frombuffer(values.buffers()[1], np.int32)[values.offset + rows]) if rows and data else 0
        room = Room(self.columns, rows, size)
        problems = np.zeros(max(rows, 1), np.int64)
        saved, stack = np.empty_like(room.counts), np.empty((STACK_DEPTH, op.STACK_WORDS), np.int64)
        state = np.zeros(op.STATE_WORDS, np.int64)
        state[:] = (
            *(
                starts,
                data,
                rows,
                skips.ctypes.data,
                entries.ctypes.data,
                room.table.ctypes.data,
                room.counts.ctypes.data,
            ),
            *(room.capacities.ctypes.data, saved.ctypes.data, len(saved), problems.ctypes.data, 0, 0, 0),
            *(self._nulls.address, stack.ctypes.data),
        )
        while decode(state.ctypes.data):
            room.grow(int(state[op.FULL_SLOT]), int(state[op.NEEDED]))
        reasons = {}
        for row in np.flatnonzero(problems).tolist():
            reasons[row] = _reason(int(problems[row]), programs[int(entries[row])])
        return Decoded(room.arrays((problems[:rows] == 0) & (entries[:rows] != 0)), reasons)


def addresses(values: Any) -> tuple[int, int]:
    """Return the addresses of the first start, and of the bytes, of a binary array."""
    _, starts, data = values.buffers()
    begin = starts.address + 4 * values.offset if starts is not None else 0
    return begin, data.address if data is not None else 0


def schema_ids(values: Any) -> Any:
    """Return the schema id of each value in Confluent's prefix form, -1 without one."""
    ids = np.empty(len(values), np.int64)
    starts, data = addresses(values)
    read_ids(starts, data, len(values), ids.ctypes.data)
    return ids


def _reason(problem: int, program: Program) -> str:
    path, reason = program.paths[problem >> 8], REASONS[problem & 0xFF]
    return f"field {path!r}: {reason}"[:REASON_MOST] if path else reason

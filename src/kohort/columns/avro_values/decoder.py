"""Decode Avro values with the schemas of an ``AvroFormat``: references to schemas, programs, reasons."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.columns.avro_values.arrow_schema import reader_type
from kohort.columns.avro_values.format import AvroFormat
from kohort.columns.avro_values.program import Program
from kohort.columns.avro_values.reader import AvroReader, schema_ids
from kohort.columns.avro_values.schema import AvroProblem, Type, parse_schema
from kohort.columns.conversions import REASON_MOST, Decoded
from kohort.errors import UndecodableValue, UsageError
from kohort.schemas.framing import VALUE_HEADER, SchemaRef, read_frame

PREFIX_BYTES: Final = 5
NO_ID: Final = -1
READER: Final = "reader"
DECODER: Final = "decoder"
"""Keys of dicts whose ``setdefault`` lets one thread win."""
NO_FRAME: Final = "no schema id: expected byte 00 and an id of 4 bytes before the value"
PROGRAMS_MOST: Final = 1000
"""Limit of the kept programs."""
UNKNOWN_MOST: Final = 16
"""Limit of unknown schemas that the registry is asked for in one block of values."""
RAW_BYTES: Final = "Confluent's serializers write no length before values of the schema bytes: read the column value"
NOT_ASKED: Final = (
    f"the registry does not know {UNKNOWN_MOST} other schemas of this batch, and was not asked for this one"
)


class References(NamedTuple):
    """Schema ids of rows, bytes before their values, and reasons of bad rows. A GUID has a number below NO_ID."""

    ids: Any
    skips: Any
    problems: dict[int, str]
    guids: dict[int, str]
    numbers: dict[str, int]

    def reference(self, schema_id: int) -> SchemaRef:
        return self.guids.get(schema_id, schema_id)

    def set_header(self, row: int, schema: SchemaRef) -> None:
        if isinstance(schema, str):
            number = self.numbers.setdefault(schema, NO_ID - 1 - len(self.numbers))
            self.guids[number] = schema
            schema = number
        self.ids[row], self.skips[row] = schema, 0


class AvroDecoder:
    """Decoder with the reader of one format, and a program for each writer's schema."""

    def __init__(self, avro: AvroFormat) -> None:
        self._format = avro
        self._readers: dict[str, AvroReader] = {}
        self._programs: dict[SchemaRef, Program | str] = {}
        if avro.schema is None:
            return
        try:
            is_arrow = isinstance(avro.schema, pa.Schema)
            schema = reader_type(avro.schema) if is_arrow else parse_schema(avro.schema)
            self._set_reader(schema, avro.schema if is_arrow else None)
            if avro.framing == "none":
                self._programs[NO_ID] = self._readers[READER].program(schema)
        except AvroProblem as problem:
            raise UsageError(f"schema: {problem}") from None

    @property
    def schema(self) -> pa.Schema | None:
        """Columns of the reader's schema; None before it is known."""
        return None if self._reader is None else self._reader.schema

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns of the record that ``decode`` needs."""
        return ("value", "headers") if self._format.framing == "header" else ("value",)

    def decode(self, values: pa.Array, headers: pa.Array | None) -> Decoded:
        """Return the columns of the reader's schema. Raises the errors of the registry, UsageError for its own."""
        rows = len(values)
        found = References(np.full(rows, NO_ID, np.int64), np.zeros(rows, np.uint8), {}, {}, {})
        if self._format.framing != "none":
            found.ids[:] = schema_ids(values)
            found.skips[found.ids != NO_ID] = PREFIX_BYTES
            if headers is not None:
                _read_headers(headers, found)
        programs, entries = self._entries(found, ~np.asarray(values.is_null()))
        reader = self._reader
        if reader is None:
            return Decoded([], found.problems)
        try:
            decoded = reader.decode(values, found.skips, programs, entries)
        except AvroProblem as problem:
            raise UsageError(f"{problem}: read less with max_bytes=") from None
        for row, reason in decoded.problems.items():
            found.problems[row] = self._with_schema(reason, found.reference(int(found.ids[row])))
        return Decoded(decoded.columns, found.problems)

    def _entries(self, found: References, is_good: Any) -> tuple[dict[int, Program], Any]:
        """Return the programs by address, and the address of each row's program; 0 for nulls and bad rows."""
        is_good[list(found.problems)] = False
        if self._format.framing != "none":
            for row in np.flatnonzero(is_good & (found.ids == NO_ID)).tolist():
                found.problems[row] = NO_FRAME
            is_good &= found.ids != NO_ID
        ids = found.ids[is_good]
        distinct, places, firsts = _distinct(ids)
        compiled = self._of_references([found.reference(one) for one in distinct], firsts)
        programs = {one.address: one for one in compiled if isinstance(one, Program)}
        entries = np.zeros(len(is_good), np.int64)
        entries[is_good] = np.array([0 if isinstance(one, str) else one.address for one in compiled], np.int64)[places]
        if len(programs) < len(compiled):
            for row, place in zip(np.flatnonzero(is_good).tolist(), places.tolist(), strict=True):
                reason = compiled[place]
                if isinstance(reason, str):
                    found.problems[row] = reason
        return programs, entries

    def _of_references(self, references: list[SchemaRef], firsts: list[int]) -> list[Program | str]:
        """Return a program, or a reason, for each schema, given from old to new. ``firsts``: first row of each.

        Without a reader's schema, the newest schema is asked for first, and becomes the reader's. With it, the schema
        of the first row is asked for first: unknown schemas of later rows do not make an earlier row undecodable.
        """
        unknown, by_reference = 0, dict[SchemaRef, Program | str]()
        by_row = [references[place] for place in np.argsort(firsts).tolist()]
        for reference in reversed(references) if self._reader is None else by_row:
            if unknown >= UNKNOWN_MOST and reference not in self._programs:
                by_reference[reference] = NOT_ASKED
                continue
            by_reference[reference] = self._program(reference)
            unknown += reference not in self._programs
        return [by_reference[reference] for reference in references]

    def _with_schema(self, reason: str, reference: SchemaRef) -> str:
        return (reason if reference == NO_ID else f"schema {reference}: {reason}")[:REASON_MOST]

    def _program(self, reference: SchemaRef) -> Program | str:
        """Return the program of a writer's schema, or the reason why its values cannot be read."""
        known = self._programs.get(reference)
        if known is not None:
            return known
        try:
            writer = parse_schema(*self._format.writer_schema(reference))
            if self._reader is None:
                self._set_reader(writer)
            is_raw = writer.kind == "bytes" and not writer.logical
            found: Program | str = RAW_BYTES if is_raw else self._readers[READER].program(writer)
        except LookupError:
            return f"schema {reference} is unknown to the registry"
        except AvroProblem as problem:
            found = str(problem)
        except UnicodeEncodeError:
            found = "a name in the schema is not valid Unicode"
        if isinstance(found, str):
            found = self._with_schema(found, reference)
        if len(self._programs) >= PROGRAMS_MOST:
            self._programs.clear()
        return self._programs.setdefault(reference, found)

    @property
    def _reader(self) -> AvroReader | None:
        return self._readers.get(READER)

    def _set_reader(self, reader: Type, target: pa.Schema | None = None) -> None:
        """Set the reader, once: another thread may have set it, and compiled programs for its columns."""
        self._readers.setdefault(READER, AvroReader(reader, target))


def decoder_of(avro: AvroFormat) -> AvroDecoder:
    """Return the decoder of a format, which keeps the compiled schemas."""
    found: AvroDecoder | None = avro.decoders.get(DECODER)
    return found or avro.decoders.setdefault(DECODER, AvroDecoder(avro))


def _distinct(ids: Any) -> tuple[list[int], Any, list[int]]:
    """Return the sorted distinct ids, the place of each id among them, and the first place of each in ``ids``."""
    if not len(ids) or (ids == ids[0]).all():
        one = [int(found) for found in ids[:1]]
        return one, np.zeros(len(ids), np.int64), [0] * len(one)
    found, firsts, places = np.unique(ids, return_index=True, return_inverse=True)
    return [int(one) for one in found], places, [int(first) for first in firsts]


def _read_headers(headers: pa.Array, found: References) -> None:
    """Set the references of rows with a schema header, whose values have no prefix."""
    rows, flat = pc.list_parent_indices(headers), headers.flatten()
    is_schema = pc.equal(flat.field(0), VALUE_HEADER)
    pairs = zip(rows.filter(is_schema).to_pylist(), flat.field(1).filter(is_schema).to_pylist(), strict=True)
    for row, data in dict(pairs).items():  # the last header of a record
        try:
            found.set_header(row, read_frame(b"", [(VALUE_HEADER, data or b"")]).schema)
        except UndecodableValue as error:
            found.problems[row] = error.problem

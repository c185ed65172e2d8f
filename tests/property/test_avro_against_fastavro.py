"""The kernel of Avro against fastavro: the same rows for every schema and value, and no damage by any bytes."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")
fastavro = pytest.importorskip("fastavro")

from kohort import AvroFormat  # noqa: E402 - behind importorskip
from kohort.columns.avro_values.decoder import decoder_of  # noqa: E402 - behind importorskip
from kohort.columns.conversions import Decoded  # noqa: E402 - behind importorskip
from support.avro_schemas import evolved, records, shown, values  # noqa: E402 - behind importorskip

MANY = settings(max_examples=15, derandomize=True, deadline=None, database=None)


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoded(data: list[bytes | None], writer: Any, reader: Any = None) -> Decoded:
    """Decode values of a writer's schema, with the id 1 before each."""
    avro = AvroFormat(json.dumps(reader or writer), registry={1: json.dumps(writer)})
    framed = [None if value is None else b"\0\0\0\0\1" + value for value in data]
    return decoder_of(avro).decode(pa.array(framed, pa.binary()), None)


def rows(found: Decoded, schema: Any) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_arrays(found.columns, schema=schema)
    batch.validate(full=True)
    return batch.to_pylist()


def schema_of(reader: Any) -> Any:
    return decoder_of(AvroFormat(json.dumps(reader), framing="none")).schema


@MANY
@given(st.data())
def test_values_become_the_rows_that_fastavro_reads(data):
    schema = data.draw(records(wide=True))
    given_values = data.draw(st.lists(st.none() | values(schema), min_size=1, max_size=6))

    found = decoded([None if value is None else encoded(schema, value) for value in given_values], schema)

    assert found.problems == {}
    nothing = dict.fromkeys(field["name"] for field in schema["fields"])
    read = fastavro.schemaless_reader
    assert rows(found, schema_of(schema)) == [
        nothing if value is None else shown(schema, read(io.BytesIO(encoded(schema, value)), schema, None))
        for value in given_values
    ]


@MANY
@given(st.data())
def test_evolved_schemas_read_the_rows_that_fastavro_reads(data):
    writer = data.draw(records(wide=False))
    reader = data.draw(evolved(writer))
    values_bytes = [encoded(writer, value) for value in data.draw(st.lists(values(writer), min_size=1, max_size=4))]
    expected: list[Any] = []
    for value in values_bytes:
        try:
            expected.append(shown(reader, fastavro.schemaless_reader(io.BytesIO(value), writer, reader)))
        except UnicodeDecodeError:
            expected.append(None)

    found = decoded(values_bytes, writer, reader)

    assert set(found.problems) == {row for row, value in enumerate(expected) if value is None}
    nothing = dict.fromkeys(field["name"] for field in reader["fields"])
    assert rows(found, schema_of(reader)) == [nothing if value is None else value for value in expected]


@MANY
@given(st.data())
def test_damaged_bytes_depend_on_nothing_outside_of_their_value(data):
    schema = data.draw(records(wide=True))
    value = bytearray(encoded(schema, data.draw(values(schema))))
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        if place < len(value):
            value[place] = byte
    damaged = bytes(value[: data.draw(st.integers(0, len(value)))])
    reader = data.draw(evolved(schema))

    alone = decoded([damaged], schema, reader)
    between = [decoded([fill * 40, damaged, fill * 40], schema, reader) for fill in (b"\0", b"\xff", b"\2")]

    row = rows(alone, schema_of(reader))[0]
    for found in between:
        assert repr(rows(found, schema_of(reader))[1]) == repr(row)
        assert found.problems.get(1) == alone.problems.get(0)


@MANY
@given(st.data())
def test_truncated_values_are_problems_and_their_neighbours_stay(data):
    schema = data.draw(records(wide=True))
    value = data.draw(values(schema))
    whole = encoded(schema, value)
    cut = data.draw(st.integers(0, max(len(whole) - 1, 0)))

    found = decoded([whole, whole[:cut], whole], schema)

    assert set(found.problems) == ({1} if whole else set())
    first, _, last = rows(found, schema_of(schema))
    assert first == last == shown(schema, fastavro.schemaless_reader(io.BytesIO(whole), schema, None))

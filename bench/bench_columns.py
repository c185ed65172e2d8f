"""Columns: records per second that one core decodes and encodes with plain Python, record kernels and Arrow; JSON
values per second with the kernel, Arrow's reader and msgspec; Avro values with the kernel and with fastavro.

    python bench/bench_columns.py [--json] [--records N] [--seconds S]

Each figure is the best of several runs over batches of 16 KiB (the producer's default), with checksums, per second of
processor time, which is comparable on busy machines.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable
from datetime import UTC
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.json

from kohort import AvroFormat
from kohort.columns.avro_values.decoder import decoder_of
from kohort.columns.batches import OffsetRange, sections
from kohort.columns.decode import decode_batches
from kohort.columns.encode import RecordColumns, encode_partitions
from kohort.columns.json_values.flat_objects import flat_columns
from kohort.columns.plain import read_section
from kohort.columns.records_by_kernels import located_records
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, with_offset

KEY_BYTES = 8
BATCH_BYTES = 16_384


def table_of(records: int, size: int) -> pa.Table:
    keys = pa.array([b"%08d" % (i % 1000) for i in range(records)], pa.binary())
    values = pa.array([bytes(size - KEY_BYTES)] * records, pa.binary())
    return pa.table({"key": keys, "value": values})


def fetched(table: pa.Table, codec: Codec) -> bytes:
    """Return one partition's batches as in a Fetch response."""
    parts, offset = [], 0
    columns = RecordColumns(table["key"], table["value"], timestamp_ms=1)
    for batch in encode_partitions(columns, partitions=1, batch_bytes=BATCH_BYTES, codec=codec):
        parts += with_offset(batch.data, offset, 0)
        offset += batch.records
    return b"".join(parts)


def plain(data: bytes) -> int:
    offset_range, out = OffsetRange("bench", 0, 0), []
    for section in sections(data, offset_range):
        read_section(section, offset_range, out)
    return len(out)


def by_kernels(data: bytes) -> int:
    return len(located_records(data, OffsetRange("bench", 0, 0)))


def by_arrow(data: bytes) -> int:
    return decode_batches(data, OffsetRange("bench", 0, 0)).num_rows


def best(work: Callable[[], int], seconds: float) -> float:
    """Return the records per second of the best run, within about ``seconds``."""
    found, until = 0.0, time.process_time() + seconds
    while True:
        began = time.process_time()
        count = work()
        now = time.process_time()
        found = max(found, count / (now - began))
        if now > until:
            return found


def encode_plain(table: pa.Table) -> int:
    rows = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    per_batch = BATCH_BYTES // (len(table["value"][0].as_py()) + KEY_BYTES)
    lot: list[NewRecord] = []
    for key, value in rows:
        lot.append(NewRecord(key, value, (), 1))
        if len(lot) == per_batch:
            build_batch(lot)
            lot = []
    return len(table)


def encode_arrow(table: pa.Table) -> int:
    columns = RecordColumns(table["key"], table["value"], timestamp_ms=1)
    batches = encode_partitions(columns, partitions=6, batch_bytes=BATCH_BYTES)
    return sum(batch.records for batch in batches)


JSON_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("station", pa.string()),
        ("celsius", pa.float64()),
        ("is_valid", pa.bool_()),
        ("note", pa.string()),
    ]
)


class JsonRow(msgspec.Struct):
    """The fields of JSON_SCHEMA."""

    id: int
    station: str
    celsius: float
    is_valid: bool
    note: str


JSON_ROWS = msgspec.json.Decoder(JsonRow)


def json_values(records: int) -> pa.Array:
    """Return flat objects of about 100 bytes, with an unused field."""
    row = b'{"id": %d, "station": "S%03d", "celsius": %d.5, "is_valid": true, "source": "probe", "note": "as expected"}'
    return pa.array([row % (i, i % 1000, i % 40) for i in range(records)], pa.binary())


def json_by_kernel(values: pa.Array) -> int:
    flat = flat_columns(values, JSON_SCHEMA, UTC)
    assert flat is not None
    assert not len(flat.left)
    return len(flat.columns[0])


def json_by_arrow(values: pa.Array) -> int:
    lines = b"\n".join(values.to_pylist())
    table = pa.json.read_json(
        pa.BufferReader(lines),
        pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        pa.json.ParseOptions(explicit_schema=JSON_SCHEMA, unexpected_field_behavior="ignore"),
    )
    return len(table)


def json_by_msgspec(values: pa.Array) -> int:
    rows = [JSON_ROWS.decode(value) for value in values.to_pylist()]
    columns = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in JSON_SCHEMA]
    return len(columns[0])


AVRO_FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "station", "type": "string"},
    {"name": "celsius", "type": "double"},
    {"name": "is_valid", "type": "boolean"},
    {"name": "source", "type": "string"},
    {"name": "note", "type": "string"},
]
AVRO_WRITER = {"type": "record", "name": "Row", "fields": AVRO_FIELDS}
AVRO_READER = {**AVRO_WRITER, "fields": [field for field in AVRO_FIELDS if field["name"] != "source"]}


def avro_values(records: int) -> pa.Array:
    """Return the objects of ``json_values`` in Avro, with the schema id 1 before each."""
    schema, values = fastavro.parse_schema(AVRO_WRITER), []
    for i in range(records):
        out = io.BytesIO()
        row = {"id": i, "station": f"S{i % 1000:03}", "celsius": i % 40 + 0.5, "is_valid": True}
        fastavro.schemaless_writer(out, schema, {**row, "source": "probe", "note": "as expected"})
        values.append(b"\0\0\0\0\1" + out.getvalue())
    return pa.array(values, pa.binary())


AVRO = AvroFormat(json.dumps(AVRO_READER), registry={1: json.dumps(AVRO_WRITER)})


def avro_by_kernel(values: pa.Array) -> int:
    decoded = decoder_of(AVRO).decode(values, None)
    assert not decoded.problems
    return len(decoded.columns[0])


def avro_by_fastavro(values: pa.Array) -> int:
    writer, reader = fastavro.parse_schema(AVRO_WRITER), fastavro.parse_schema(AVRO_READER)
    rows: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(value[5:]), writer, reader) for value in values.to_pylist()
    ]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in JSON_SCHEMA]
    return len(columns[0])


def first_use(data: bytes) -> float:
    """Return the time of the first decode in this process: loads or compiles the kernels."""
    began = time.process_time()
    by_arrow(data)
    return time.process_time() - began


def measure(records: int, seconds: float) -> dict[str, float]:
    results: dict[str, float] = {}
    for size in (50, 200):
        table = table_of(records, size)
        data = fetched(table, Codec.NONE)
        if not results:
            results["first_use_seconds"] = first_use(data)
        results[f"decode_plain_{size}"] = best(lambda data=data: plain(data), seconds)
        results[f"decode_records_{size}"] = best(lambda data=data: by_kernels(data), seconds)
        results[f"decode_arrow_{size}"] = best(lambda data=data: by_arrow(data), seconds)
        packed = fetched(table, Codec.ZSTD)
        results[f"decode_arrow_zstd_{size}"] = best(lambda data=packed: by_arrow(data), seconds)
        results[f"encode_plain_{size}"] = best(lambda table=table: encode_plain(table), seconds)
        results[f"encode_arrow_{size}"] = best(lambda table=table: encode_arrow(table), seconds)
    values = json_values(records)
    for name, read in (("kernel", json_by_kernel), ("arrow", json_by_arrow), ("msgspec", json_by_msgspec)):
        read(values)
        results[f"json_{name}"] = best(lambda read=read: read(values), seconds)
    results["json_kernel_mb"] = results["json_kernel"] * values.nbytes / records
    values = avro_values(records)
    for name, read in (("kernel", avro_by_kernel), ("fastavro", avro_by_fastavro)):
        read(values)
        results[f"avro_{name}"] = best(lambda read=read: read(values), seconds)
    results["avro_kernel_mb"] = results["avro_kernel"] * values.nbytes / records
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    results = measure(options.records, options.seconds)
    if options.json:
        print(json.dumps({"bench": "columns", "records": options.records, "results": results}))
        return
    print(f"first decode in this process: {results.pop('first_use_seconds'):.2f} s")
    for name, rate in results.items():
        print(f"{name:24} {rate / 1e6:8.2f} {'MB/s' if name.endswith('_mb') else 'M records/s'}")


if __name__ == "__main__":
    main()

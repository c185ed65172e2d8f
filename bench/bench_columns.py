"""How many records a second columns decode and encode on one core: plain Python, records by kernels, Arrow.

    python bench/bench_columns.py [--json] [--records N] [--seconds S]

Each figure is the best of several runs over batches of 16 KiB (what producers send by default), checksums on, by the
second of processor time: comparable on a machine that has other things to do.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import pyarrow as pa

from kohort.columns.batches import Place, sections
from kohort.columns.decode import decode_batches
from kohort.columns.encode import encode_partitions
from kohort.columns.plain import read_section
from kohort.columns.records_by_kernels import located_records
from kohort.wire.compression import DEFAULT_MAX_BYTES, Codec
from kohort.wire.record_batch import NewRecord, build_batch, with_offset

KEY_BYTES = 8
BATCH_BYTES = 16_384


def table_of(records: int, size: int) -> pa.Table:
    keys = pa.array([b"%08d" % (i % 1000) for i in range(records)], pa.binary())
    values = pa.array([bytes(size - KEY_BYTES)] * records, pa.binary())
    return pa.table({"key": keys, "value": values})


def fetched(table: pa.Table, codec: Codec) -> bytes:
    """One partition's batches as a Fetch brings them."""
    parts, offset = [], 0
    columns = (table["key"], table["value"])
    for batch in encode_partitions(*columns, partitions=1, batch_bytes=BATCH_BYTES, codec=codec, timestamp_ms=1):
        parts += with_offset(batch.data, offset, 0)
        offset += batch.records
    return b"".join(parts)


def plain(data: bytes) -> int:
    place, out = Place("bench", 0, 0), []
    for section in sections(data, place):
        read_section(section, place, out)
    return len(out)


def by_kernels(data: bytes) -> int:
    options = {"check_crcs": True, "max_batch_bytes": DEFAULT_MAX_BYTES, "aborted": ()}
    return len(located_records(data, Place("bench", 0, 0), **options))


def by_arrow(data: bytes) -> int:
    return decode_batches(data, topic="bench", partition=0, start_offset=0).num_rows


def best(work: Callable[[], int], seconds: float) -> float:
    """Records a second in the best run, within about ``seconds``."""
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
    columns = (table["key"], table["value"])
    batches = encode_partitions(*columns, partitions=6, batch_bytes=BATCH_BYTES, timestamp_ms=1)
    return sum(batch.records for batch in batches)


def first_use(data: bytes) -> float:
    """Seconds for the first decode in this process: loads the kernels, or compiles them."""
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
        print(f"{name:24} {rate / 1e6:8.2f} M records/s")


if __name__ == "__main__":
    main()

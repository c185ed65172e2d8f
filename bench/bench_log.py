"""The log alone: appends, reads, and the time of a start.

    python bench/bench_log.py [--mb 100] [--data DIR | --memory] [--json]

Rates are by wall time and by processor time; only the latter is meaningful on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kohort.aio.serving.file_storage import FileStorage
from kohort.config import BrokerConfig
from kohort.log.partition import PartitionLog
from kohort.log.storage import MemoryStorage, Storage
from kohort.log.topics import Topics
from kohort.wire.record_batch import NewRecord, build_batch, parse_batch_header, split_batches

NOW_MS = 1_700_000_000_000
FETCH_BYTES = 1 << 20


def timed(action: Callable[[], int]) -> dict[str, float]:
    """Run ``action``, which returns the bytes it moved."""
    wall, processor = time.perf_counter(), time.process_time()
    moved = action()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    figures = {"seconds": round(wall, 4), "cpu_seconds": round(processor, 4)}
    if moved:
        figures |= {"mb_per_s": round(moved / wall / 1e6, 1), "mb_per_cpu_s": round(moved / processor / 1e6, 1)}
    return figures


def append_all(log: PartitionLog, size: int, total: int) -> dict[str, float]:
    """Fill the log with one-record batches of about ``size`` bytes."""
    batch = build_batch([NewRecord(b"key", b"v" * (size - 80), (), NOW_MS)])
    count = total // len(batch)

    def append() -> int:
        for _ in range(count):
            log.append(batch, NOW_MS)
        return count * len(batch)

    figures = timed(append)
    figures["batches_per_s"] = round(count / figures["seconds"])
    figures["us_per_batch_cpu"] = round(figures["cpu_seconds"] / count * 1e6, 2)
    return figures


def read_all(log: PartitionLog) -> int:
    """Read the log as a consumer would, a fetch at a time."""
    offset, moved = log.log_start_offset, 0
    while offset < log.log_end_offset:
        for buffer in log.read(offset, FETCH_BYTES):
            moved += len(buffer)
            last = _last_batch(buffer)
            offset = parse_batch_header(buffer, last).next_offset
    return moved


def _last_batch(buffer: bytes | bytearray | memoryview) -> int:
    at = last = 0
    while at < len(buffer):
        last, at = at, at + 12 + int.from_bytes(buffer[at + 8 : at + 12], "big")
    return last


def find_all(log: PartitionLog, lookups: int) -> float:
    """Microseconds to find and read one batch at a random offset."""
    rng = random.Random(1)
    offsets = [rng.randrange(log.log_start_offset, log.log_end_offset) for _ in range(lookups)]
    processor = time.process_time()
    for offset in offsets:
        assert next(split_batches(log.read(offset, 1)[0]))[1].base_offset == offset
    return round((time.process_time() - processor) / lookups * 1e6, 2)


@contextlib.contextmanager
def storage_of(data: str | None, *, memory: bool) -> Iterator[Storage]:
    if memory:
        yield MemoryStorage()
        return
    with tempfile.TemporaryDirectory(dir=data) as folder, FileStorage(Path(folder, "data")) as storage:
        yield storage


def opened(storage: Storage) -> Topics:
    return Topics(storage, BrokerConfig(), random.Random(1), NOW_MS)


def measure(storage: Storage, total: int) -> dict[str, object]:
    topics = opened(storage)
    results: dict[str, object] = {}
    results["make_60_empty_partitions"] = timed(lambda: bool(topics.create("__consumer_offsets", 60, {}, NOW_MS)) * 0)
    results["start_60_empty_partitions"] = timed(lambda: bool(opened(storage)) * 0)
    for size in (1_000, 64_000):
        log = topics.create(f"batches-of-{size}", 1, {}, NOW_MS).partitions[0]
        results[f"append_{size}"] = append_all(log, size, total)
        results[f"read_{size}"] = timed(lambda log=log: read_all(log))
        results[f"find_{size}_us_cpu"] = find_all(log, 2_000)
    results["start_after_crash"] = timed(lambda: bool(opened(storage)) * 0)
    again = opened(storage)
    results["close_with_flush"] = timed(lambda: len(again.close()))
    results["start_after_clean_stop"] = timed(lambda: bool(opened(storage)) * 0)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100, help="megabytes appended per batch size")
    parser.add_argument("--data", help="folder to make the logs in (default: the system's temporary folder)")
    parser.add_argument("--memory", action="store_true", help="memory instead of files")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args()
    with storage_of(arguments.data, memory=arguments.memory) as storage:
        results = measure(storage, arguments.mb * 1_000_000)
    results |= {"mb": arguments.mb, "storage": "memory" if arguments.memory else "files", "cpus": os.cpu_count()}
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, figures in results.items():
            print(f"{name:28} {figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

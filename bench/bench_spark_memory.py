"""Memory of Spark's Python workers with a backlog: one unlimited micro-batch, and limited ones.

    python bench/bench_spark_memory.py [--gigabytes 10] [--bytes 1000] [--json]

The topic is on a broker with its log in a temporary folder, which needs ``--gigabytes`` of disk. One query reads the
backlog into noop in one micro-batch; another has ``maxBytesPerTrigger`` of 64 MiB and is stopped after some
micro-batches. ``MB`` is the peak memory of a worker, ``above MB`` its excess over a worker that has read some rows.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

from serving import served_broker
from sparking import arguments, bench_session, fill, report, stream

LIMITED_BATCHES = 8
EVERY_S = 0.2
NO_LIMIT = 2**60


def workers() -> dict[int, float]:
    """Return the peak memory in MB of each running Python worker below this process."""
    parents, peaks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            command = (folder / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        parents[int(folder.name)] = int(status["PPid"])
        if b"pyspark.daemon\0pyspark.worker" in command and "VmHWM" in status:
            peaks[int(folder.name)] = int(status["VmHWM"].split()[0]) / 1024
    return {pid: peak for pid, peak in peaks.items() if _below(pid, parents)}


def _below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


class Watch:
    """Peak memory of all workers during a ``with`` block: a worker may end between two samples."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.most_mb = 0.0

    def _look(self) -> None:
        while not self._stopped.wait(EVERY_S):
            self.most_mb = max([self.most_mb, *workers().values()])

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def read(frame: Any, batches: int | None) -> dict[str, float]:
    """Run a query into noop, to its end or for some micro-batches, and sample its workers."""
    with Watch() as watch, tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        while query.isActive and (batches is None or len(query.recentProgress) < batches):
            query.awaitTermination(1)
        query.stop()
        found = [p for p in query.recentProgress if p.numInputRows]
    return {
        "MB": round(watch.most_mb),
        "micro_batches": len(found),
        "rows_of_the_largest": max(p.numInputRows for p in found),
        "s": round(sum(p.durationMs["triggerExecution"] for p in found) / 1000, 1),
    }


def main() -> None:
    options = arguments(__doc__, gigabytes=10, bytes=1000, partitions=2).parse_args()
    records = options.gigabytes * 10**9 // options.bytes
    with tempfile.TemporaryDirectory() as data, served_broker(Path(data)) as broker:
        fill(broker.address, records, options.bytes, options.partitions)
        spark, _ = bench_session("")
        few = read(stream(spark, "kohort", broker.address, 1000).load(), 2)
        limited = stream(spark, "kohort", broker.address, NO_LIMIT, maxBytesPerTrigger=str(64 * 2**20)).load()
        results = {"some rows": few, "64 MiB a micro-batch": read(limited, LIMITED_BATCHES)}
        results["all in one micro-batch"] = read(stream(spark, "kohort", broker.address, NO_LIMIT).load(), None)
        spark.stop()
    for found in results.values():
        found["above MB"] = found["MB"] - few["MB"]
    report({f"backlog of {options.gigabytes} GB, {name}": found for name, found in results.items()}, options)


if __name__ == "__main__":
    main()

"""A process that loads a topic into a table until it is killed: ``python table_load.py BROKER TOPIC FOLDER FORMAT``.

It prints a line before and after each append, so that a test can kill it at such a moment.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from kohort import Consumer
from kohort.tables import load
from support.tables import sink_in

SCHEMA = pa.schema([("n", pa.int64())])


def main(bootstrap: str, topic: str, folder: str, form: str) -> None:
    sink = sink_in(Path(folder), form)
    plain = sink.append

    def append(*arguments: Any) -> None:
        print("append", flush=True)
        plain(*arguments)
        print("appended", flush=True)

    setattr(sink, "append", append)  # noqa: B010 - mypy forbids the assignment to a method
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id="loader",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=1000,
        heartbeat_interval_ms=200,
        max_partition_fetch_bytes=4000,
    ) as consumer:
        load(consumer, topic, sink, json=SCHEMA, columns=["partition", "offset"], commit_rows=50, commit_ms=200)


if __name__ == "__main__":
    main(*sys.argv[1:])

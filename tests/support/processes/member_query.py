"""Plays Spark's part for a source in member mode, as a process that can be stopped and killed: no JVM, no session.

    python member_query.py BOOTSTRAP TOPIC GROUP CHECKPOINT [PROTOCOL]

It keeps the checkpoint as Spark does, what is planned before it is read and what is completed after, and calls the
source in Spark's order. For each micro-batch that holds rows it prints them, and completes it when it is given a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from kohort.spark.options.source import parse_source_options
from kohort.spark.reading.member_stream import MemberStreamReader
from kohort.spark.values.row_builders import RecordRowBuilder

SESSION_MS = 12_000
LIMIT = 40


def options_of(bootstrap: str, topic: str, group: str, protocol: str) -> dict[str, str]:
    classic = {"kafka.session.timeout.ms": str(SESSION_MS), "kafka.heartbeat.interval.ms": "1000"}
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "group.id": group,
        "group.mode": "member",
        "maxOffsetsPerTrigger": str(LIMIT),
        "kafka.group.protocol": protocol,
        **(classic if protocol == "classic" else {}),
    }


class Engine:
    """The calls of Spark to one source."""

    def __init__(self, reader: MemberStreamReader, checkpoint: Path) -> None:
        self._reader = reader
        self._checkpoint = checkpoint
        kept = json.loads(checkpoint.read_text()) if checkpoint.exists() else {}
        self._done: Any = kept.get("done") or reader.initialOffset()
        if kept.get("planned"):
            self._run(kept["planned"])

    def trigger(self) -> None:
        end = self._reader.latestOffset(self._done, ReadMaxRows(LIMIT))
        if end != self._done:
            self._keep(done=self._done, planned=end)
            self._run(end)

    def _run(self, end: Any) -> None:
        rows = [
            r for t in self._reader.partitions(self._done, end) for b in self._reader.read(t) for r in b.to_pylist()
        ]
        if rows:
            print(json.dumps([[r["partition"], r["offset"], r["redelivered"]] for r in rows]), flush=True)
            if not sys.stdin.readline():
                sys.exit(0)
        self._done = json.loads(json.dumps(end))
        self._keep(done=self._done, planned=None)

    def _keep(self, **state: Any) -> None:
        fresh = self._checkpoint.with_suffix(".new")
        fresh.write_text(json.dumps(state))
        fresh.replace(self._checkpoint)


def main(bootstrap: str, topic: str, group: str, checkpoint: str, protocol: str = "classic") -> None:
    options = parse_source_options(options_of(bootstrap, topic, group, protocol), streaming=True)
    engine = Engine(
        MemberStreamReader(options, RecordRowBuilder(("partition", "offset", "redelivered"))), Path(checkpoint)
    )
    while True:
        engine.trigger()


if __name__ == "__main__":
    main(*sys.argv[1:])

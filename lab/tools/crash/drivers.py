"""A Spark pipeline that copies a topic while its driver is killed: finally every record is accounted for.

It reads with ``format("kohort")`` in a group, with a checkpoint, and writes Parquet files and a topic. A driver needs
some ten seconds to start, so it runs through several rounds, and through kills of the broker.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kohort import Admin, Consumer, TopicPartition
from support.processes.pipeline_process import PipelineProcess, ledger_of, rows_of

COPIES = "copied"
PIPELINE = f"""\
name: copies
brokers: "${{BROKERS}}"
source:
  topics: [in]
  group: pipeline
  limit: {{rows: 5000}}
decode: {{format: raw}}
steps:
  - sql: select cast(value as string) as text, partition, offset from input
sinks:
  - parquet: {{path: out}}
  - topic: {{topic: {COPIES}}}
checkpoint: state
trigger: {{every: 100 milliseconds}}
"""
WORKS_S = 300
ENDS_S = 600
ENDS_MOST = 4


class Drivers:
    """Successive runs of a pipeline."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder / "pipeline"
        self._folder.mkdir()
        (self._folder / "pipeline.yaml").write_text(PIPELINE)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({COPIES: 1})
        self._lives = 0
        self.killed = 0
        self.ended = 0
        """Number of runs that ended by themselves, because the broker was away for too long."""
        self._batches = 0
        self._run = self._start()

    def _start(self, *options: str) -> PipelineProcess:
        self._lives += 1
        self._batches = self._done()
        log = self._folder / f"life-{self._lives}.log"
        return PipelineProcess(self._folder / "pipeline.yaml", {"BROKERS": self._bootstrap}, *options, log=log)

    def _done(self) -> int:
        """Count the completed micro-batches by the times of the ledger's entries."""
        found = (path.stat().st_mtime_ns for path in (self._folder / "state/copies/ledger").glob("*.json"))
        return max(found, default=0)

    def look_after(self) -> None:
        """Restart the pipeline if it ended by itself."""
        if self._run.process.poll() is not None:
            self.ended += 1
            self._run.kill()
            self._run = self._start()

    def strike(self, rng: random.Random) -> None:
        """Kill the driver, at once or after a micro-batch; its workers are killed too, or notice."""
        if rng.random() < 0.75:
            self.wait_until_at_work()
            time.sleep(rng.uniform(0, 2))
        if rng.random() < 0.5:
            self._run.kill_driver()
        self._run.kill()
        self.killed += 1
        self._run = self._start()

    def wait_until_at_work(self) -> None:
        """Wait until this run completes a micro-batch. Raises RuntimeError at the deadline."""
        deadline = time.monotonic() + WORKS_S
        while self._done() == self._batches:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no micro-batch in {WORKS_S} s: {self._run.printed[-2000:]}")
            self.look_after()
            time.sleep(0.1)

    def kill(self) -> None:
        """End the pipeline permanently."""
        self._run.kill()

    def account(self) -> list[str]:
        """Let the pipeline process the rest of the topic; return records that are not accounted for."""
        self._run.kill()
        for _ in range(ENDS_MOST):
            self._run = self._start("--until-caught-up")
            try:
                code = self._run.process.wait(ENDS_S)
            finally:
                self._run.kill()
            if not code:
                break
        if code:
            return [f"the pipeline ends with {code}: {self._run.printed[-2000:]}"]
        return list(self._wrong())

    def _wrong(self) -> Iterator[str]:
        there = values(self._bootstrap, "in")
        rows = rows_of(self._folder / "out", ("text", "partition", "offset"))
        got = Counter(((row["partition"], row["offset"]), row["text"]) for row in rows)
        should = Counter((where, value.decode()) for where, value in there.items())
        for (where, value), count in list((should - got).items())[:5]:
            yield f"{count} of the record at {where}, {value!r}, is not in the Parquet files"
        for (where, value), count in list((got - should).items())[:5]:
            yield f"{count} too many of the record at {where}, {value!r}, in the Parquet files"
        copies = [json.loads(value) for value in values(self._bootstrap, COPIES).values()]
        missing = there.keys() - {(copy["partition"], copy["offset"]) for copy in copies}
        if missing:
            yield f"{len(missing)} records are not in the topic {COPIES}: {sorted(missing)[:5]}"
        ledger = ledger_of(self._folder / "state" / "copies")
        yield from (f"the ledger: {problem}" for problem in ledger.problems)
        if ledger.rows_in != len(there):
            yield f"the ledger has {ledger.rows_in} rows in, of {len(there)} records"


def values(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    """Return every record of a topic by partition and offset."""
    found = {}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, p) for p in range(consumer.partitions_for(topic))]
        consumer.assign(partitions)
        ends, deadline = consumer.end_offsets(partitions), time.monotonic() + ENDS_S
        while any(consumer.position(p) < end for p, end in ends.items()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} was not read to its end within {ENDS_S} s")
            found.update({(r.partition, r.offset): bytes(r.value) for r in consumer.poll(500)})
    return found

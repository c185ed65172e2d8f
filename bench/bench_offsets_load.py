"""Load of ``__consumer_offsets`` at a broker's start: CPU time for a million committed offsets.

    python bench/bench_offsets_load.py [--offsets 50000] [--rounds 10] [--json]

The log is the broker's own, in memory: groups with commits of a hundred partitions each. It is read, checked and
replayed as at a start. ``together``: commits of all partitions of a group at once; ``alone``: of one partition each,
where the batch header costs more than its record. The best of some rounds of ``--offsets`` offsets, scaled to a
million.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time

from bench_coordinator import START_MS, Topics, additions_per_second

from kohort.broker.cluster.log_items import slices_of
from kohort.broker.offsets_topic import NAME
from kohort.config import BrokerConfig
from kohort.config.topic import TopicConfig
from kohort.coordinator.records import OffsetCommitted, build_record
from kohort.coordinator.replay import Skipped
from kohort.coordinator.runtime import Coordinator
from kohort.log.partition import PartitionLog
from kohort.log.storage import MemoryStorage
from kohort.model import TopicPartition
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.record_batch import NewRecord, build_batch

PER_GROUP = 100


def written(offsets: int, together: int) -> PartitionLog:
    """Return a log of ``offsets`` commits in batches of ``together``."""
    storage = MemoryStorage()
    storage.make_folder(f"{NAME}-0")
    config = TopicConfig(segment_bytes=100 << 20, cleanup_policy=("compact",))
    log = PartitionLog(TopicPartition(NAME, 0), storage, config, START_MS)
    value = OffsetCommitValue(offset=5, leader_epoch=0, commit_timestamp=START_MS, topic_id=b"t" * 16)
    for first in range(0, offsets, together):
        records = [
            NewRecord(
                *build_record(OffsetCommitted(f"group-{i // PER_GROUP}", "t", i % PER_GROUP, value)), (), START_MS
            )
            for i in range(first, first + together)
        ]
        log.append(build_batch(records), START_MS, from_client=False)
    return log


def load_seconds(log: PartitionLog) -> float:
    """CPU time from the first byte read to the groups served."""
    coordinator = Coordinator(
        BrokerConfig(offsets_topic_num_partitions=1), random.Random(1), Topics(PER_GROUP), lambda *_: None
    )
    coordinator.start_loading(0)
    gc.collect()
    began = time.process_time()
    skipped = Skipped()
    for some in slices_of(log, skipped):
        coordinator.load_some(0, some, START_MS, skipped)
    coordinator.finish_loading(0, START_MS)
    spent = time.process_time() - began
    loaded = coordinator.committed("group-0")
    assert loaded is not None
    assert len(loaded) == PER_GROUP
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offsets", type=int, default=50_000, help="a multiple of 100")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"python_additions_per_second": float(round(additions_per_second()))}
    for name, together in (("together", PER_GROUP), ("alone", 1)):
        log = written(options.offsets, together)
        best = min(load_seconds(log) for _ in range(options.rounds))
        result[f"cpu_seconds_per_million_offsets_{name}"] = round(best / options.offsets * 1e6, 2)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:42} {value:g}")


if __name__ == "__main__":
    main()

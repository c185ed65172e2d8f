"""Details of the log: topics version, epochs, snapshot counts, index checks, counters."""

import random
import struct

import crc32c
import pytest

from kohort.config import BrokerConfig
from kohort.log.producers import Producers
from kohort.log.storage import MemoryStorage
from kohort.log.topics import Topics
from kohort_lab.sim.checks.log_invariants import check_invariants
from support.machines.log_stage import LogStage

NOW = 1_700_000_000_000


def test_topics_version_changes_with_every_change():
    topics = Topics(MemoryStorage(), BrokerConfig(), random.Random(1), NOW)
    versions = [topics.version]

    topics.create("t", 1, {}, NOW)
    versions.append(topics.version)
    topics.add_partitions("t", 2, NOW)
    versions.append(topics.version)
    topics.add_partitions("t", 3, NOW)
    versions.append(topics.version)
    topics.delete("t", NOW)
    versions.append(topics.version)

    assert versions == sorted(set(versions))


def test_end_of_epoch_0_of_empty_log_is_its_end():
    log = LogStage().log
    assert log.epochs.latest is None
    assert (log.end_of_epoch(0), log.end_of_epoch(1)) == ((0, 0), (-1, -1))


@pytest.mark.parametrize("count", [0, 2])
def test_snapshot_with_wrong_count_is_rejected(count):
    producers = Producers()
    stage = LogStage()
    stage.append(producer_id=7, producer_epoch=0, base_sequence=0)
    for entry in stage.log.producers:
        producers._by_id[entry[0]] = entry[1]
    entries = struct.pack(">i", count) + producers.build_snapshot()[10:]

    with pytest.raises(ValueError, match=f"do not match {count} entries"):
        Producers.parse_snapshot(struct.pack(">hI", 1, crc32c.crc32c(entries)) + entries)


def test_index_pointing_beside_a_batch_is_detected():
    stage = LogStage()
    stage.fill(30)
    check_invariants(stage.log)
    segment = stage.log.segments[0]
    assert list(segment.index_entries()), "the index has entries"
    segment._max_timestamp += 1

    with pytest.raises(AssertionError, match="its batches"):
        check_invariants(stage.log)


def test_deletion_counts_segments_and_bytes():
    stage = LogStage()
    stage.fill(60)
    deleted = stage.log.segments[:3]
    size = sum(segment.size for segment in deleted)

    stage.log.delete_records_before(stage.log.segments[3].base_offset)
    stage.log.retain(stage.now_ms)

    counters = stage.topics.counters
    assert (counters.deleted_segments, counters.deleted_bytes) == (3, size)
    assert stage.log.segments[0].base_offset == stage.log.log_start_offset

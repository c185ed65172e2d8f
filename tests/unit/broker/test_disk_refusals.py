"""Disk errors: responses to clients, and lines of the broker's log."""

import random
import struct
from typing import Any

import pytest

from kohort.errors import ErrorCode, StorageError
from kohort.log.storage import MemoryStorage
from kohort.notes import Level
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kohort_lab.sim.disk import FaultyDisk
from support.machines.broker_stage import BrokerStage, fetch_request, values_of

REFUSED = "cannot append: the disk refused"


@pytest.fixture
def stage():
    return BrokerStage(FaultyDisk(random.Random(1)))


def commit(peer, group):
    topics = [
        OffsetCommitRequestTopic(
            name="a", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
        )
    ]
    return peer.ask(OffsetCommitRequest(group_id=group, topics=topics), 8).topics[0].partitions[0].error_code


class Locked(MemoryStorage):
    """A disk with files that cannot be opened."""

    locked = " "

    def open(self, name):
        if name.startswith(self.locked):
            raise StorageError(f"cannot open {name}: Permission denied")
        return super().open(name)

    def read(self, name):
        if name.startswith(self.locked):
            raise StorageError(f"cannot open {name}: Permission denied")
        return super().read(name)


def damage(stage, folder, **fields):
    name = next(name for name in stage.storage.files(folder) if name.endswith(".log"))
    struct.pack_into(">i", stage.storage._folders[folder][name], 8, fields["length"])


def test_full_disk_is_logged_for_each_partition_with_the_failed_operation(stage):
    peer = two_partitions(stage)
    commit(peer, "g")
    stage.log_lines()
    stage.storage.weather.refuse = 1.0

    for partition in (0, 1, 1):
        assert peer.produce("a", b"v", partition=partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert commit(peer, "g") == ErrorCode.NOT_COORDINATOR

    notes = [note for note in stage.broker.take_notes() if "__kohort" not in note.text]
    assert {note.level for note in notes} == {Level.WARNING}
    texts = [note.text for note in notes]
    assert texts[:3] == [f"a-{p}: batch rejected: {REFUSED}" for p in (0, 1, 1)]
    assert texts[3].startswith("__consumer_offsets-")
    assert texts[3].endswith(f": batch rejected: {REFUSED}")
    assert notes[1].kind == notes[2].kind != notes[0].kind, "each partition is logged once a minute"


def test_failed_topic_creation_is_logged(stage):
    peer = stage.connect()
    stage.storage.weather.refuse = 1.0

    with pytest.raises(AssertionError, match=r"error_code=(56|<ErrorCode.KAFKA_STORAGE_ERROR)"):
        peer.create("a")

    assert [text for text in stage.log_lines() if "cannot write the topic catalogue: cannot replace" in text]


def ask_both(peer, offset, **options):
    request = fetch_request("a", offset, **options)
    request.topics[0].partitions = [fetch_request("a", offset, partition=p).topics[0].partitions[0] for p in (0, 1)]
    peer.send(request, 12)
    return {p.partition_index: p for t in peer.take().responses for p in t.partitions}


def two_partitions(stage):
    peer = stage.connect()
    peer.create("a", 2)
    for partition in (0, 1):
        peer.produce("a", b"v", partition=partition)
        peer.produce("a", b"w", partition=partition)
    stage.log_lines()
    return peer


def test_damaged_batch_is_logged_and_other_partitions_are_served(stage):
    peer = two_partitions(stage)
    damage(stage, "a-1", length=-1)

    answers = ask_both(peer, 0)

    assert (answers[0].error_code, answers[1].error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert values_of(answers[0].records) == [b"v", b"w"]
    assert stage.log_lines() == [
        "a-1: cannot read offset 0: a-1/00000000000000000000.log at position 0: invalid batch length -1"
    ]


@pytest.mark.parametrize("waits", [{}, {"max_wait_ms": 500, "min_bytes": 1000}])
def test_unreadable_file_is_logged_and_other_partitions_are_served(waits):
    stage = BrokerStage(Locked())
    peer = two_partitions(stage)
    stage.broker.state.topics.log("a", 1).segments[0].close()
    disk: Any = stage.storage
    disk.locked = "a-1/"

    answers = ask_both(peer, 1, **waits)

    assert (answers[0].error_code, answers[1].error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert "a-1: cannot read offset 1: cannot open a-1/00000000000000000000.log: Permission denied" in stage.log_lines()

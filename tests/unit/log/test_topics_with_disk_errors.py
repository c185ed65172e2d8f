"""Topics created, grown, deleted and recreated with disk errors or concurrent changes: errors and the next start."""

import json
import random

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.catalogue import CATALOGUE_FILE
from kohort.log.storage import MemoryStorage
from kohort.log.topics import NewTopic, Topics
from kohort.model import uuid_to_text
from kohort.steps import at_once
from support.machines.log_stage import batch

NOW = 1_700_000_000_000


class RefusingStorage(MemoryStorage):
    refused = "nothing"

    def _check(self, name):
        if self.refused in name:
            raise StorageError(f"no space left for {name}")

    def replace(self, name, content, **how):
        self._check(name)
        super().replace(name, content, **how)

    def rename_folder(self, folder, new):
        self._check(folder)
        super().rename_folder(folder, new)


@pytest.fixture
def storage():
    return RefusingStorage()


def opened(storage, seed=1):
    return Topics(storage, BrokerConfig(), random.Random(seed), NOW)


def names_and_errors(results):
    return [str(result) if isinstance(result, ApiError) else result.name for result in results]


def deleted(storage):
    return json.loads(storage.read(CATALOGUE_FILE))["deleted"]


def test_failed_catalogue_write_deletes_no_topic(storage):
    topics = opened(storage)
    for name in ("a", "b"):
        topics.create(name, 1, {}, NOW)
    storage.refused = CATALOGUE_FILE

    results = at_once(topics.delete_all(["a", "x", "b"], NOW))

    refusal = f"KAFKA_STORAGE_ERROR: no space left for {CATALOGUE_FILE}"
    assert names_and_errors(results) == [refusal, "UNKNOWN_TOPIC_OR_PARTITION: topic 'x' does not exist", refusal]
    assert [topic.name for topic in topics] == ["a", "b"]
    topics.log("a", 0).append(batch(), NOW)


def test_failed_checkpoint_write_is_reported_per_deleted_topic(storage):
    topics = opened(storage)
    for name in ("a", "b"):
        topics.create(name, 1, {}, NOW)
    topics.log("a", 0).append(batch(), NOW)
    topics.log("a", 0).flush()
    storage.refused = "recovery-point"

    results = at_once(topics.delete_all(["a", "x", "b"], NOW))

    reason = "no space left for recovery-point-offset-checkpoint"
    assert names_and_errors(results) == [
        f"KAFKA_STORAGE_ERROR: topic 'a': {reason}",
        "UNKNOWN_TOPIC_OR_PARTITION: topic 'x' does not exist",
        f"KAFKA_STORAGE_ERROR: topic 'b': {reason}",
    ]
    assert [str(note) for note in topics.take_disk_errors()] == [f"cannot change topic {n!r}: {reason}" for n in "ab"]
    assert len(topics) == 0
    storage.refused = "nothing"
    again = opened(storage)
    while again.wake_at_ms <= NOW:
        again.tick(NOW)
    assert (len(again), storage.folders()) == (0, [])


def test_catalogue_lists_deleted_topics_until_their_folders_are_removed(storage):
    topics = opened(storage)
    ids = {name: uuid_to_text(topics.create(name, 1, {}, NOW).topic_id) for name in ("a", "b")}
    storage.refused = "b-0"

    results = at_once(topics.delete_all(["a", "b"], NOW))
    assert names_and_errors(results) == ["a", "KAFKA_STORAGE_ERROR: topic 'b': no space left for b-0"]
    assert deleted(storage) == [ids["a"], ids["b"]]

    topics.next_producer_id()  # any later write
    assert deleted(storage) == [ids["b"]]


def test_start_removes_partitions_of_failed_creation(storage):
    topics = opened(storage)
    storage.refused = "t1-1"

    results = at_once(topics.create_all([NewTopic(f"t{i}", 2, {}) for i in range(3)], NOW))

    assert names_and_errors(results) == [
        "t0",
        "KAFKA_STORAGE_ERROR: topic 't1': no space left for t1-1/partition.metadata",
        "t2",
    ]
    assert "t1-0" in storage.folders()
    assert topics._making == {}, "memory keeps no part of the failed topic"
    storage.refused = "nothing"
    topics.next_producer_id()  # any later write
    again = opened(storage)
    while again.wake_at_ms <= NOW:
        again.tick(NOW)
    assert [topic.name for topic in again] == ["t0", "t2"]
    assert storage.folders() == ["t0-0", "t0-1", "t1-1", "t2-0", "t2-1"], "t1-1 has no topic id, so it is not deleted"


def test_failed_partitions_can_be_added_later(storage):
    topics = opened(storage)
    topics.create("t", 1, {}, NOW)
    storage.refused = CATALOGUE_FILE
    with pytest.raises(ApiError) as refused:
        topics.add_partitions("t", 3, NOW)
    storage.refused = "nothing"

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(topics.add_partitions("t", 3, NOW).partitions) == 3


@pytest.mark.heavy
def test_recreated_topic_renames_old_folders_first(storage):
    topics = opened(storage)
    old = topics.create("t", 600, {}, NOW)
    for log in old.partitions:
        log.append(batch(), NOW)
    deleting = topics.delete_all(["t"], NOW)
    next(deleting)
    leaving = [log.folder for log in old.partitions if log.folder in storage.folders()]
    assert 0 < len(leaving) < 600, "some folders are not yet renamed"

    new = topics.create("t", 600, {}, NOW)
    at_once(deleting)

    assert {log.log_end_offset for log in new.partitions} == {0}
    new.partitions[599].append(batch(), NOW)
    assert [str(note) for note in topics.recovery_notes] == []
    while topics.wake_at_ms <= NOW:
        topics.tick(NOW)
    assert storage.folders() == sorted(log.folder for log in new.partitions)
    topics.close()
    again = opened(storage)
    assert again.recovery_notes == []
    assert again.log("t", 599).log_end_offset == 1


def test_topic_deleted_while_adding_partitions_leaves_no_folders(storage):
    topics = opened(storage)
    topics.create("t", 1, {}, NOW)
    adding = topics.add_partitions_in_steps("t", 500, NOW)
    next(adding)
    topics.delete("t", NOW)

    with pytest.raises(ApiError) as error:
        at_once(adding)

    assert str(error.value) == "UNKNOWN_TOPIC_OR_PARTITION: topic 't' does not exist"
    assert topics.take_disk_errors() == []
    while topics.wake_at_ms <= NOW:
        topics.tick(NOW)
    assert storage.folders() == []
    topics.next_producer_id()  # any later write
    assert len(opened(storage)) == 0


def test_alter_config_returns_topic_with_new_options(storage):
    topics = opened(storage)
    topic = topics.create("t", 1, {"retention.ms": "5"}, NOW)

    assert topics.alter_config("t", {"retention.ms": "7", "segment.bytes": None}) is topic
    assert (topic.overrides, topic.config.retention_ms) == ({"retention.ms": "7"}, 7)


def test_names_of_loaded_topics_are_taken(storage):
    opened(storage).create("a.b", 1, {}, NOW)

    results = at_once(opened(storage).create_all([NewTopic(name, 1, {}) for name in ("a.b", "a_b", "c")], NOW))

    codes = [result.code.name if isinstance(result, ApiError) else result.name for result in results]
    assert codes == ["TOPIC_ALREADY_EXISTS", "INVALID_TOPIC_EXCEPTION", "c"]


def test_topic_has_at_most_10000_partitions(storage):
    topics = opened(storage)

    topics.check_new(NewTopic("t", 10_000, {}))
    with pytest.raises(ApiError, match="10001 partitions; at most 10000 are allowed"):
        topics.check_new(NewTopic("t", 10_001, {}))

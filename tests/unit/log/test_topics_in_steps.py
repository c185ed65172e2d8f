"""Several topics in one request: saved together, created and deleted in steps, also after a crash."""

import random

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.catalogue import CATALOGUE_FILE
from kohort.log.data_folder import parse_offsets
from kohort.log.storage import MemoryStorage
from kohort.log.topics import NewTopic, Topics
from kohort.log.upkeep import RECOVERY_POINTS_FILE
from kohort.model import TopicPartition
from kohort.steps import at_once, shortest_steps
from support.machines.log_stage import batch

NOW = 1_700_000_000_000


class CountingStorage(MemoryStorage):
    def __init__(self):
        super().__init__()
        self.replaced = []
        self.refused = "nothing"

    def replace(self, name, content, *, durable=True, private=False):
        if self.refused in name:
            raise StorageError(f"no space left for {name}")
        self.replaced.append(name)
        super().replace(name, content, durable=durable, private=private)


@pytest.fixture
def storage():
    return CountingStorage()


def opened(storage):
    return Topics(storage, BrokerConfig(), random.Random(1), NOW)


def new_topics(count, partitions=1, name="t"):
    return [NewTopic(f"{name}{i}", partitions, {}) for i in range(count)]


def test_create_and_delete_write_the_catalogue_once(storage):
    topics = opened(storage)
    storage.replaced.clear()

    made = at_once(topics.create_all(new_topics(500), NOW))
    deleted = at_once(topics.delete_all([topic.name for topic in made], NOW))

    assert storage.replaced.count(CATALOGUE_FILE) == 2
    assert deleted == made
    assert len(topics) == len(opened(storage)) == 0


def test_creating_a_topic_reads_no_other_topic(storage):
    topics = opened(storage)
    at_once(topics.create_all(new_topics(1_000), NOW))
    topics._topics = Untouchable(topics._topics)  # raises if code iterates over it

    topics.create("another", 1, {}, NOW)

    assert "another" in topics


class Untouchable(dict):
    def __iter__(self):
        raise AssertionError("all topics were walked through")

    items = keys = values = __iter__


def test_each_invalid_topic_has_its_own_error(storage):
    topics = opened(storage)
    topics.create("a.b", 1, {}, NOW)

    made = at_once(
        topics.create_all(
            [
                NewTopic("a.b", 1, {}),
                NewTopic("a_b", 1, {}),
                NewTopic("c.d", 1, {}),
                NewTopic("c_d", 1, {}),
                NewTopic("e", 0, {}),
                NewTopic("f", 1, {"retention.ms": "never"}),
            ],
            NOW,
        )
    )

    codes = [result.code.name if isinstance(result, ApiError) else result.name for result in made]
    assert codes == [
        "TOPIC_ALREADY_EXISTS",
        "INVALID_TOPIC_EXCEPTION",
        "c.d",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_PARTITIONS",
        "INVALID_CONFIG",
    ]
    topics.delete("c.d", NOW)
    assert topics.create("c_d", 1, {}, NOW).name == "c_d"


def test_name_is_free_after_failed_creation(storage):
    topics = opened(storage)
    storage.refused = CATALOGUE_FILE
    (refused,) = at_once(topics.create_all(new_topics(1), NOW))
    storage.refused = "nothing"

    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert topics.create("t0", 1, {}, NOW).name == "t0"


def test_disk_error_fails_only_its_topic(storage):
    topics = opened(storage)
    storage.refused = "t1-"

    made = at_once(topics.create_all(new_topics(3, partitions=2), NOW))

    assert [isinstance(result, ApiError) for result in made] == [False, True, False]
    storage.refused = "nothing"
    topics.next_producer_id()  # any later write
    assert [topic.name for topic in opened(storage)] == ["t0", "t2"]


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_interrupted_creation_is_finished_at_start(storage, steps):
    topics = opened(storage)
    making = topics.create_all(new_topics(300), NOW)
    while b'"t0"' not in (storage.read(CATALOGUE_FILE) or b""):
        next(making)
    for _ in range(steps):
        next(making)

    again = opened(storage)

    assert len(again) == 300
    assert len(storage.folders()) == 300


def test_interrupted_deletion_continues_at_start(storage):
    topics = opened(storage)
    at_once(topics.create_all(new_topics(600), NOW))
    deleting = topics.delete_all([f"t{i}" for i in range(600)], NOW)
    next(deleting)
    assert [name for name in storage.folders() if not name.endswith("-delete")], "some folders are not yet renamed"

    again = opened(storage)
    while again.wake_at_ms == NOW:
        again.tick(NOW)

    assert (len(again), storage.folders()) == (0, [])


def test_deletion_yields_while_writing_checkpoints(storage):
    topics = opened(storage)
    at_once(topics.create_all(new_topics(50), NOW))
    topics.log("t49", 0).append(batch(), NOW)
    topics.log("t49", 0).flush()
    storage.replaced.clear()

    with shortest_steps():
        deleting = topics.delete_all(["t0"], NOW)
        steps = 0
        while RECOVERY_POINTS_FILE not in storage.replaced:
            next(deleting)
            steps += 1
        at_once(deleting)

    assert steps > 49, "one step for each remaining log"
    assert parse_offsets(storage.read(RECOVERY_POINTS_FILE)) == {TopicPartition("t49", 0): 1}


def test_create_partitions_is_atomic(storage):
    topics = opened(storage)
    topic = topics.create("t", 1, {}, NOW)
    adding = topics.add_partitions_in_steps("t", 500, NOW)
    next(adding)

    assert len(topic.partitions) == 1
    with pytest.raises(ApiError) as twice:
        topics.add_partitions("t", 3)
    topics.alter_config("t", {"retention.ms": "77"})
    at_once(adding)

    assert twice.value.code is ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert len(topic.partitions) == len(opened(storage).get("t").partitions) == 500
    assert {log.config.retention_ms for log in topic.partitions} == {77}
    assert opened(storage).get("t").overrides == {"retention.ms": "77"}


def test_catalogue_is_editable_json(storage):
    opened(storage).create("orders", 3, {"retention.ms": "5"}, NOW)

    lines = storage.read(CATALOGUE_FILE).decode().splitlines()

    assert len(lines) == 4
    assert lines[0].startswith('{"version": 1, "cluster_id": ')
    assert '"name": "orders"' in lines[2]
    assert '"overrides": {"retention.ms": "5"}' in lines[2]

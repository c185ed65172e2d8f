"""Topics: created, found, deleted, and restored after every kind of stop."""

import json
import random

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.catalogue import CATALOGUE_FILE
from kohort.log.storage import MemoryStorage
from kohort.log.topic_names import check_topic_name, is_deleted_folder, parse_folder, renamed_folder
from kohort.log.topics import CONFIGS_KEPT, TopicConfigs, Topics
from kohort.notes import Level
from support.machines.log_stage import LogStage, batch, values_from

NOW = 1_700_000_000_000


def opened(storage, seed=1, **config):
    return Topics(storage, BrokerConfig(**config), random.Random(seed), NOW)


def recovery_notes(topics):
    return [str(note) for note in topics.recovery_notes]


@pytest.fixture
def storage():
    return MemoryStorage()


def code_of(call, *args):
    with pytest.raises(ApiError) as error:
        call(*args)
    return error.value.code


def test_topic_is_found_by_name_and_id(storage):
    topics = opened(storage)
    topic = topics.create("orders", 3, {"retention.ms": "5", "segment.bytes": None}, NOW)

    assert topics.get("orders") is topic is topics.by_id(topic.topic_id)
    assert [log.tp.partition for log in topic.partitions] == [0, 1, 2]
    assert topics.log("orders", 2) is topic.partitions[2]
    assert (topics.log("orders", 3), topics.log("orders", -1), topics.log("others", 0)) == (None, None, None)
    assert topic.overrides == {"retention.ms": "5"}
    assert topic.config.retention_ms == 5
    assert "orders" in topics
    assert [t.name for t in topics] == ["orders"]


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_topics_and_options_survive_restart(storage, stop):
    topics = opened(storage)
    ids = [topics.create(name, 2, {"retention.ms": "5"}, NOW).topic_id for name in ("a", "b")]
    topics.create("inner", 1, {}, NOW, internal=True)
    if stop == "clean":
        topics.close()

    again = opened(storage, seed=2)

    assert again.recovery_notes == []
    assert [again.get(name).topic_id for name in ("a", "b")] == ids
    assert again.get("b").config.retention_ms == 5
    assert len(again.get("b").partitions) == 2
    assert [t.name for t in again if t.internal] == ["inner"]
    assert again.cluster_id == topics.cluster_id


def test_invalid_topic_names_are_rejected(storage):
    topics = opened(storage)
    topics.create("a.b", 1, {}, NOW)

    for name in ("", ".", "..", "x" * 250, "sp ace", "sl/ash", "ümlaut", "a_b", "new\n"):
        assert code_of(topics.create, name, 1, {}, NOW) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code_of(topics.create, "a.b", 1, {}, NOW) is ErrorCode.TOPIC_ALREADY_EXISTS
    topics.create("x" * 249, 1, {}, NOW)
    assert len(topics) == 2


def test_partition_count_and_options_are_checked(storage):
    topics = opened(storage)

    for partitions in (0, -1, 10_001):
        assert code_of(topics.create, "t", partitions, {}, NOW) is ErrorCode.INVALID_PARTITIONS
    assert code_of(topics.create, "t", 1, {"retention.ms": "soon"}, NOW) is ErrorCode.INVALID_CONFIG
    assert code_of(topics.create, "t", 1, {"retention": "1"}, NOW) is ErrorCode.INVALID_CONFIG
    assert "t" not in topics
    assert storage.folders() == []


def test_partitions_can_be_added_but_not_removed(storage):
    topics = opened(storage)
    topics.create("orders", 2, {}, NOW)

    assert len(topics.add_partitions("orders", 4).partitions) == 4
    for total in (4, 3, 10_001):
        assert code_of(topics.add_partitions, "orders", total) is ErrorCode.INVALID_PARTITIONS
    assert code_of(topics.add_partitions, "nothing", 4) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(opened(storage).get("orders").partitions) == 4


def test_deleted_topic_loses_its_folders(storage):
    topics = opened(storage)
    deleted = topics.create("orders", 2, {}, NOW)
    deleted.partitions[0].append(batch(), NOW)

    assert topics.delete("orders", NOW) is deleted

    assert "orders" not in topics
    assert topics.by_id(deleted.topic_id) is None
    assert all(name.endswith("-delete") for name in storage.folders())
    assert code_of(topics.delete, "orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topics.wake_at_ms == NOW
    notes = [str(note) for note in topics.tick(NOW) + topics.tick(NOW)]
    assert [note.split(".")[0] for note in notes] == ["removed orders-1", "removed orders-0"]
    assert storage.folders() == []


def test_recreated_topic_has_new_id_and_is_empty(storage):
    topics = opened(storage)
    first = topics.create("orders", 1, {}, NOW)
    first.partitions[0].append(batch(["a"] * 5), NOW)
    first.partitions[0].delete_records_before(3)
    topics.delete("orders", NOW)

    second = topics.create("orders", 1, {}, NOW)

    assert second.topic_id != first.topic_id
    again = opened(storage)
    assert (again.log("orders", 0).log_start_offset, again.log("orders", 0).log_end_offset) == (0, 0)


def test_interrupted_deletion_continues_after_crash(storage):
    topics = opened(storage)
    topics.create("orders", 2, {}, NOW)
    topics.create("kept", 1, {}, NOW)
    before = {name: dict(files) for name, files in storage._folders.items()}
    topics.delete("orders", NOW)
    catalogue = storage.read(CATALOGUE_FILE)
    storage._folders = before
    storage.replace(CATALOGUE_FILE, catalogue)

    again = opened(storage)
    for _ in range(3):
        again.tick(NOW)

    assert [t.name for t in again] == ["kept"]
    assert storage.folders() == ["kept-0"]


def test_missing_folder_is_reported(storage):
    opened(storage).create("orders", 2, {}, NOW)
    storage.delete_folder("orders-1")

    again = opened(storage)

    assert recovery_notes(again) == ["orders-1: its folder was missing; the partition begins empty"]
    again.log("orders", 1).append(batch(), NOW)


def test_folder_with_other_topic_id_is_renamed(storage):
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    storage.replace("orders-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n")

    again = opened(storage)

    assert "orders-0: it belongs to topic id AAAAAAAAAAAAAAAAAAAABw; renamed the folder to" in recovery_notes(again)[0]
    assert [name.rpartition("-")[2] for name in storage.folders()] == ["0", "stray"]


def test_folders_of_unknown_topics_stay_and_are_reported(storage):
    opened(storage).create("orders", 1, {}, NOW)
    storage.make_folder("others-0")

    assert recovery_notes(opened(storage)) == ["ignored the folder others-0: the catalogue has no such topic"]
    assert "others-0" in storage.folders()


def test_missing_catalogue_is_rebuilt_from_folders(storage):
    topics = opened(storage)
    topics.create("orders", 3, {}, NOW)
    topics.create("__consumer_offsets", 2, {}, NOW, internal=True)
    ids = {t.name: t.topic_id for t in topics}
    topics.log("orders", 1).append(batch(["kept"]), NOW)
    storage.delete(CATALOGUE_FILE)

    again = opened(storage)

    assert {t.name: t.topic_id for t in again} == ids
    assert values_from(again.log("orders", 1), 0) == ["kept"]
    offsets = again.get("__consumer_offsets")
    assert (offsets.internal, offsets.config.cleanup_policy, len(offsets.partitions)) == (True, ["compact"], 2)
    assert "read __consumer_offsets, orders from their folders" in recovery_notes(again)[0]
    assert "from their folders" not in recovery_notes(opened(storage))[0]


def test_rebuilt_catalogue_ignores_other_folders(storage):
    topic_id = opened(storage).create("orders", 1, {}, NOW).topic_id
    metadata = storage.read("orders-0/partition.metadata")
    for folder, is_marked in (("photos", False), ("music", True), ("others-0", False), ("__cluster_metadata-0", True)):
        storage.make_folder(folder)
        if is_marked:
            storage.replace(f"{folder}/partition.metadata", metadata)
    storage.delete(CATALOGUE_FILE)

    again = opened(storage)

    assert [(topic.name, topic.topic_id) for topic in again] == [("orders", topic_id)]


def test_invalid_stored_option_falls_back_to_default(storage):
    topics = opened(storage)
    topics.create("orders", 1, {"retention.ms": "1000", "segment.bytes": "2000000"}, NOW)
    topics.create("bills", 1, {}, NOW)
    stored = storage.read(CATALOGUE_FILE)
    storage.replace(CATALOGUE_FILE, stored.replace(b"2000000", b"a few"))

    again = opened(storage)

    orders = again.get("orders")
    assert (orders.config.retention_ms, orders.config.segment_bytes) == (1000, 1 << 30)
    assert recovery_notes(again) == [
        "topic orders: the broker's default applies: segment.bytes='a few': expected an integer >= 1024"
    ]
    again.alter_config("orders", {**orders.overrides, "retention.ms": "2000"})
    assert recovery_notes(opened(storage)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("partitions", 0), ("partitions", 2**31), ("partitions", "1"), ("partitions", True), ("next_producer_id", -1)],
)
def test_invalid_catalogue_number_stops_the_start(storage, name, value):
    opened(storage).create("orders", 1, {}, NOW)
    content = json.loads(storage.read(CATALOGUE_FILE))
    (content["topics"][0] if name == "partitions" else content)[name] = value
    storage.replace(CATALOGUE_FILE, json.dumps(content).encode())

    with pytest.raises(StorageError, match=f"{name} is {value!r}, expected "):
        opened(storage)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version": 9, "topics": []}', b"{"])
def test_damaged_catalogue_stops_the_start_with_advice(storage, content):
    opened(storage).create("orders", 1, {}, NOW)
    storage.replace(CATALOGUE_FILE, content)

    with pytest.raises(StorageError, match=r"kohort-topics.json cannot be read.*Repair the file, or delete it"):
        opened(storage)


def test_damaged_checkpoints_are_ignored(storage):
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    topics.log("orders", 0).append(batch(), NOW)
    topics.close()
    storage.replace("recovery-point-offset-checkpoint", b"0\n5\norders 0 1\n")

    again = opened(storage)

    assert "ignored the damaged recovery-point-offset-checkpoint" in recovery_notes(again)[0]
    assert again.log("orders", 0).log_end_offset == 1


def test_data_folder_of_other_cluster_or_node_is_rejected(storage):
    topics = opened(storage, node_id=4)

    properties = storage.read("meta.properties").decode().splitlines()
    assert {f"cluster.id={topics.cluster_id}", "node.id=4", "version=1"} < set(properties)
    with pytest.raises(ConfigError, match="belongs to node 4"):
        opened(storage, node_id=5)
    with pytest.raises(ConfigError, match="belongs to cluster"):
        opened(storage, node_id=4, cluster_id="another")
    assert opened(storage, node_id=4, cluster_id=topics.cluster_id).cluster_id == topics.cluster_id


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\x00\xff\xfe garbage",
        b"garbage",
        b"cluster.id=\x1b[2J\nnode.id=\x07",
        b"cluster.id=\\u12",
        b"version=1\n",
    ],
)
def test_lost_meta_properties_keep_the_cluster_id(storage, content):
    topics = opened(storage, node_id=4)
    topics.create("orders", 1, {}, NOW)
    topics.close()
    if content is None:
        storage.delete("meta.properties")
    else:
        storage.replace("meta.properties", content)

    again = opened(storage, seed=2, node_id=4)

    assert again.cluster_id == topics.cluster_id
    assert [note.level for note in again.recovery_notes] == [Level.WARNING]
    state = "was missing" if content is None else "was damaged"
    assert recovery_notes(again)[0] == (
        f"meta.properties {state} and was recreated: cluster id {topics.cluster_id} comes from the topic catalogue;"
        " node id 4 comes from the options"
    )
    again.close()
    assert recovery_notes(opened(storage, node_id=4)) == []
    with pytest.raises(ConfigError, match="belongs to node 4"):
        opened(storage, node_id=5)


def test_configured_cluster_id_must_match_catalogue(storage):
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    storage.delete("meta.properties")

    with pytest.raises(ConfigError, match=f"belongs to cluster '{topics.cluster_id}'"):
        opened(storage, cluster_id="another")


def test_lost_cluster_id_is_replaced_with_a_note(storage):
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    topics.close()
    storage.delete("meta.properties")
    storage.delete(CATALOGUE_FILE)

    again = opened(storage, seed=2)

    assert again.cluster_id != topics.cluster_id
    assert f"cluster id {again.cluster_id} is new, the old one is lost" in recovery_notes(again)[1]


def test_other_meta_properties_are_kept(storage):
    opened(storage)
    storage.replace("meta.properties", b"version=1\ndirectory.id=abc\nnode.id=1\n")

    opened(storage)

    assert b"directory.id=abc\n" in storage.read("meta.properties")


def test_configured_cluster_id_is_used(storage):
    assert opened(storage, cluster_id="given").cluster_id == "given"
    assert opened(storage).cluster_id == "given"


def test_producer_ids_are_unique_after_crash(storage):
    topics = opened(storage)
    ids = [topics.next_producer_id() for _ in range(1500)]
    again = opened(storage)
    ids += [again.next_producer_id() for _ in range(10)]
    again.close()
    ids += [opened(storage).next_producer_id() for _ in range(10)][:1]

    assert len(set(ids)) == len(ids)
    assert ids[:1500] == list(range(1500))


def test_producer_ids_are_reserved_in_blocks_of_1000(storage):
    topics = opened(storage)
    written = []
    for _ in range(2001):
        topics.next_producer_id()
        written.append(json.loads(storage.read(CATALOGUE_FILE))["next_producer_id"])

    assert written == [1000] * 1000 + [2000] * 1000 + [3000]
    assert opened(storage).next_producer_id() == 3000


def test_topics_have_their_own_options_beyond_cache_size():
    configs = TopicConfigs(BrokerConfig())
    all_overrides = [{"retention.ms": str(number)} for number in range(2 * CONFIGS_KEPT + 2)]

    read = [configs.of(overrides) for overrides in all_overrides]

    assert [config.retention_ms for config in read] == list(range(len(all_overrides)))
    assert configs.cached.cache_info().currsize == CONFIGS_KEPT
    for overrides, config in zip(all_overrides[-2:], read[-2:], strict=True):
        assert configs.of(dict(overrides)) is config, "the latest configurations are cached"


class RefusingStorage(MemoryStorage):
    refused: tuple[str, ...] = ()

    def rename_folder(self, folder, new):
        if folder in self.refused:
            raise StorageError(f"no permission for {folder}")
        super().rename_folder(folder, new)

    def replace(self, name, content, *, durable=True, private=False):
        if name.endswith(self.refused or ("nothing",)):
            raise StorageError(f"no space left for {name}")
        super().replace(name, content, durable=durable, private=private)


@pytest.mark.parametrize("refused", ["kohort-topics.json", "partition.metadata"])
def test_failed_topic_creation_can_be_retried(refused):
    storage = RefusingStorage()
    topics = opened(storage)
    storage.refused = (refused,)

    assert code_of(topics.create, "orders", 2, {}, NOW) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders" not in topics

    storage.refused = ()
    topics.create("orders", 2, {}, NOW)
    assert len(topics.get("orders").partitions) == 2
    assert [t.name for t in opened(storage)] == ["orders"]


def test_failed_folder_deletion_is_retried_at_start():
    storage = RefusingStorage()
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    storage.refused = ("orders-0",)

    assert code_of(topics.delete, "orders", NOW) is ErrorCode.KAFKA_STORAGE_ERROR

    assert "orders" not in topics
    assert [(note.level, str(note)) for note in topics.take_disk_errors()] == [
        (Level.WARNING, "cannot change topic 'orders': no permission for orders-0")
    ]
    storage.refused = ()
    again = opened(storage)
    while again.wake_at_ms <= NOW:
        again.tick(NOW)
    assert storage.folders() == []


@pytest.mark.parametrize("refused", ["kohort-topics.json", "partition.metadata"])
def test_failed_partitions_are_absent_after_restart(refused):
    storage = RefusingStorage()
    topics = opened(storage)
    topics.create("orders", 2, {}, NOW)
    storage.refused = (refused,)

    assert code_of(topics.add_partitions, "orders", 4) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(topics.get("orders").partitions) == 2

    storage.refused = ()
    again = opened(storage)
    assert len(again.get("orders").partitions) == 2
    assert len(again.add_partitions("orders", 4).partitions) == 4


def test_disk_error_in_tick_is_reported_and_retried():
    storage = RefusingStorage()
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    topics.log("orders", 0).append(batch(), NOW)
    topics.log("orders", 0).flush()
    storage.refused = ("checkpoint",)

    assert [str(note) for note in topics.tick(NOW + 60_000)] == [
        "checkpoint failed: no space left for recovery-point-offset-checkpoint"
    ]
    assert topics.close() == ["no space left for recovery-point-offset-checkpoint"]
    storage.refused = ()
    assert topics.tick(NOW + 120_000) == []
    assert storage.read("recovery-point-offset-checkpoint") == b"0\n1\norders 0 1\n"


def test_failed_close_is_not_a_clean_stop():
    stage = LogStage(RefusingStorage())
    stage.fill(2)
    stage.storage.refused = (".snapshot",)

    assert stage.topics.close() == ["orders-0: no space left for orders-0/00000000000000000002.snapshot"]
    assert ".kafka_cleanshutdown" not in stage.storage.files()


def test_creation_time_is_known_until_restart(storage):
    topics = opened(storage)

    assert topics.create("orders", 1, {}, NOW).made_at_ms == NOW


def test_empty_topic_name_is_rejected():
    with pytest.raises(ApiError, match="topic name is empty") as refused:
        check_topic_name("")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("ending", ["delete", "stray"])
def test_renamed_folder_of_long_name_fits_file_system(ending):
    suffix = f".{5:032x}-{ending}"

    for partition in ("0", "9999"):
        renamed = renamed_folder(f"{'n' * 249}-{partition}", 5, ending)
        assert len(renamed) == 255, "the topic name is truncated to the limit only"
        assert renamed == f"{'n' * (255 - len(f'-{partition}{suffix}'))}-{partition}{suffix}"
        assert parse_folder(renamed) is None
    assert renamed_folder("orders-12", 5, ending) == f"orders-12{suffix}"
    assert is_deleted_folder(f"orders-12{suffix}") == (ending == "delete")

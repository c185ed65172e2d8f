"""Small files beside the logs, and the storage in memory."""

import json
import random

import pytest

from kohort.config import BrokerConfig
from kohort.errors import StorageError
from kohort.log.catalogue import CATALOGUE_FILE
from kohort.log.data_folder import (
    build_offsets,
    build_partition_metadata,
    parse_offsets,
    parse_partition_metadata,
)
from kohort.log.storage import MemoryStorage
from kohort.log.topic_names import is_deleted_folder, parse_folder, renamed_folder
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort.notes import Level


def test_offset_checkpoint_has_kafka_format():
    offsets = {TopicPartition("b", 10): 7, TopicPartition("a", 2): 2**62}

    data = build_offsets(offsets)

    assert data == f"0\n2\na 2 {2**62}\nb 10 7\n".encode()
    assert parse_offsets(data) == offsets
    assert parse_offsets(build_offsets({})) == {}


def test_offset_zero_is_in_the_checkpoint():
    at_zero = {TopicPartition("orders", 0): 0, TopicPartition("orders", 1): 7}

    assert parse_offsets(build_offsets(at_zero)) == at_zero
    with pytest.raises(ValueError, match="orders-0 has the offset -1"):
        parse_offsets(b"0\n1\norders 0 -1\n")


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n1\n", b"0\n1\na 0 5", b"0\n1\na 0\n", b"0\n1\na 0 -1\n", b"0\n1\na x 1\n", b"\xff"]
)
def test_malformed_checkpoint_is_rejected(data):
    with pytest.raises(ValueError, match=r".+"):
        parse_offsets(data)


def test_partition_metadata_has_kafka_format():
    data = build_partition_metadata(bytes(range(16)))

    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert parse_partition_metadata(data) == bytes(range(16))
    for bad in (b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", b"version: 0\ntopic_id: short\n"):
        with pytest.raises(ValueError, match=r".+"):
            parse_partition_metadata(bad)


def test_partition_folder_names_are_parsed():
    assert parse_folder("my-topic-12") == TopicPartition("my-topic", 12)
    for name in ("topic", "topic-", "-1", "topic-01", "topic-x", "to pic-1", "t-1.abc-delete"):
        assert parse_folder(name) is None


def test_deleted_folder_name_is_recognized_and_short_enough():
    name = renamed_folder("x" * 249 + "-12345", 1, "delete")

    assert len(name) <= 255
    assert is_deleted_folder(name)
    assert not is_deleted_folder("orders-0")
    assert not is_deleted_folder("my-delete")


def test_memory_storage_behaves_like_a_folder():
    storage = MemoryStorage()
    storage.make_folder("a")
    file = storage.open("a/x")
    assert file.append([b"one", memoryview(b"two")]) == 0
    assert file.append([b"three"]) == 6

    assert (file.read(3, 5), file.read(9, 99), file.read(99, 1)) == (b"twoth", b"ee", b"")
    assert (file.size, file.flushed) == (11, 11)
    file.truncate(3)
    assert storage.read("a/x") == b"one"
    storage.replace("a/y", b"new")
    assert storage.files("a") == {"x": 3, "y": 3}
    assert storage.files("b") == {}
    storage.rename_folder("a", "b")
    storage.delete("b/y")
    storage.delete("b/y")
    assert (storage.folders(), storage.files("b"), storage.read("b/y")) == (["b"], {"x": 3}, None)
    with pytest.raises(StorageError):
        storage.open("a/x")
    with pytest.raises(StorageError):
        storage.rename_folder("a", "c")
    storage.delete_folder("b")
    storage.delete_folder("b")
    assert storage.folders() == []


def test_rename_of_missing_file_fails_and_keeps_target():
    storage = MemoryStorage()
    storage.replace("a", b"one")
    storage.replace("b", b"two")

    with pytest.raises(StorageError, match="cannot rename c to b: file not found"):
        storage.rename("c", "b")
    assert storage.read("b") == b"two"
    storage.rename("a", "b")

    assert (storage.files(), storage.read("b")) == ({"b": 3}, b"one")


def test_lent_bytes_equal_read_bytes():
    storage = MemoryStorage()
    file = storage.open("file")
    file.append([bytes(range(250)) * 2000])

    lent = file.lend(1000, 400_000)
    again = file.lend(0, 1 << 30)
    file.truncate(0)
    file.append([b"other" * 100_000])

    assert bytes(lent) == (bytes(range(250)) * 2000)[1000:401_000]
    assert bytes(again) == bytes(range(250)) * 2000
    assert file.lend(499_990, 100) == b"otherother"


NOW = 1_700_000_000_000
PROPERTIES = "meta.properties"


def opened(storage, seed=1, **config):
    return Topics(storage, BrokerConfig(**config), random.Random(seed), NOW)


def with_topic():
    storage = MemoryStorage()
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    topics.close()
    return storage, topics.cluster_id


def lines(storage):
    return sorted(storage.read(PROPERTIES).decode().splitlines())


@pytest.mark.parametrize("lost", ["cluster.id", "node.id"])
def test_lost_meta_properties_line_is_restored(lost):
    storage, cluster_id = with_topic()
    before = lines(storage)
    kept = [line for line in before if not line.startswith(lost)]
    storage.replace(PROPERTIES, "".join(f"{line}\n" for line in kept).encode())

    topics = opened(storage, seed=2)

    assert lines(storage) == before
    assert topics.cluster_id == cluster_id
    (note,) = topics.recovery_notes
    reasons = {
        "cluster.id": f"cluster id {cluster_id} comes from the topic catalogue",
        "node.id": "node id 1 comes from the options",
    }
    assert (note.level, str(note)) == (
        Level.WARNING,
        f"{PROPERTIES} was damaged and was recreated: {reasons[lost]}",
    )


def test_implausible_meta_properties_line_is_dropped():
    storage, cluster_id = with_topic()
    storage.replace(PROPERTIES, f"cluster.id={cluster_id}\nnode.id=\nnothing=\nsomething=1\n".encode())

    opened(storage)

    names = {line.partition("=")[0] for line in lines(storage)}
    assert {"node.id", "something"} <= names
    assert "nothing" not in names


def test_cluster_id_mismatch_with_catalogue_is_reported():
    storage, cluster_id = with_topic()
    stranger = MemoryStorage()
    other = opened(stranger, seed=7)
    storage.replace(PROPERTIES, stranger.read(PROPERTIES))

    topics = opened(storage)

    assert topics.cluster_id == other.cluster_id
    assert [(note.level, str(note)) for note in topics.recovery_notes] == [
        (Level.WARNING, f"{PROPERTIES} has cluster {other.cluster_id!r}, the catalogue {cluster_id!r}")
    ]
    topics.close()
    assert opened(storage).recovery_notes == [], "the catalogue has the new cluster id"


def test_catalogue_without_cluster_id_gets_it_at_start():
    storage, cluster_id = with_topic()
    catalogue = json.loads(storage.read(CATALOGUE_FILE))
    storage.replace(CATALOGUE_FILE, json.dumps(catalogue | {"cluster_id": ""}).encode())

    opened(storage)
    assert json.loads(storage.read(CATALOGUE_FILE))["cluster_id"] == cluster_id

    storage.delete(PROPERTIES)
    assert opened(storage, seed=2).cluster_id == cluster_id

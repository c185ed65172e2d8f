"""The small files beside the logs, and the storage in memory."""

import pytest

from kohort.errors import StorageError
from kohort.log.data_folder import (
    build_offsets,
    build_partition_metadata,
    parse_offsets,
    parse_partition_metadata,
)
from kohort.log.storage import MemoryStorage
from kohort.log.topic_names import doomed_folder, is_doomed, parse_folder
from kohort.model import TopicPartition


def test_offsets_are_written_as_kafka_writes_them():
    offsets = {TopicPartition("b", 10): 7, TopicPartition("a", 2): 2**62}

    data = build_offsets(offsets)

    assert data == f"0\n2\na 2 {2**62}\nb 10 7\n".encode()
    assert parse_offsets(data) == offsets
    assert parse_offsets(build_offsets({})) == {}


def test_a_log_of_which_nothing_is_on_the_disk_yet_has_its_line():
    at_zero = {TopicPartition("orders", 0): 0, TopicPartition("orders", 1): 7}

    assert parse_offsets(build_offsets(at_zero)) == at_zero
    with pytest.raises(ValueError, match="offset -1 of orders-0"):
        parse_offsets(b"0\n1\norders 0 -1\n")


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n1\n", b"0\n1\na 0 5", b"0\n1\na 0\n", b"0\n1\na 0 -1\n", b"0\n1\na x 1\n", b"\xff"]
)
def test_what_is_no_checkpoint_is_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        parse_offsets(data)


def test_a_folder_carries_its_topic_id_as_in_kafka():
    data = build_partition_metadata(bytes(range(16)))

    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert parse_partition_metadata(data) == bytes(range(16))
    for bad in (b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n", b"version: 0\ntopic_id: short\n"):
        with pytest.raises(ValueError, match=r".+"):
            parse_partition_metadata(bad)


def test_folders_are_parsed_as_kafka_names_them():
    assert parse_folder("my-topic-12") == TopicPartition("my-topic", 12)
    for name in ("topic", "topic-", "-1", "topic-01", "topic-x", "to pic-1", "t-1.abc-delete"):
        assert parse_folder(name) is None


def test_a_doomed_folder_is_known_and_never_too_long():
    name = doomed_folder("x" * 249 + "-12345", 1)

    assert len(name) <= 255
    assert is_doomed(name)
    assert not is_doomed("orders-0")
    assert not is_doomed("my-delete")


def test_memory_behaves_like_a_folder():
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


def test_what_is_not_there_cannot_be_renamed_and_the_other_stays():
    storage = MemoryStorage()
    storage.replace("a", b"one")
    storage.replace("b", b"two")

    with pytest.raises(StorageError, match="cannot rename c to b: it is missing"):
        storage.rename("c", "b")
    assert storage.read("b") == b"two"
    storage.rename("a", "b")

    assert (storage.files(), storage.read("b")) == ({"b": 3}, b"one")


def test_what_is_lent_is_what_would_be_read_and_stays_as_it_was():
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

"""File of the topic catalogue: valid and invalid content."""

import json

import pytest

from kohort.errors import StorageError
from kohort.log.catalogue import CATALOGUE_FILE, Catalogue, TopicEntry, load_catalogue
from kohort.log.storage import MemoryStorage
from kohort.model import uuid_to_text

ID = bytes(range(16))


def topic(**other: object) -> dict[str, object]:
    return {"name": "t", "topic_id": uuid_to_text(ID), "partitions": 1, "overrides": {}, "internal": False} | other


def loaded(*topics: dict[str, object], **other: object) -> Catalogue:
    storage = MemoryStorage()
    content = {"version": 1, "cluster_id": "c", "next_producer_id": 0, "deleted": [], "topics": topics} | other
    storage.replace(CATALOGUE_FILE, json.dumps(content).encode())
    return load_catalogue(storage, [])


def refusal(*topics: dict[str, object], **other: object) -> str:
    with pytest.raises(StorageError) as refused:
        loaded(*topics, **other)
    message = str(refused.value)
    assert message.startswith(f"{CATALOGUE_FILE} cannot be read (")
    assert message.endswith(
        "Repair the file, or delete it: the next start reads the topics from their folders, without their options"
    )
    return message


def test_catalogue_round_trips():
    storage = MemoryStorage()
    entries = [
        TopicEntry("a", ID, 3, {"cleanup.policy": "compact"}, internal=True),
        TopicEntry("b", ID[::-1], 1, {}, internal=False),
    ]
    written = Catalogue({entry.name: entry for entry in entries}, [b"x" * 16], 17, "cluster")

    written.save(storage)

    assert load_catalogue(storage, []) == written


def test_catalogue_rejects_more_than_10000_partitions():
    assert loaded(topic(partitions=10_000)).topics["t"].partitions == 10_000
    assert "partitions is 10001, expected 1 to 10000" in refusal(topic(partitions=10_001))
    assert "partitions is 0, expected 1 to 10000" in refusal(topic(partitions=0))
    assert "partitions is True, expected " in refusal(topic(partitions=True))


def test_catalogue_rejects_producer_id_out_of_range():
    assert loaded(next_producer_id=2**63 - 1).next_producer_id == 2**63 - 1
    assert f"next_producer_id is {2**63}, expected 0 to" in refusal(next_producer_id=2**63)
    assert "next_producer_id is -1, expected 0 to" in refusal(next_producer_id=-1)


def test_catalogue_of_other_version_is_rejected():
    assert "version 2; this broker reads 1" in refusal(topic(), version=2)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä"])
def test_catalogue_rejects_invalid_topic_name(name):
    assert f"invalid topic name {name!r}" in refusal(topic(name=name))


def test_catalogue_rejects_duplicate_name_or_id():
    assert "topic t occurs twice" in refusal(topic(), topic())
    assert "two topics have the same id" in refusal(topic(), topic(name="u"))

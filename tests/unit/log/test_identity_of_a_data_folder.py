"""Whose data folder it is where ``meta.properties`` and the catalogue of topics lack something, or contradict."""

import json
import random
import uuid

import pytest

from kohort.config import BrokerConfig
from kohort.log.catalogue import CATALOGUE_FILE
from kohort.log.data_folder import new_topic_id
from kohort.log.storage import MemoryStorage
from kohort.log.topics import Topics
from kohort.notes import Level

NOW = 1_700_000_000_000
PROPERTIES = "meta.properties"


def opened(storage, seed=1, **config):
    return Topics(storage, BrokerConfig(**config), random.Random(seed), NOW)


def with_topic():
    """A folder with a topic, and its cluster."""
    storage = MemoryStorage()
    topics = opened(storage)
    topics.create("orders", 1, {}, NOW)
    topics.close()
    return storage, topics.cluster_id


def lines(storage):
    return sorted(storage.read(PROPERTIES).decode().splitlines())


@pytest.mark.parametrize("lost", ["cluster.id", "node.id"])
def test_one_line_that_is_lost_is_written_anew_and_the_others_stay(lost):
    storage, cluster_id = with_topic()
    before = lines(storage)
    kept = [line for line in before if not line.startswith(lost)]
    storage.replace(PROPERTIES, "".join(f"{line}\n" for line in kept).encode())

    topics = opened(storage, seed=2)

    assert lines(storage) == before
    assert topics.cluster_id == cluster_id
    (note,) = topics.recovery_notes
    told = {
        "cluster.id": f"cluster {cluster_id} is as the topics have it",
        "node.id": "node 1 is taken from the options",
    }
    assert (note.level, str(note)) == (
        Level.WARNING,
        f"{PROPERTIES} could not be read whole, and was made anew: {told[lost]}",
    )


def test_a_line_that_says_nothing_is_not_kept():
    storage, cluster_id = with_topic()
    storage.replace(PROPERTIES, f"cluster.id={cluster_id}\nnode.id=\nnothing=\nsomething=1\n".encode())

    opened(storage)

    names = {line.partition("=")[0] for line in lines(storage)}
    assert {"node.id", "something"} <= names
    assert "nothing" not in names


def test_the_topics_of_another_cluster_are_told():
    storage, cluster_id = with_topic()
    stranger = MemoryStorage()
    other = opened(stranger, seed=7)
    storage.replace(PROPERTIES, stranger.read(PROPERTIES))

    topics = opened(storage)

    assert topics.cluster_id == other.cluster_id
    assert [(note.level, str(note)) for note in topics.recovery_notes] == [
        (Level.WARNING, f"{PROPERTIES} says cluster {other.cluster_id!r}, the topics are of {cluster_id!r}")
    ]
    topics.close()
    assert opened(storage).recovery_notes == [], "from now on they are of this one"


def test_a_catalogue_that_bears_no_cluster_learns_it_at_the_next_start():
    storage, cluster_id = with_topic()
    catalogue = json.loads(storage.read(CATALOGUE_FILE))
    storage.replace(CATALOGUE_FILE, json.dumps(catalogue | {"cluster_id": ""}).encode())

    opened(storage)
    assert json.loads(storage.read(CATALOGUE_FILE))["cluster_id"] == cluster_id

    storage.delete(PROPERTIES)
    assert opened(storage, seed=2).cluster_id == cluster_id


class Same:
    """Chance that is the same each time."""

    def __init__(self, bit):
        self._bit = bit

    def getrandbits(self, k):
        return (2**k - 1) * self._bit


@pytest.mark.parametrize(
    ("bit", "expected"),
    [(1, "ffffffff-ffff-4fff-bfff-ffffffffffff"), (0, "00000000-0000-4000-8000-000000000000")],
)
def test_all_of_an_id_is_chance_but_its_version_and_its_variant(bit, expected):
    assert str(uuid.UUID(bytes=new_topic_id(Same(bit)))) == expected

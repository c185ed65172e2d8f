"""Existing topics that a consumer group subscribes to, and their hash: kept by the names that change.

A member may name tens of thousands of topics, of which few exist. A decision costs what its own names cost, and what
the existing topics of the group cost; the names of other members cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple, Protocol

from kohort.coordinator.outcome import TopicsView


class Found(NamedTuple):
    """An existing topic."""

    topic_id: bytes
    partitions: int
    hashed: bytes
    """Input of the hash."""


class NamesOfGroup(Protocol):
    """Names and matches of a group's members."""

    def subscribes_to(self, topic: str) -> bool: ...

    def subscribed_names(self) -> Collection[str]: ...


class TopicsOfGroup:
    """Existing topics of one group, as of one version of all topics."""

    def __init__(self) -> None:
        self.found: dict[str, Found] = {}
        self.version = -1
        self.changed: set[str] = set()
        """Names that members began or ceased to subscribe to since ``found`` was brought up to date."""
        self._looked_up: dict[str, Found | None] = {}
        """Topics that a decision looked up before its records made them subscribed."""

    def __len__(self) -> int:
        return len(self.found) + sum(self._looked_up.get(name) is not None for name in self.changed)

    def refresh(self, group: NamesOfGroup, topics: TopicsView) -> dict[str, Found] | None:
        """Bring ``found`` up to date; return the topics before, where other topics exist now than then."""
        for name in self.changed:
            found = self._looked_up[name] if name in self._looked_up else find_topic(name, topics)
            if found is not None and group.subscribes_to(name):
                self.found[name] = found
            else:
                self.found.pop(name, None)
        self.changed.clear()
        self._looked_up.clear()
        if self.version == topics.version:
            return None
        before = self.found
        self.found, self.version = _found_among(group, topics), topics.version
        return before

    def hash_with(self, added: Iterable[str], removed: Iterable[str], topics: TopicsView) -> int:
        """Return the hash of the topics once the names ``added`` are subscribed and the names ``removed`` are not."""
        after = self.found.copy()
        for name in removed:
            after.pop(name, None)
        for name in added:
            self._looked_up[name] = found = find_topic(name, topics)
            if found is not None:
                after[name] = found
        return hash_of_found(after)


def find_topic(name: str, topics: TopicsView) -> Found | None:
    """Return a topic, or None where it does not exist."""
    topic_id = topics.topic_id(name)
    if topic_id is None:
        return None
    partitions, encoded = topics.partition_count(name) or 0, name.encode("utf-8", "surrogatepass")
    hashed = topic_id + len(encoded).to_bytes(4) + encoded + partitions.to_bytes(4)
    return Found(topic_id, partitions, hashed)


def hash_of_topics(names: Iterable[str], topics: TopicsView) -> int:
    """Return the hash of the existing topics among ``names``."""
    found = ((name, find_topic(name, topics)) for name in set(names))
    return hash_of_found({name: topic for name, topic in found if topic is not None})


def hash_of_found(found: Mapping[str, Found]) -> int:
    """Return a number of 64 bits, signed, for topics with their ids and sizes; 0 for no topic.

    A coordinator compares it only with the hash in its own records, so it need not be Kafka's (XXH3, which the
    standard library lacks). It must be the same in every process.
    """
    if not found:
        return 0
    hashed = b"".join([found[name].hashed for name in sorted(found)])
    return int.from_bytes(blake2b(hashed, digest_size=8).digest(), signed=True)


def _found_among(group: NamesOfGroup, topics: TopicsView) -> dict[str, Found]:
    names: Iterable[str] = group.subscribed_names()
    if len(group.subscribed_names()) > _MANY:  # more names, maybe, than topics
        names = [name for name in topics.names() if group.subscribes_to(name)]
    found = ((name, find_topic(name, topics)) for name in sorted(names))
    return {name: topic for name, topic in found if topic is not None}


_MANY = 1_000

"""Existing topics that a consumer group subscribes to, and their hash; search for topics that match a pattern.

A member may name tens of thousands of topics, of which few exist. The cost of a request depends on the names in this
request and on the group's existing topics, not on the names of other members. Searches run in steps (ADR 11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from kohort.coordinator.outcome import MayDescribe, TopicsView
from kohort.errors import ApiError
from kohort.pattern import Pattern

_MANY = 1_000
NAMES_A_STEP: Final = 2_000
"""Number of topic names that one search step compares with a pattern. A step takes a few milliseconds."""
NAMES_A_PATTERN: Final = 100
"""Number of topic names whose comparison takes as long as parsing one pattern."""
MACHINE_STEPS_A_NAME: Final = 500
"""Number of automaton steps that count as the comparison of one more topic name."""


class ExistingTopic(NamedTuple):
    topic_id: bytes
    partitions: int
    hashed: bytes


class NamesOfGroup(Protocol):
    """Topic names that the members of a group subscribe to."""

    def subscribes_to(self, topic: str) -> bool: ...

    def subscribed_names(self) -> Collection[str]: ...


class TopicsOfGroup:
    """Existing topics that a group subscribes to. ``version``: ``TopicsView.version`` at the last refresh."""

    def __init__(self) -> None:
        self.found: dict[str, ExistingTopic] = {}
        self.version = -1
        self.changed: set[str] = set()
        """Topics that gained their first subscriber, or lost their last one, since the last refresh."""
        self._looked_up: dict[str, ExistingTopic | None] = {}

    def __len__(self) -> int:
        return len(self.found) + sum(self._looked_up.get(name) is not None for name in self.changed)

    def refresh(self, group: NamesOfGroup, topics: TopicsView) -> dict[str, ExistingTopic] | None:
        """Update ``found``. Return its previous value if ``TopicsView.version`` changed, else None."""
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
        """Return the group's topic hash with the topics ``added`` and without the topics ``removed``."""
        after = self.found.copy()
        for name in removed:
            after.pop(name, None)
        for name in added:
            self._looked_up[name] = found = find_topic(name, topics)
            if found is not None:
                after[name] = found
        return hash_of_found(after)


def find_topic(name: str, topics: TopicsView) -> ExistingTopic | None:
    topic_id = topics.topic_id(name)
    if topic_id is None:
        return None
    partitions, encoded = topics.partition_count(name) or 0, name.encode("utf-8", "surrogatepass")
    hashed = topic_id + len(encoded).to_bytes(4) + encoded + partitions.to_bytes(4)
    return ExistingTopic(topic_id, partitions, hashed)


def hash_of_topics(names: Iterable[str], topics: TopicsView) -> int:
    found = ((name, find_topic(name, topics)) for name in set(names))
    return hash_of_found({name: topic for name, topic in found if topic is not None})


def hash_of_found(found: Mapping[str, ExistingTopic]) -> int:
    """Return a signed 64-bit hash of topic names, topic ids and partition counts; 0 without topics.

    All processes compute the same hash. It need not be Kafka's XXH3: kohort compares it with its own records only.
    """
    if not found:
        return 0
    hashed = b"".join([found[name].hashed for name in sorted(found)])
    return int.from_bytes(blake2b(hashed, digest_size=8).digest(), signed=True)


def _found_among(group: NamesOfGroup, topics: TopicsView) -> dict[str, ExistingTopic]:
    names: Iterable[str] = group.subscribed_names()
    if len(group.subscribed_names()) > _MANY:
        names = [name for name in topics.names() if group.subscribes_to(name)]
    found = ((name, find_topic(name, topics)) for name in sorted(names))
    return {name: topic for name, topic in found if topic is not None}


class TopicSearch:
    """Search for the topics that match subscription patterns, among the topics that a client may describe."""

    def __init__(self, regexes: list[str], names: Iterable[str], may_describe: MayDescribe, now_ms: int) -> None:
        self.stepped_ms = now_ms
        self._names = sorted(names)
        self._may_describe = may_describe
        self._allowed: dict[str, bool] = {}
        self._steps = self._work(regexes)
        self.is_done = False

    def step(self, now_ms: int) -> dict[str, list[str]]:
        self.stepped_ms = now_ms
        found: dict[str, list[str]] = {}
        for resolved in self._steps:
            if resolved is None:
                return found
            regex, topics = resolved
            found[regex] = topics
        self.is_done = True
        return found

    def _work(self, regexes: list[str]) -> Iterator[tuple[str, list[str]] | None]:
        """Search in steps: yield each pattern with its matching topics, and None after each step."""
        left = NAMES_A_STEP
        for regex in regexes:
            topics: list[str] = []
            try:
                left -= NAMES_A_PATTERN
                pattern = Pattern(regex)
                for name in self._names:
                    left -= 1 + pattern.size * len(name) // MACHINE_STEPS_A_NAME
                    if pattern.fullmatch(name) and self._is_allowed(name):
                        topics.append(name)
                    if left <= 0:
                        left = NAMES_A_STEP
                        yield None
            except ApiError:
                topics = []  # a pattern that is too costly, or valid only in RE2/J, matches no topic
            if len(topics) >= NAMES_A_STEP:
                yield None  # to persist many matches takes a step of its own
                left = NAMES_A_STEP - len(topics) // 2
            yield regex, topics

    def _is_allowed(self, name: str) -> bool:
        if name not in self._allowed:
            self._allowed[name] = self._may_describe(name)
        return self._allowed[name]

"""Client side of fetch sessions, one per node (KIP-227, protocol/fetching.md#fetch-sessions).

A request lists all partitions (epoch 0), or the changes since the previous request. After any error the next request
lists all partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kohort.errors import ErrorCode, error_code
from kohort.model import NO_UUID, TopicPartition
from kohort.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
FULL_FETCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFFFFFF


class PartitionFetch(NamedTuple):
    topic_id: bytes
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL_FETCH
        self._known: dict[TopicPartition, PartitionFetch] = {}
        self.uses_ids = True

    @property
    def is_open(self) -> bool:
        return self._id != NO_SESSION

    def build(self, partitions: Mapping[TopicPartition, PartitionFetch]) -> SessionRequest:
        uses_ids = all(w.topic_id != NO_UUID for w in partitions.values())
        if uses_ids != self.uses_ids:
            self.uses_ids = uses_ids
            self._epoch = FULL_FETCH  # start a new fetch session: a session uses either topic names or topic ids
        if self._epoch == FULL_FETCH:
            self._known = dict(partitions)
            return SessionRequest(self._id, FULL_FETCH, _topics(partitions), [])
        changed = {p: w for p, w in partitions.items() if self._known.get(p) != w}
        removed = {p: w for p, w in self._known.items() if p not in partitions or partitions[p].topic_id != w.topic_id}
        self._known = dict(partitions)
        return SessionRequest(self._id, self._epoch, _topics(changed), _forgotten(removed))

    def build_close(self) -> SessionRequest:
        request = SessionRequest(self._id, FINAL_EPOCH, [], _forgotten(self._known))
        self._id, self._epoch, self._known = NO_SESSION, FULL_FETCH, {}
        return request

    def name_of(self, topic: str, topic_id: bytes) -> str:
        """Return the name of a topic in a Fetch response, which may have only its id. Return "" for an unknown id."""
        if topic:
            return topic
        return next((p.topic for p, w in self._known.items() if w.topic_id == topic_id), "")

    def take(self, response: FetchResponse) -> bool:
        """Update the fetch session from a response; return False if the response cannot be used."""
        if response.error_code:
            if error_code(response.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = FULL_FETCH
            return False
        answered = {
            TopicPartition(self.name_of(t.topic, t.topic_id), p.partition_index)
            for t in response.responses
            for p in t.partitions
        }
        if self._epoch == FULL_FETCH:
            self._id = response.session_id
            if answered != self._known.keys():
                return False  # the response is empty (throttled request), or has partitions outside the fetch session
            self._epoch = FULL_FETCH if self._id == NO_SESSION else 1
            return True
        if not answered <= self._known.keys():
            self._epoch = FULL_FETCH
            return False
        if response.session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FULL_FETCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """Start a new fetch session, because the node may not have received the last request."""
        self._epoch = FULL_FETCH


def _topics(partitions: Mapping[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, number), w in partitions.items():
        entry = topics.get(topic)
        if entry is None:
            entry = topics[topic] = FetchTopic(topic=topic, topic_id=w.topic_id)
        entry.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=w.leader_epoch,
                fetch_offset=w.fetch_offset,
                partition_max_bytes=w.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Mapping[TopicPartition, PartitionFetch]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = {}
    for (topic, number), w in partitions.items():
        topics.setdefault((topic, w.topic_id), []).append(number)
    return [ForgottenTopic(topic=t, topic_id=i, partitions=numbers) for (t, i), numbers in topics.items()]

"""Fetch sessions, the client's half (KIP-227): after a full fetch, only what changed is sent.

The rules: protocol/fetching.md#fetch-sessions.

One session per node. A request says either everything (epoch 0) or the difference to the request before; an answer to
the latter holds only partitions that have something new. Whatever goes wrong ends in a full fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kohort.errors import ErrorCode, error_code
from kohort.model import NO_UUID, TopicPartition
from kohort.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
FULL_FETCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    """What is asked of one partition."""

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
        self._known: dict[TopicPartition, Wanted] = {}
        self._uses_ids = True

    @property
    def uses_ids(self) -> bool:
        """Whether every partition is named by its topic's id, as version 13 and later need it."""
        return self._uses_ids

    @property
    def is_open(self) -> bool:
        return self._id != NO_SESSION

    def build(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        uses_ids = all(w.topic_id != NO_UUID for w in wanted.values())
        if uses_ids != self._uses_ids:
            self._uses_ids = uses_ids
            self._epoch = FULL_FETCH  # a session names topics one way or the other, never both
        if self._epoch == FULL_FETCH:
            self._known = dict(wanted)
            return SessionRequest(self._id, FULL_FETCH, _topics(wanted), [])
        changed = {p: w for p, w in wanted.items() if self._known.get(p) != w}
        gone = {p: w for p, w in self._known.items() if p not in wanted or wanted[p].topic_id != w.topic_id}
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, _topics(changed), _forgotten(gone))

    def build_close(self) -> SessionRequest:
        request = SessionRequest(self._id, FINAL_EPOCH, [], _forgotten(self._known))
        self._id, self._epoch, self._known = NO_SESSION, FULL_FETCH, {}
        return request

    def name_of(self, topic: str, topic_id: bytes) -> str:
        """Return the topic of an answer; from version 13 on it is given by its id. Empty if this session has none
        such."""
        if topic:
            return topic
        return next((p.topic for p, w in self._known.items() if w.topic_id == topic_id), "")

    def take(self, response: FetchResponse) -> bool:
        """Update the session from an answer; return False if the answer is of no use."""
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
            return self._take_full(answered, response)
        if not answered <= self._known.keys():
            self._epoch = FULL_FETCH
            return False
        if response.session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FULL_FETCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """Start another session: the node may or may not have seen the request."""
        self._epoch = FULL_FETCH

    def _take_full(self, answered: set[TopicPartition], response: FetchResponse) -> bool:
        if answered != self._known.keys():
            self._id = response.session_id
            return False  # throttled with an empty answer, or not an answer to what was asked
        self._id = response.session_id
        self._epoch = FULL_FETCH if self._id == NO_SESSION else 1
        return True


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, number), w in wanted.items():
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


def _forgotten(partitions: Mapping[TopicPartition, Wanted]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = {}
    for (topic, number), w in partitions.items():
        topics.setdefault((topic, w.topic_id), []).append(number)
    return [ForgottenTopic(topic=t, topic_id=i, partitions=numbers) for (t, i), numbers in topics.items()]


def nodes_with_sessions(sessions: Mapping[int, FetchSession]) -> Iterable[tuple[int, FetchSession]]:
    return [(node_id, session) for node_id, session in sessions.items() if session.is_open]

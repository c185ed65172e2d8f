"""Incremental fetch sessions (KIP-227): the broker remembers the partitions, the client sends only changes.

Rules: protocol/fetching.md#fetch-sessions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kohort.clock import Rng
from kohort.errors import ApiError, ErrorCode
from kohort.steps import Pace, Steps
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 0x7FFFFFFF
EVICTION_MS: Final = 120_000
PARTITIONS_PER_SLOT: Final = 200
"""All sessions together hold this many partitions for each slot of ``max.incremental.fetch.session.cache.slots``."""
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
ASK_US: Final = 2
ENTRY_US: Final = 0.8

TopicKey = str | bytes
"""Name of a topic; from Fetch version 13 on, topic id."""


@dataclass(slots=True, eq=False)
class SessionPartition:
    """A partition of a fetch session, and the offsets that were last sent to the client."""

    topic: TopicKey
    partition: int
    fetch_offset: int = 0
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    max_bytes: int = 0
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    name: str | None = None

    def update(self, requested: FetchPartition) -> None:
        self.fetch_offset = requested.fetch_offset
        self.leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        self.max_bytes = requested.partition_max_bytes

    def differs(self, data: PartitionData) -> bool:
        """Return True if ``data`` differs from the last response, so that the next response must contain it."""
        return (
            bool(data.records or data.error_code)
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
            or data.diverging_epoch.epoch >= 0
        )

    def remember(self, data: PartitionData) -> bool:
        """Store the offsets sent to the client; return True if an incremental response must contain the partition."""
        changed = self.differs(data)
        self.sent_log_start_offset = data.log_start_offset
        # after an error, the next response must contain the partition's offsets
        self.sent_high_watermark = -1 if data.error_code else data.high_watermark
        return changed


@dataclass(slots=True, eq=False)
class FetchSession:
    """Incremental fetch session of one client: partitions in the order in which the broker reads them."""

    session_id: int
    topic_ids: bool
    created_ms: int
    used_ms: int
    next_epoch: int = 1
    partitions: dict[tuple[TopicKey, int], SessionPartition] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FetchPlan:
    """Partitions to read for one Fetch request, and the fetch session of the response."""

    wanted: list[SessionPartition]
    session: FetchSession | None = None
    wants_session: bool = False
    topic_ids: bool = False


class FetchSessions:
    """Fetch sessions of a broker, least recently used first.

    Kafka limits only the number of sessions; here all sessions together have at most PARTITIONS_PER_SLOT partitions per
    slot. A client without a session sends full fetch requests.
    """

    def __init__(self, slots: int, rng: Rng) -> None:
        self.slots = slots
        self.most_partitions = slots * PARTITIONS_PER_SLOT
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int, now_ms: int, pace: Pace) -> Steps[FetchPlan]:
        """Return the partitions that a Fetch request reads. Raises ApiError for an invalid session id or epoch."""
        topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self._sessions.pop(request.session_id, None)
            partitions: dict[tuple[TopicKey, int], SessionPartition] = {}
            yield from _add(partitions, request, topic_ids, pace)
            return FetchPlan(list(partitions.values()), None, request.session_epoch == INITIAL_EPOCH, topic_ids)
        return (yield from self._resume(request, now_ms, pace, topic_ids=topic_ids))

    def _resume(self, request: FetchRequest, now_ms: int, pace: Pace, *, topic_ids: bool) -> Steps[FetchPlan]:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.next_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.topic_ids != topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.next_epoch = 1 if session.next_epoch == MAX_EPOCH else session.next_epoch + 1
        added = yield from _change(session, request, pace)
        if not session.partitions:
            self._sessions.pop(session.session_id, None)
            return FetchPlan([], topic_ids=topic_ids)
        if added and self.partitions() > self.most_partitions:
            self._sessions.pop(session.session_id, None)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # the client retries with a full fetch request
        session.used_ms = now_ms
        if self._sessions.pop(session.session_id, None) is not None:
            self._sessions[session.session_id] = session
        return FetchPlan(list(session.partitions.values()), session, topic_ids=topic_ids)

    def finish(
        self, plan: FetchPlan, results: list[tuple[SessionPartition, PartitionData]], now_ms: int, pace: Pace
    ) -> Steps[tuple[int, list[tuple[SessionPartition, PartitionData]]]]:
        """Return session id and partitions of a Fetch response; open a session if requested and possible."""
        if plan.session is not None:
            returned = []
            for wanted, data in results:
                if wanted.remember(data):
                    returned.append((wanted, data))
                    # move the partition to the end of the session: busy partitions must not starve idle ones
                    if data.records:
                        key = (wanted.topic, wanted.partition)
                        if plan.session.partitions.get(key) is wanted:
                            plan.session.partitions[key] = plan.session.partitions.pop(key)
                if pace.is_due(ENTRY_US):
                    yield
            return plan.session.session_id, returned
        if not plan.wants_session or not self._make_room(len(plan.wanted), now_ms):
            return 0, results
        session = FetchSession(self._new_id(), plan.topic_ids, now_ms, now_ms)
        for wanted, data in results:
            wanted.remember(data)
            session.partitions[wanted.topic, wanted.partition] = wanted
            if pace.is_due(ENTRY_US):
                yield
        self._sessions[session.session_id] = session
        return session.session_id, results

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Evict fetch sessions to make room for ``size`` partitions; return False if that frees too little.

        Rules: protocol/fetching.md#session-eviction.
        """
        if size > self.most_partitions:
            return False
        while self.partitions() + size > self.most_partitions:
            if not self._evict(size, now_ms):
                return False
        return len(self._sessions) < self.slots or self._evict(size, now_ms)

    def partitions(self) -> int:
        """Return the number of partitions in all fetch sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def _evict(self, size: int, now_ms: int) -> bool:
        """Evict one fetch session to make room for ``size`` partitions; return False if no session may be evicted."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.session_id]
            return True
        old = [s for s in self._sessions.values() if now_ms - s.created_ms > EVICTION_MS and len(s.partitions) < size]
        if not old:
            return False
        smallest = min(old, key=lambda s: (len(s.partitions), s.session_id))
        del self._sessions[smallest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(1, MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id


def _change(session: FetchSession, request: FetchRequest, pace: Pace) -> Steps[bool]:
    """Add and remove the partitions that a Fetch request lists; return True if any partition was added."""
    topic_ids = session.topic_ids
    added = yield from _add(session.partitions, request, topic_ids, pace)
    for forgotten in request.forgotten_topics_data:
        key = forgotten.topic_id if topic_ids else forgotten.topic
        for partition in forgotten.partitions:
            session.partitions.pop((key, partition), None)
            if pace.is_due(ASK_US):
                yield
    return added


def _add(
    partitions: dict[tuple[TopicKey, int], SessionPartition], request: FetchRequest, topic_ids: bool, pace: Pace
) -> Steps[bool]:
    """Add the partitions of a Fetch request in order; the last of duplicates counts. Return True if any is new."""
    added = False
    for topic in request.topics:
        key = topic.topic_id if topic_ids else topic.topic
        for requested in topic.partitions:
            known = partitions.get((key, requested.partition))
            if known is None:
                known = partitions[key, requested.partition] = SessionPartition(key, requested.partition)
                added = True
            known.update(requested)
            if pace.is_due(ASK_US):
                yield
    return added

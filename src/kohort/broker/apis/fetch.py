"""Fetch (1), versions 4-18. KIP-74, KIP-227, KIP-516, KIP-951.

A fetch with less than ``min_bytes`` available waits in the purgatory (broker/purgatory.py). The response refers to
byte ranges of the partition logs, which are read when the connection sends them (connections/budgets.py, ADR 10). Only
the leader serves reads: the broker has no follower fetches and no preferred read replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kohort.broker.api import FREED_EARLY, AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import Rights, unguarded
from kohort.broker.fetch_sessions import FetchPlan, SessionPartition, TopicKey
from kohort.broker.first_fetches import CHECKED_MOST, FetchedPartition
from kohort.broker.leaders import TELLS_LEADER, check_leader, check_leader_epoch, endpoints_of, leader_now
from kohort.broker.purgatory import Parked
from kohort.broker.request import AnswerInSteps, Request, Unanswered, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.batches import LogSlice
from kohort.log.partition import PartitionLog
from kohort.log.topics import Topic
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, emptied
from kohort.wire.codec import Buffer, encode_framed_in_steps
from kohort.wire.compression import Codec
from kohort.wire.messages import fetch as wire
from kohort.wire.record_batch import split_batches

READ_COMMITTED: Final = 1
NOT_FOUND: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_ZSTD: Final = 10
FIRST_VERSION_WITH_LEADERS: Final = 12
FIRST_VERSION_WITH_ENDPOINTS: Final = 16
NOT_DIVERGING: Final = wire.PartitionData().diverging_epoch
NO_LEADER: Final = wire.PartitionData().current_leader
NO_ABORTED: Final[list[wire.AbortedTransaction]] = []
"""Empty list that all Fetch responses share, to save memory; no code changes it."""
WATCHED_MOST: Final = 5_000
"""Maximum number of partitions that a waiting fetch watches for appends; appends to further ones do not wake it."""
READ_US: Final = 12
SURVEY_US: Final = 4
ENTRY_US: Final = 0.3
ITEM_US: Final = 0.3


@dataclass(slots=True, eq=False)
class OpenFetch:
    request: Request
    plan: FetchPlan
    denied: frozenset[TopicKey] = frozenset()


@dataclass(slots=True, eq=False)
class ResponseBudget:
    """Remaining size of a Fetch response in bytes, and remaining memory for records loaded before sending."""

    bytes: int
    at_hand: int
    is_empty: bool = True
    """True until the response contains a record batch; the first batch may exceed the size limits (KIP-74)."""

    def take(self, found: list[LogSlice]) -> list[Buffer]:
        """Subtract byte ranges of a log from the budget; load small ranges now, large ones when they are sent."""
        parts: list[Buffer] = []
        for one in found:
            self.bytes -= len(one)
            self.is_empty = False
            at_hand = one.preloaded
            if at_hand is None and not self.at_hand:
                one.prefix = b""
            self.at_hand = max(self.at_hand - len(one.prefix), 0)
            parts.append(one if at_hand is None else at_hand)  # type: ignore[arg-type]  # it has a length
        return parts


def fetch(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.FetchRequest = request.message
    pace = Pace()
    try:
        plan = yield from state.sessions.begin(message, request.version, request.now_ms, pace)
    except ApiError as error:
        return wire.FetchResponse(error_code=error.code)
    if state.cluster.first_fetches:
        _note_first_fetches(state, request)
    if len(plan.wanted) > FREED_EARLY:
        for requested in message.topics:
            # free the entries: the fetch plan has all fields that the response needs
            yield from emptied(requested.partitions, pace)
    reading = OpenFetch(request, plan)
    if state.access is not None:
        reading.denied = yield from denied_topics(state, request, plan.wanted)
    if message.max_wait_ms <= 0 or all(fetched.topic in reading.denied for fetched in plan.wanted):
        return (yield from answer(state, reading, pace))
    min_bytes = min(message.min_bytes, message.max_bytes, _most_bytes(state, request))
    missing, keys = yield from _survey(state, reading, min_bytes, pace)
    if missing <= 0:
        return (yield from answer(state, reading, pace))
    committed_only = message.isolation_level == READ_COMMITTED
    parked = Parked(request.reply_to, keys, missing, reading, committed_only)
    state.purgatory.park(parked, request.now_ms + message.max_wait_ms)
    return Unanswered.LATER


def answer_after_wait(state: BrokerState, reading: OpenFetch, pace: Pace) -> AnswerInSteps:
    """Check the client's rights again after a fetch waited for records, and build the Fetch response."""
    if state.access is not None:
        reading.denied = yield from denied_topics(state, reading.request, reading.plan.wanted)
    return (yield from answer(state, reading, pace))


def _note_first_fetches(state: BrokerState, request: Request) -> None:
    first = state.cluster.first_fetches
    requested = islice(_named_partitions(state, request.message), CHECKED_MOST)
    for entry in first.fetched(request.client_id, request.client_host, requested, request.now_ms):
        state.coordinator.note(entry)


def _named_partitions(state: BrokerState, message: wire.FetchRequest) -> Iterator[FetchedPartition]:
    for requested in message.topics:
        topic = None if requested.topic else state.topics.by_id(requested.topic_id)
        name = requested.topic or (topic.name if topic is not None else "")
        for p in requested.partitions:
            yield name, p.partition, p.fetch_offset


def answer(state: BrokerState, reading: OpenFetch, pace: Pace) -> AnswerInSteps:
    """Read the requested partitions, up to the size limits, and build the Fetch response."""
    message: wire.FetchRequest = reading.request.message
    at_hand = state.unread.piece_bytes
    room = ResponseBudget(min(message.max_bytes, _most_bytes(state, reading.request)), at_hand)
    if reading.request.version < FIRST_VERSION_WITH_ZSTD:
        room.bytes = min(room.bytes, at_hand)  # the zstd check loads all batches into memory: limit their bytes
    results = []
    for fetched in reading.plan.wanted:
        results.append((fetched, _read(state, reading, fetched, room)))
        if pace.is_due(READ_US):
            yield
    if state.quotas.in_flight and (throttle_ms := (yield from _throttle_ms(state, reading, results, pace))):
        session = reading.plan.session
        return wire.FetchResponse(throttle_time_ms=throttle_ms, session_id=session.session_id if session else 0)
    session_id, returned = yield from state.sessions.finish(reading.plan, results, reading.request.now_ms, pace)
    leaders: set[int] = set()
    if reading.request.version >= FIRST_VERSION_WITH_ENDPOINTS:
        for _, data in returned:
            leaders.add(data.current_leader.leader_id)
            if pace.is_due(ENTRY_US):
                yield
    by_topic = yield from _by_topic(returned, pace, topic_ids=reading.plan.topic_ids)
    for values in (returned, results, reading.plan.wanted):
        yield from emptied(values, pace)
    return wire.FetchResponse(
        session_id=session_id,
        responses=by_topic,
        node_endpoints=[
            wire.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints_of(state, leaders, reading.request.caller.listener)
        ],
    )


def _most_bytes(state: BrokerState, request: Request) -> int:
    most = state.config.fetch_max_bytes
    return min(most, state.quotas.most_fetched(request)) if state.quotas.in_flight else most


def _throttle_ms(
    state: BrokerState, reading: OpenFetch, results: list[tuple[SessionPartition, wire.PartitionData]], pace: Pace
) -> Steps[int]:
    """Return the throttle time of a Fetch in ms; a throttled response has no records.

    The fetch session stays unchanged (protocol/security.md#throttled-fetches).
    """
    incremental = reading.plan.session is not None
    returned = [result for result in results if not incremental or result[0].differs(result[1])]
    answer = wire.FetchResponse(responses=(yield from _by_topic(returned, pace, topic_ids=reading.plan.topic_ids)))
    buffers = yield from encode_framed_in_steps(b"", answer, reading.request.version)
    return state.quotas.fetched(reading.request, sum(map(len, buffers)))


def _by_topic(
    returned: list[tuple[SessionPartition, wire.PartitionData]], pace: Pace, *, topic_ids: bool
) -> Steps[list[wire.FetchableTopicResponse]]:
    """Group adjacent partitions of the same topic into one response entry; keep their order."""
    topics: list[wire.FetchableTopicResponse] = []
    last = None
    for fetched, data in returned:
        if fetched.topic != last:
            last = fetched.topic
            entry = wire.FetchableTopicResponse(topic_id=last) if topic_ids else wire.FetchableTopicResponse(topic=last)  # type: ignore[arg-type]  # bytes with ids
            topics.append(entry)
        topics[-1].partitions.append(data)
        if pace.is_due(ENTRY_US):
            yield
    return topics


def _survey(
    state: BrokerState, reading: OpenFetch, min_bytes: int, pace: Pace
) -> Steps[tuple[int, list[tuple[bytes, int]]]]:
    """Return how many bytes are missing to ``min_bytes`` (0: answer now), and the partitions to watch for appends."""
    missing, has_paused = min_bytes, False
    keys: list[tuple[bytes, int]] = []
    sizes: list[int] = []
    try:
        for fetched in reading.plan.wanted:
            if fetched.topic in reading.denied:
                continue  # topics without READ get an error in the Fetch response
            key, size = _available(state, reading, fetched)
            missing -= size
            if missing <= 0:
                return 0, []
            if len(keys) < WATCHED_MOST:
                keys.append(key)
                sizes.append(size)
            if pace.is_due(SURVEY_US):
                has_paused = True
                yield
        if has_paused:  # producers may have appended between the steps of this Fetch: subtract these bytes, too
            watched = (fetched for fetched in reading.plan.wanted if fetched.topic not in reading.denied)
            now = [_available(state, reading, fetched)[1] for fetched in islice(watched, len(keys))]
            missing -= sum(now) - sum(sizes)
    except ApiError:
        return 0, []
    return missing, keys


def _available(state: BrokerState, reading: OpenFetch, fetched: SessionPartition) -> tuple[tuple[bytes, int], int]:
    """Return a fetched partition's key and number of readable bytes. Raises ApiError for an unreadable partition."""
    topic, log = _log(state, fetched)
    if not log.log_start_offset <= fetched.fetch_offset <= log.log_end_offset or _diverging(fetched, log):
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    size = 0
    if fetched.fetch_offset < _visible_end(reading.request.message, log):
        size = min(log.bytes_available(fetched.fetch_offset), fetched.max_bytes)
    return (topic.topic_id, fetched.partition), size


def _read(
    state: BrokerState, reading: OpenFetch, fetched: SessionPartition, room: ResponseBudget
) -> wire.PartitionData:
    request = reading.request
    message: wire.FetchRequest = request.message
    if fetched.topic in reading.denied:
        return _refused(state, request, fetched, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    committed = message.isolation_level == READ_COMMITTED
    try:
        _, log = _log(state, fetched)
        diverging = _diverging(fetched, log)
        found: list[LogSlice] = []
        if diverging is None:
            end = _visible_end(message, log)
            size, first = min(fetched.max_bytes, room.bytes), room.is_empty
            if size > 0 or first:
                found = log.slices(
                    fetched.fetch_offset, max(size, 0), end=end, at_least_one=first, preload=room.at_hand
                )
            if found and request.version < FIRST_VERSION_WITH_ZSTD:
                _check_codec(found)
        return wire.PartitionData(
            partition_index=fetched.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=_aborted(log, fetched.fetch_offset, found) if committed else None,
            diverging_epoch=diverging or NOT_DIVERGING,
            records=room.take(found),
        )
    except KohortError as error:
        return _refused(state, request, fetched, refusal_of(error).code)


def _aborted(log: PartitionLog, offset: int, found: list[LogSlice]) -> list[wire.AbortedTransaction]:
    aborted = log.aborted_between(offset, found[-1].next_offset) if found else ()
    return [wire.AbortedTransaction(producer_id=a.producer_id, first_offset=a.first_offset) for a in aborted]


def _refused(state: BrokerState, request: Request, fetched: SessionPartition, code: ErrorCode) -> wire.PartitionData:
    leader = NO_LEADER
    if code in TELLS_LEADER and request.version >= FIRST_VERSION_WITH_LEADERS:
        key = fetched.topic
        topic = state.topics.by_id(key) if isinstance(key, bytes) else state.topics.get(key)
        leader_id, leader_epoch = leader_now(state, topic, fetched.partition)
        leader = wire.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return wire.PartitionData(
        partition_index=fetched.partition,
        error_code=code,
        high_watermark=-1,
        current_leader=leader,
        # as in Kafka, missing topics have an empty list of aborted transactions instead of null; clients ignore it
        aborted_transactions=NO_ABORTED if code in NOT_FOUND else None,
        records=b"",
    )


def _log(state: BrokerState, fetched: SessionPartition) -> tuple[Topic, PartitionLog]:
    key = fetched.topic
    topic = state.topics.by_id(key) if isinstance(key, bytes) else state.topics.get(key)
    if topic is None:
        raise ApiError(_unknown(state, fetched))
    fetched.name = topic.name
    if not 0 <= fetched.partition < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = topic.partitions[fetched.partition]
    check_leader_epoch(fetched.leader_epoch, log)
    check_leader(state, topic, fetched.partition)
    return topic, log


def _unknown(state: BrokerState, fetched: SessionPartition) -> ErrorCode:
    """Return the error code for a fetched topic that does not exist.

    Fetch sessions keep the names of deleted topics.
    """
    if isinstance(fetched.topic, bytes) and fetched.name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    recreated = None if fetched.name is None else state.topics.get(fetched.name)
    if recreated is None or fetched.partition >= len(recreated.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INCONSISTENT_TOPIC_ID


def _visible_end(message: wire.FetchRequest, log: PartitionLog) -> int:
    return log.last_stable_offset if message.isolation_level == READ_COMMITTED else log.high_watermark


def _diverging(fetched: SessionPartition, log: PartitionLog) -> wire.EpochEndOffset | None:
    """Return the end offset of the last leader epoch that client and leader share, if their logs diverge (KIP-595)."""
    if fetched.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.end_of_epoch(fetched.last_fetched_epoch)
    if epoch < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < fetched.last_fetched_epoch or end_offset < fetched.fetch_offset:
        return wire.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def _check_codec(found: list[LogSlice]) -> None:
    """Raise ApiError for a zstd batch if the Fetch version is too old for zstd (KIP-110)."""
    if any(header.codec == Codec.ZSTD for one in found for _, header in split_batches(one.load())):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def denied_topics(
    state: BrokerState, request: Request, fetched: Sequence[SessionPartition]
) -> Steps[frozenset[TopicKey]]:
    """Return the fetched topics without READ; the handler reports unknown topic ids."""
    message: wire.FetchRequest = request.message
    is_replica = max(message.replica_id, message.replica_state.replica_id) >= 0
    if is_replica and Rights(state, request).may_on_cluster(Operation.CLUSTER_ACTION):
        return frozenset()
    pace = Pace()
    known: dict[TopicKey, bool] = {}
    for one in fetched:
        if one.topic not in known:
            known[one.topic] = _may_read(state, request, one.topic, is_replica=is_replica)
        if pace.is_due(ITEM_US):
            yield
    return frozenset(key for key, is_allowed in known.items() if not is_allowed)


def _may_read(state: BrokerState, request: Request, key: TopicKey, *, is_replica: bool) -> bool:
    if isinstance(key, bytes):
        topic = state.topics.by_id(key)
        if topic is None:
            return True
        key = topic.name
    return not is_replica and Rights(state, request).may(Operation.READ, ResourceType.TOPIC, key)


FETCH = BrokerApi(
    wire.FetchRequest,
    fetch,
    unguarded,  # the handler checks READ on each topic of the fetch session
    Cost(AnswerBound.FETCH),
    names={"topics.topic": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID},
)

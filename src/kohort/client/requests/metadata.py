"""Metadata of the cluster (nodes, topics, leaders) and their refresh.

The leader epoch of a partition never decreases: a lower one in a response is ignored (KIP-320). Leader hints in
Produce and Fetch responses update leaders without a Metadata request (KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import ANY_NODE, IDLE, Poll, Unsent
from kohort.clock import Rng
from kohort.config.client import ClientConfig
from kohort.errors import AuthenticationFailed, ErrorCode, KohortError, NotKafka, UnsupportedVersion, error_code
from kohort.model import NO_EPOCH, NO_UUID, Node, TopicPartition
from kohort.wire.messages import metadata as wire
from kohort.wire.schema import Message

LEADER_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Error codes of a partition leader after which the client refreshes metadata and retries."""
PERMANENT: Final = (AuthenticationFailed, NotKafka, UnsupportedVersion)
"""Permanent connection errors: retries cannot succeed."""

IDS_FROM: Final = 12
MAX_LEARNT_NODES: Final = 1_000


class RequestedTopics(NamedTuple):
    all: bool = False
    names: frozenset[str] = frozenset()
    ids: frozenset[bytes] = frozenset()

    def covers(self, other: RequestedTopics) -> bool:
        return self.all or (not other.all and other.names <= self.names and other.ids <= self.ids)


class LeaderAndEpoch(NamedTuple):
    """Leader of a partition and its leader epoch (-1: unknown)."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    topic_id: bytes
    internal: bool
    partitions: dict[int, PartitionInfo]


class Metadata:
    """The client's copy of the cluster's metadata, and the request source that refreshes it."""

    def __init__(self, config: ClientConfig, rng: Rng, *, allow_auto_create: bool = True) -> None:
        self.version = 0
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.allow_auto_create = allow_auto_create
        self.last_failure: KohortError | None = None
        self.features: dict[str, int] = {}
        self._config = config
        self._request = RequestState(retry_backoff(config, rng))
        self._nodes: dict[int, Node] = {}
        self._learnt: dict[int, Node] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._errors: dict[str, ErrorCode] = {}
        self._names: dict[bytes, str] = {}
        self._tracked: set[str] = set()
        self._tracked_ids: frozenset[bytes] | None = None
        self._tracks_all = False
        self._covered = RequestedTopics()
        self._must_refresh = False
        self.answered_at_ms: int | None = None
        self._must_rebootstrap = False

    def track(self, topics: Iterable[str]) -> None:
        """Track metadata of exactly these topics; the next poll requests unknown topics without a back-off."""
        self._tracked = set(topics)
        self._tracked_ids = None
        self._tracks_all = False

    def track_ids(self, topic_ids: Iterable[bytes]) -> None:
        """Track metadata of exactly the topics with these ids, whose names the client does not know yet."""
        self.track(())
        self._tracked_ids = frozenset(topic_ids)

    def add_topic(self, topic: str) -> None:
        self._tracked.add(topic)

    def track_all(self) -> None:
        self._tracks_all = True

    def request_refresh(self) -> None:
        """Request new metadata after the back-off; no effect while a Metadata request is in flight."""
        if not self._request.is_in_flight:
            self._must_refresh = True

    @property
    def refresh_pending(self) -> bool:
        return self._request.is_in_flight or self._must_refresh or not self._is_covered()

    @property
    def permanent_error(self) -> KohortError | None:
        return self.last_failure if isinstance(self.last_failure, PERMANENT) else None

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    def node(self, node_id: int) -> Node | None:
        return self._nodes.get(node_id) or self._learnt.get(node_id)

    def learn_node(self, node: Node) -> None:
        """Store the address of a node from FindCoordinator or a leader hint; ignore negative (bootstrap) ids."""
        if node.node_id < 0:
            return
        self._learnt.pop(node.node_id, None)
        self._learnt[node.node_id] = node
        if len(self._learnt) > MAX_LEARNT_NODES:
            del self._learnt[next(iter(self._learnt))]

    def rebootstrap(self) -> None:
        """Drop known nodes and request metadata from bootstrap addresses; keep topics until the response arrives."""
        self._nodes, self._learnt, self.cluster_id = {}, {}, None
        self._must_refresh = True

    def take_rebootstrap(self) -> bool:
        """Return True if a broker returned REBOOTSTRAP_REQUIRED (KIP-1102) since the last call."""
        was, self._must_rebootstrap = self._must_rebootstrap, False
        return was

    def topics(self) -> set[str]:
        return set(self._topics)

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def is_internal(self, name: str) -> bool:
        info = self._topics.get(name)
        return info is not None and info.internal

    def error(self, name: str) -> ErrorCode | None:
        return self._errors.get(name)

    def errors(self) -> dict[str, ErrorCode]:
        return dict(self._errors)

    def partition_count(self, name: str) -> int | None:
        info = self._topics.get(name)
        return None if info is None else len(info.partitions)

    def topic_id(self, name: str) -> bytes | None:
        """Return the topic's id; None if the topic is unknown, or the cluster has no topic ids (Kafka < 2.8)."""
        info = self._topics.get(name)
        return None if info is None or info.topic_id == NO_UUID else info.topic_id

    def lacks(self, partition: TopicPartition, topic_id: bytes | None = None) -> bool:
        """True if the last Metadata response covers the topic, but lacks the partition or has another topic id."""
        info = self._topics.get(partition.topic)
        if info is not None:
            recreated = topic_id is not None and info.topic_id not in (NO_UUID, topic_id)
            return recreated or partition.partition not in info.partitions
        if self._covered.all:
            return partition.topic not in self._errors
        if partition.topic in self._covered.names:
            return self._errors.get(partition.topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic_id in self._covered.ids

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def leader(self, tp: TopicPartition) -> LeaderAndEpoch | None:
        info = self._topics.get(tp.topic)
        partition = info.partitions.get(tp.partition) if info is not None else None
        if partition is None or partition.leader_id < 0:
            return None
        return LeaderAndEpoch(partition.leader_id, partition.leader_epoch)

    def update_leader(self, tp: TopicPartition, node_id: int, epoch: int, nodes: Iterable[Node] = ()) -> bool:
        """Apply the leader in a Produce or Fetch response (KIP-951) if its epoch is newer. Return True if applied."""
        for node in nodes:
            self.learn_node(node)
        info = self._topics.get(tp.topic)
        known = info.partitions.get(tp.partition) if info is not None else None
        if info is None or known is None or epoch <= known.leader_epoch or self.node(node_id) is None:
            return False
        info.partitions[tp.partition] = PartitionInfo(node_id, epoch, known.replicas, known.isr)
        self.version += 1
        return True

    def poll(self, now_ms: int) -> Poll:
        if self._request.is_in_flight:
            return IDLE
        due = self._due_ms(now_ms)
        if due is None or due > now_ms:
            return Poll(wake_at_ms=due)
        self._must_refresh = False
        tracked = self._tracked_topics()
        topics = [wire.MetadataRequestTopic(name=name) for name in sorted(tracked.names)]
        topics += [wire.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(tracked.ids)]
        request = wire.MetadataRequest(
            topics=None if tracked.all else topics, allow_auto_topic_creation=self.allow_auto_create
        )
        unsent = Unsent(ANY_NODE, request, self._config.request_timeout_ms, shape=shape_metadata, context=tracked)
        return Poll([self._request.sent(unsent)])

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, wire.MetadataResponse)
        if not self._request.ended(sent) or response.error_code:
            self._must_rebootstrap |= response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            self._try_again(now_ms)
            return
        self.last_failure = None
        changed = self._take(response)
        self._covered = sent.context
        self.answered_at_ms = now_ms
        self.version += 1
        is_incomplete = (
            any(code.retriable for code in self._errors.values())
            or not self._covered.ids <= self._names.keys()
            or any(p.leader_id < 0 for t in self._topics.values() for p in t.partitions.values())
        )
        if changed:
            self._request.succeeded()
        if is_incomplete:
            self._try_again(now_ms)
        else:
            self._request.repeated(now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        self._request.ended(sent)
        self.last_failure = error
        self._try_again(now_ms)

    def _try_again(self, now_ms: int) -> None:
        self._must_refresh = True
        self._request.failed(now_ms)

    def _due_ms(self, now_ms: int) -> int | None:
        if self._must_refresh or not self._is_covered():
            new_topics = self.last_failure is None and not self._is_covered()
            return now_ms if new_topics else max(now_ms, self._request.retry_at_ms)
        return None if self.answered_at_ms is None else self.answered_at_ms + self._config.metadata_max_age_ms

    def _is_covered(self) -> bool:
        return self._covered.covers(self._tracked_topics())

    def _tracked_topics(self) -> RequestedTopics:
        if self._tracked_ids and not self._tracked:
            return RequestedTopics(ids=self._tracked_ids)
        return RequestedTopics(self._tracks_all, frozenset(self._tracked))

    def _take(self, response: wire.MetadataResponse) -> bool:
        before = (self._nodes, self._topics, self._errors)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self._nodes = {
                b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers if b.node_id >= 0
            }
            self._learnt = {i: node for i, node in self._learnt.items() if i not in self._nodes}
        topics: dict[str, TopicInfo] = {}
        errors: dict[str, ErrorCode] = {}
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                errors[topic.name] = error_code(topic.error_code)
            else:
                topics[topic.name] = self._merge(topic)
        self._topics, self._errors = topics, errors
        self._names = {info.topic_id: name for name, info in topics.items() if info.topic_id != NO_UUID}
        return before != (self._nodes, self._topics, self._errors)

    def _merge(self, topic: wire.MetadataResponseTopic) -> TopicInfo:
        known = self._topics.get(topic.name or "")
        same_topic = known is not None and known.topic_id == topic.topic_id
        partitions = {}
        for p in topic.partitions:
            old = known.partitions.get(p.partition_index) if known is not None and same_topic else None
            is_old_epoch = old is not None and p.leader_epoch != NO_EPOCH and p.leader_epoch < old.leader_epoch
            partitions[p.partition_index] = old if old is not None and is_old_epoch else _partition(p)
        return TopicInfo(topic.topic_id, topic.is_internal, dict(sorted(partitions.items())))


def _partition(p: wire.MetadataResponsePartition) -> PartitionInfo:
    code = error_code(p.error_code)
    has_leader = code in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
    return PartitionInfo(p.leader_id if has_leader else -1, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes))


def shape_metadata(request: Message, version: int) -> Message:
    """Rewrite Metadata for old versions. Below version 4 a request cannot forbid automatic topic creation.

    Raises UnsupportedVersion for topic ids below version 12.
    """
    assert isinstance(request, wire.MetadataRequest)
    if version < IDS_FROM and request.topics and request.topics[0].name is None:
        raise UnsupportedVersion(f"the broker serves Metadata version {version}; topic ids need version 12 (Kafka 3.1)")
    return request if version >= 4 else wire.MetadataRequest(topics=request.topics)

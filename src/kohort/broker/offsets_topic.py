"""``__consumer_offsets``: appends the group coordinator's records, and loads them.

The coordinator gets ``append`` and has no access to logs. Loading replays each record of a partition in order
(protocol/groups.md#loading). At broker start, all partitions that this node leads are loaded before any request. A
partition that the node leads later is loaded a thousand records at a time; meanwhile, requests of its groups get
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.log_items import SLICE_RECORDS, slices_of
from kohort.broker.counters import BrokerCounters
from kohort.broker.purgatory import FlushTarget, Purgatory
from kohort.config.broker import BrokerConfig
from kohort.coordinator.outcome import Reply
from kohort.coordinator.records import LogItem
from kohort.coordinator.replay import Skipped
from kohort.coordinator.runtime import Coordinator
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.topics import Topic
from kohort.model import ProducerIdAndEpoch
from kohort.notes import Note, failure
from kohort.wire.record_batch import NewRecord, build_batch

NAME: Final = "__consumer_offsets"


class OffsetsTopic:
    """The topic ``__consumer_offsets`` of one node, with its group coordinator."""

    name = NAME

    def __init__(
        self, config: BrokerConfig, cluster: Cluster, node_id: int, purgatory: Purgatory, counters: BrokerCounters
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._node_id = node_id
        self._purgatory = purgatory
        self._counters = counters
        self._coordinator: Coordinator | None = None
        self._epochs: dict[int, int] = {}
        """Leader epoch in which this node loaded each partition: later epochs may have records of other nodes."""
        self._loading: dict[int, tuple[Iterator[list[LogItem]], Skipped]] = {}
        self._began_ms: dict[int, int] = {}
        self._unflushed: list[FlushTarget] = []
        self._notes: list[Note] = []

    @property
    def partition_count(self) -> int:
        """Number of partitions of ``__consumer_offsets``, or the configured number before the topic exists."""
        topic = self._cluster.topics.get(NAME)
        return len(topic.partitions) if topic is not None else self._config.offsets_topic_num_partitions

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def take_notes(self) -> list[Note]:
        """Return log lines about partitions of ``__consumer_offsets`` that could not be loaded."""
        notes, self._notes = self._notes, []
        return notes

    def serve(self, coordinator: Coordinator, now_ms: int) -> None:
        """Load the groups that this node coordinates, before the first request."""
        self._coordinator = coordinator
        replies = [*self.follow(now_ms), *self.load_rest(now_ms)]
        assert not replies, "the groups are loaded before the first request"

    def ensure(self, now_ms: int) -> Topic:
        topic = self._cluster.topics.get(NAME)
        if topic is not None:
            return topic
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(max(self._config.offsets_topic_segment_bytes, 1024)),
        }
        count = self._config.offsets_topic_num_partitions
        topic = self._cluster.topics.create(NAME, count, overrides, now_ms, internal=True)
        self._cluster.placements(topic)
        replies = [*self.follow(now_ms), *self.load_rest(now_ms)]
        assert not replies, "no request waits for a group in a new topic"
        return topic

    def take_unflushed(self) -> list[FlushTarget]:
        """Return the log offsets that must be flushed before the coordinator's latest responses are sent."""
        needs, self._unflushed = self._unflushed, []
        return needs

    def leader_of(self, partition: int, now_ms: int) -> int:
        """Return the node that coordinates the groups of a partition; NO_LEADER without a live replica."""
        return self._cluster.leader_of(self.ensure(now_ms), partition)

    def append(
        self,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Append the coordinator's records to a partition, as one batch. Raises ApiError."""
        topic = self._cluster.topics.get(NAME)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{NAME} does not exist")
        if not self._is_mine(topic, partition):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead {NAME}-{partition}")
        wall_ms = self._cluster.wall.at(now_ms)
        made = [NewRecord(key, value, (), wall_ms) for key, value in records]
        if producer is None:
            batch = build_batch(made)
        else:
            batch = build_batch(
                made, producer_id=producer.producer_id, producer_epoch=producer.epoch, is_transactional=True
            )
        log = topic.partitions[partition]
        appended = log.append(batch, now_ms, from_client=False)
        if appended.awaits_flush:
            self._unflushed.append((log, appended.last_offset))
        self._purgatory.appended((topic.topic_id, partition), len(batch))

    def _is_mine(self, topic: Topic, partition: int) -> bool:
        """Return True if this node leads the partition, in the leader epoch in which it loaded the partition."""
        if self._cluster.is_alone:
            return True
        epoch = topic.partitions[partition].leader_epoch
        return self._cluster.leader_of(topic, partition) == self._node_id and epoch == self._epochs.get(partition)

    # ---------------------------------------------------------------- loading and unloading

    def follow(self, now_ms: int) -> list[Reply]:
        """Unload partitions that this node no longer leads; start to load partitions that it leads now."""
        assert self._coordinator is not None, "serve() comes first"
        topic = self._cluster.topics.get(NAME)
        replies: list[Reply] = []
        if topic is None:
            return replies
        for partition, log in enumerate(topic.partitions):
            here = self._coordinator.coordinates(partition)
            if here and not self._is_mine(topic, partition):
                self._loading.pop(partition, None)
                self._epochs.pop(partition, None)
                replies += self._coordinator.unload(partition, now_ms)
                here = False
            if here or not self._cluster.has_place(topic, partition):
                continue
            if self._cluster.leader_of(topic, partition) == self._node_id:
                self._epochs[partition] = log.leader_epoch
                self._coordinator.start_loading(partition)
                if not log.log_end_offset:  # a partition without records needs no loading
                    self._counters.loaded(0)
                    replies += self._coordinator.finish_loading(partition, now_ms)
                    continue
                skipped = Skipped()
                self._loading[partition] = slices_of(log, skipped), skipped
                self._began_ms[partition] = now_ms
        return replies

    def load_rest(self, now_ms: int) -> list[Reply]:
        """Load all remaining records of the ``__consumer_offsets`` partitions that are being loaded."""
        replies: list[Reply] = []
        while self._loading:
            replies += self.load_some(now_ms)
        return replies

    def load_some(self, now_ms: int) -> list[Reply]:
        """Load some records of one ``__consumer_offsets`` partition.

        Requests of groups in a damaged partition get an error, as these groups are not coordinated.
        """
        assert self._coordinator is not None, "serve() comes first"
        for partition, (slices, skipped) in self._loading.items():
            try:
                some = next(slices)
            except StorageError as error:
                self._coordinator.refuse_loading(partition)
                self._notes.append(failure(f"the groups of {NAME}-{partition} cannot be coordinated: {error}"))
                del self._loading[partition]
                return []
            self._coordinator.load_some(partition, some, now_ms, skipped)
            if len(some) >= SLICE_RECORDS:
                return []
            del self._loading[partition]
            self._counters.loaded(now_ms - self._began_ms.pop(partition, now_ms))
            self._notes += skipped.notes(f"{NAME}-{partition}")
            return self._coordinator.finish_loading(partition, now_ms)
        return []

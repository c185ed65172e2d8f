"""``__consumer_offsets``: where the coordinator's records go, and where they are read from at start.

The coordinator is given ``append``; it knows no log. Loading hands it every record of a partition in order, so that a
broker goes on with the groups it had (facts 2.1, 2.18).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kohort.broker.purgatory import Purgatory
from kohort.config.broker import BrokerConfig
from kohort.coordinator.runtime import Coordinator
from kohort.errors import ApiError, CorruptLog, CorruptRecord, ErrorCode, StorageError
from kohort.log.partition import PartitionLog
from kohort.log.topics import Topic, Topics
from kohort.wire.record_batch import NewRecord, build_batch, check_crc, read_batch, split_batches

NAME: Final = "__consumer_offsets"
READ_BYTES: Final = 1 << 20
BATCH_MAX_BYTES: Final = 1 << 28
"""What one batch may hold once decompressed; the broker's own batches are not compressed."""


class OffsetsTopic:
    """The topic, once it exists, and its contact with the coordinator."""

    name = NAME

    def __init__(self, config: BrokerConfig, topics: Topics, purgatory: Purgatory) -> None:
        self._config = config
        self._topics = topics
        self._purgatory = purgatory
        self._coordinator: Coordinator | None = None
        self.notes: list[str] = []
        """What went wrong while loading, for the broker's log."""

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, or will have; groups are placed by this number."""
        topic = self._topics.get(NAME)
        return len(topic.partitions) if topic is not None else self._config.offsets_topic_num_partitions

    def serve(self, coordinator: Coordinator, now_ms: int) -> None:
        """Give the coordinator what the log holds of its groups; the broker calls this before it serves anyone."""
        self._coordinator = coordinator
        topic = self._topics.get(NAME)
        if topic is not None:
            self._load(topic, now_ms)

    def ensure(self, now_ms: int) -> Topic:
        """The topic; made now if it is not there yet. Raises ApiError or StorageError where it cannot be."""
        topic = self._topics.get(NAME)
        if topic is not None:
            return topic
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(max(self._config.offsets_topic_segment_bytes, 1024)),
        }
        count = self._config.offsets_topic_num_partitions
        topic = self._topics.create(NAME, count, overrides, now_ms, internal=True)
        self._load(topic, now_ms)
        return topic

    def append(self, partition: int, records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> None:
        """Append ``records`` as one batch, whole or not at all: the coordinator's ``AppendRecords``."""
        topic = self._topics.get(NAME)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{NAME} does not exist yet")
        batch = build_batch([NewRecord(key, value, (), now_ms) for key, value in records])
        topic.partitions[partition].append(batch, now_ms, from_client=False)
        self._purgatory.appended((topic.topic_id, partition), len(batch))

    def _load(self, topic: Topic, now_ms: int) -> None:
        """A partition that cannot be understood is not coordinated; the others are."""
        assert self._coordinator is not None, "serve() comes first"
        for partition, log in enumerate(topic.partitions):
            self._coordinator.start_loading(partition)
            try:
                replies = self._coordinator.load(partition, records_of(log), now_ms)
            except StorageError as error:
                self.notes.append(f"the groups of {NAME}-{partition} cannot be coordinated: {error}")
                continue
            assert not replies, "nobody has asked anything yet"


def records_of(log: PartitionLog) -> Iterator[tuple[bytes, bytes | None]]:
    """Every record of a log as key and value, oldest first. Raises CorruptLog for a batch that fails its checks."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            chunk = b"".join(log.read(offset, READ_BYTES))
            before = offset
            for at, header in split_batches(chunk):
                offset = header.next_offset
                if header.is_control:
                    continue
                check_crc(chunk, at, header)
                for record in read_batch(chunk, at, max_bytes=BATCH_MAX_BYTES):
                    if record.key is not None:
                        yield record.key, record.value
        except (CorruptRecord, ApiError) as error:
            raise CorruptLog(f"{log.tp} at offset {offset}: {error}") from error
        if offset == before:
            raise CorruptLog(
                f"{log.tp} at offset {offset}: no whole batch, though the log ends at {log.log_end_offset}"
            )

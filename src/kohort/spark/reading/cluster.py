"""Interface between the Spark source and a Kafka cluster, and its implementation with kohort's clients.

Tests implement ``SourceCluster`` without a broker. Each worker process keeps its clients. Spark reuses worker
processes, so later tasks reuse the connections.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.config.client import AdminConfig
from kohort.config.options import options_of
from kohort.errors import ApiError, ErrorCode, KohortError, NoOffsetForPartition
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, Range

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.spark.options.source import SourceOptions

_POLL_MS: Final = 1000
_SAMPLE_BYTES: Final = 262_144
_LITTLE_BYTES: Final = 65_536


class RangeGone(KohortError):
    pass


class SourceCluster(Protocol):
    def topics(self) -> set[str]: ...
    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        """Return the partitions of topics; skip topics that do not exist."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets: ...
    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets: ...
    def at_times(self, times: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """Return the offset of each partition's first record at or after a timestamp in ms.

        Omit partitions without such a record.
        """

    def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes]:
        """Return the topic ids from the most recent metadata. A recreated topic has a new id."""

    def mean_bytes(self, tp: TopicPartition, offset: int) -> float:
        """Return the mean size of records from ``offset`` on, in bytes of key and value; 0 if there are no records."""

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]: ...
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...
    def wait_for_records(self, heads: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Wait for a record at or after the offset of any partition in ``heads``, up to ``timeout_ms``."""

    def fetch(self, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns of the records in an offset range. The last batch may extend beyond the range."""

    def close(self) -> None: ...


Connect = Callable[["SourceOptions"], SourceCluster]


class KohortCluster:
    def __init__(self, options: SourceOptions) -> None:
        self._settings: dict[str, Any] = {"client.id": "kohort-spark", **options.client}
        self._settings["bootstrap.servers"] = options.bootstrap_servers
        self._group_id = options.group_id
        self._patience_ms = options.poll_timeout_ms
        self._attempts = 1 + options.offset_retries
        self._retry_s = options.offset_retry_ms / 1000
        self._clients: dict[str, Any] = {}
        self._ids: dict[str, bytes] = {}
        self._mean_bytes: dict[str, float] = {}

    def topics(self) -> set[str]:
        return {topic.name for topic in self._admin.list_topics()}

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        described = self._admin.describe_topics(list(topics))
        for error in described.errors.values():
            if not (isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise error
        found = [described[topic] for topic in described if topic not in described.errors]
        self._ids |= {topic.name: topic.topic_id for topic in found}
        return {TopicPartition(topic.name, p.partition) for topic in found for p in topic.partitions}

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._listed(dict.fromkeys(partitions, "earliest"))

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        return self._listed(dict.fromkeys(partitions, "latest"))

    def at_times(self, times: Mapping[TopicPartition, int]) -> PartitionOffsets:
        return {tp: offset for tp, offset in self._listed(dict(times)).items() if offset >= 0}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes]:
        return {topic: self._ids[topic] for topic in topics if topic in self._ids}

    def mean_bytes(self, tp: TopicPartition, offset: int) -> float:
        limit = {"fetch.max.bytes": _SAMPLE_BYTES, "max.partition.fetch.bytes": _SAMPLE_BYTES}
        consumer = self._consumer("sample", {**limit, "auto.offset.reset": "none"})
        consumer.assign([tp])
        try:
            consumer.seek(tp, offset)
            table = consumer.poll_arrow(_POLL_MS, columns=["key", "value"])
        except NoOffsetForPartition:
            return 0.0
        finally:
            consumer.unsubscribe()
        return float(table.nbytes / table.num_rows) if table.num_rows else 0.0

    def _listed(self, places: Mapping[TopicPartition, int | str]) -> PartitionOffsets:
        if not places:
            return {}
        isolation = self._settings.get("isolation.level", "read_uncommitted")
        attempts = 0
        while True:
            try:
                listed = self._admin.list_offsets(places, isolation_level=isolation).check()
            except KohortError as error:
                attempts += 1
                if not error.retriable or attempts == self._attempts:
                    raise
                time.sleep(self._retry_s)
            else:
                return {tp: found.offset for tp, found in listed.items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        found = self._admin.list_group_offsets(self._group_id, list(partitions)).check()
        return {tp: offset for tp, offset in found.items() if offset is not None and offset.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if not offsets:
            return
        # OffsetCommit without a member id is accepted only while the group has no members
        # (protocol/offsets.md#offsetcommit).
        try:
            self._admin.alter_group_offsets(self._group_id, dict(offsets))
        except ApiError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                raise ApiError(
                    error.code,
                    f"group {self._group_id} has members, so a query outside of the group cannot commit: give "
                    "this query its own group.id",
                ) from error
            raise

    def wait_for_records(self, heads: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        if not heads or timeout_ms <= 0:
            return
        # Fetch as few bytes as possible: only the arrival of a record matters.
        consumer = self._consumer("idle", {"fetch.max.bytes": 1, "max.partition.fetch.bytes": 1})
        if consumer.assignment() != set(heads):
            consumer.assign(list(heads))
        for tp, head in heads.items():
            consumer.seek(tp, head)
        consumer.poll(timeout_ms, max_records=1)

    def fetch(self, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        consumer = self._reader(wanted)
        tp = TopicPartition(wanted.topic, wanted.partition)
        consumer.assign([tp])
        consumer.seek(tp, wanted.start)
        at = wanted.start
        idle_ms = 0
        try:
            while at < wanted.end:
                table = consumer.poll_arrow(_POLL_MS, columns=columns, max_bytes=1)
                position = consumer.position(tp)
                if position == at and not table.num_rows:
                    idle_ms += _POLL_MS
                    if idle_ms >= self._patience_ms:
                        raise RangeGone(
                            f"{wanted}: the broker returned no records from offset {at} on within {idle_ms / 1000:g} s"
                        )
                    continue
                at, idle_ms = position, 0
                if "value" in columns and table.num_rows:
                    self._mean_bytes[wanted.topic] = table.nbytes / table.num_rows
                yield from table.to_batches()
        except (NoOffsetForPartition, ApiError) as error:
            if isinstance(error, ApiError) and error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            raise RangeGone(f"{wanted}: the broker no longer has offset {at}") from error
        finally:
            consumer.unsubscribe()

    def _reader(self, wanted: Range) -> Consumer:
        """Return a consumer for an offset range. For a small range, it fetches few bytes at a time."""
        settings: dict[str, Any] = {"auto.offset.reset": "none"}
        mean = self._mean_bytes.get(wanted.topic)
        if mean is None or mean * (wanted.end - wanted.start) > _LITTLE_BYTES / 2:
            return self._consumer("fetch", settings)
        # A large fetch returns many records beyond the range. For a task with 100 rows, this doubles the work.
        for name in ("fetch.max.bytes", "max.partition.fetch.bytes"):
            settings[name] = min(int(self._settings.get(name, _LITTLE_BYTES)), _LITTLE_BYTES)
        return self._consumer("fetch little", settings)

    def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    @property
    def _admin(self) -> Admin:
        if "admin" not in self._clients:
            from kohort.aio.admin import Admin

            known = {o.name for o in options_of(AdminConfig)}
            self._clients["admin"] = Admin(**{k: v for k, v in self._settings.items() if k in known})
        admin: Admin = self._clients["admin"]
        return admin

    def _consumer(self, use: str, settings: dict[str, Any]) -> Consumer:
        if use not in self._clients:
            from kohort.aio.consuming.consumer import Consumer

            self._clients[use] = Consumer(**(self._settings | settings))
        consumer: Consumer = self._clients[use]
        return consumer


_clusters: dict[tuple[Any, ...], SourceCluster] = {}


def connect(options: SourceOptions) -> SourceCluster:
    """Return the cluster connection for the options of a read.

    All tasks in a process share the connection, since Spark reuses worker processes.
    """
    key = (os.getpid(), options.bootstrap_servers, options.group_id, tuple(sorted(options.client.items())))
    if key not in _clusters:
        _clusters[key] = KohortCluster(options)
    return _clusters[key]


def selected_partitions(
    cluster: SourceCluster, options: SourceOptions, *, absent_ok: bool = False
) -> set[TopicPartition]:
    """Return the existing partitions that the options of a read select.

    Raises ApiError if an option names a missing topic or partition, except with ``absent_ok``.
    """
    if options.subscribe_pattern:
        whole = re.compile(options.subscribe_pattern)
        return cluster.partitions(t for t in sorted(cluster.topics()) if whole.fullmatch(t))
    topics = options.subscribe or tuple(options.assign)
    found = cluster.partitions(topics)
    absent = sorted(set(topics) - {tp.topic for tp in found})
    if absent and not absent_ok:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the read names topics that do not exist: {', '.join(absent)}"
        )
    if not options.assign:
        return found
    chosen = {TopicPartition(t, p) for t, partitions in options.assign.items() for p in partitions}
    if chosen - found and not absent_ok:
        names = ", ".join(map(str, sorted(chosen - found)))
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partitions in the option assign do not exist: {names}")
    return chosen & found

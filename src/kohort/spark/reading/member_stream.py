"""Streaming reader of ``group.mode=member``: several queries in one group share the partitions of their topics.

The offsets of such a query contain exactly its assigned partitions. A micro-batch reads the partitions that are in both
its start and its end offsets. A newly assigned or revoked partition is in only one of the two, so this micro-batch
reads none of its records. A micro-batch that Spark repeats reads the same records, unless another query has become the
owner of a partition.

Before Spark plans a micro-batch, the member commits the start and end offsets of the micro-batch in its generation
(group_commits.py). The commit of a fenced member is rejected, and the member plans nothing until it has rejoined. A
rebalance waits for the micro-batch in flight, up to ``max.poll.interval.ms``.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kohort.errors import CommitFailed, ConfigError, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import PartitionOffsets
from kohort.spark.options.source import SourceOptions
from kohort.spark.reading import group_commits
from kohort.spark.reading.bounds import resolve
from kohort.spark.reading.cluster import Connect, connect, selected_partitions
from kohort.spark.reading.group_commits import CommitMark, PartitionStart
from kohort.spark.reading.log_changes import TopicIds, ids_of, partitions_of, with_ids
from kohort.spark.reading.ranges import ReadTask
from kohort.spark.reading.stream import KohortStreamReader
from kohort.spark.values.row_builders import RowBuilder

log = logging.getLogger(__name__)

OnRevoked = Callable[[Collection[TopicPartition]], None]
"""Callback with revoked partitions. The member still owns the partitions and can commit their offsets."""
_CLOSE_MS: Final = 5_000


class GroupMembership(Protocol):
    @property
    def assigned(self) -> set[TopicPartition]: ...

    def poll(self, wait_ms: int, on_revoked: OnRevoked) -> set[TopicPartition]:
        """Poll the consumer for up to ``wait_ms``, so that a rebalance can continue.

        Returns the newly assigned partitions.
        """

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets in the member's generation. Raises CommitFailed if the member is fenced."""

    def close(self) -> None: ...


class DriverMembership:
    """Group membership of the driver: a consumer that subscribes to the query's topics and pauses all partitions."""

    def __init__(self, options: SourceOptions) -> None:
        import re

        from kohort.aio.consuming.consumer import Consumer

        # In a cooperative rebalance, members keep partitions and micro-batches continue (KIP-429, KIP-848).
        assigns = options.client.get("group.protocol") != "consumer"
        settings: dict[str, Any] = {
            "client.id": "kohort-spark",
            **({"partition.assignment.strategy": "cooperative-sticky"} if assigns else {}),
            **options.client,
            "bootstrap.servers": options.bootstrap_servers,
            "group.id": options.group_id,
            "enable.auto.commit": False,
        }
        self.assigned: set[TopicPartition] = set()
        self._new: set[TopicPartition] = set()
        self._on_revoked: OnRevoked = lambda _: None
        self._consumer = Consumer(settings)
        topics = re.compile(options.subscribe_pattern) if options.subscribe_pattern else options.subscribe
        self._consumer.subscribe(topics, self)
        _exit_on_sigterm()

    def poll(self, wait_ms: int, on_revoked: OnRevoked) -> set[TopicPartition]:
        self._on_revoked, self._new = on_revoked, set()
        try:
            self._consumer.poll(wait_ms, max_records=1)
        except KohortError as error:
            if not error.retriable:
                raise
            log.warning("group %s: %s; retrying at the next trigger", self._consumer.config.group_id, error)
        return self._new & self.assigned

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._consumer.commit(dict(offsets))

    def close(self) -> None:
        self._consumer.close(timeout_ms=_CLOSE_MS)

    # Rebalance callbacks, which the consumer calls in poll()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._consumer.pause(partitions)
        self.assigned |= set(partitions)
        self._new |= set(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        try:
            self._on_revoked(partitions)
        finally:
            self.assigned -= set(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        names = ", ".join(map(str, sorted(partitions)))
        log.warning(
            "group %s: this query was removed from the group and lost %s", self._consumer.config.group_id, names
        )
        self.assigned -= set(partitions)


def _exit_on_sigterm() -> None:
    """Exit at SIGTERM, so that the member leaves the group. Spark sends SIGTERM when the query stops."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


class MemberStreamReader(KohortStreamReader):
    """Reader of one streaming query in member mode. The reader joins the group when it plans its first micro-batch."""

    def __init__(
        self,
        options: SourceOptions,
        builder: RowBuilder,
        connect: Connect = connect,
        join: Callable[[SourceOptions], GroupMembership] = DriverMembership,
    ) -> None:
        super().__init__(options, builder, connect)
        self._join = join
        self._joined: GroupMembership | None = None
        self._query = (
            uuid.uuid4().int >> 75
        )  # 53 bits: JSON parsers with double-precision numbers keep such a number exact
        self._active: set[TopicPartition] = set()
        self._redelivered_below: PartitionOffsets = {}
        self._committed_marks: dict[TopicPartition, OffsetAndMetadata] = {}
        self._commit_failed = False

    @property
    def _member(self) -> GroupMembership:
        if self._joined is None:
            self._joined = self._join(self._options)
        return self._joined

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return no offsets. A later micro-batch adds each assigned partition at its committed offset."""
        return group_commits.with_query(self._query, {})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        raise ConfigError(
            "group.mode=member is only for continuous queries: a rebalance would change the end of "
            "an available-now run. Use trigger(processingTime=...), or group.mode=standalone"
        )

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self._query = group_commits.query_of(start) or self._query
        done = partitions_of(start)
        member = self._member
        wait_ms = self._options.idle_wait_ms if self._commit_failed or not member.assigned else 0
        new = member.poll(wait_ms, lambda revoked: self._commit_revoked(done, revoked))
        self._active = (self._active & member.assigned & done.keys()) - new
        if new:
            self._committed_marks = {}  # another query may have replaced the marks
        begin, entering = self._enter(member.assigned - self._active, done)
        begin |= {tp: done[tp] for tp in self._active}
        end = self._end(begin, limit, ids_of(start)) | entering
        self._commit_failed = not self._commit_marks(begin | entering, end)
        if self._commit_failed:
            return dict(start)
        self._active = set(end)
        self._planned_end = with_ids(group_commits.with_query(self._query, end), ids_of(start) | self._ids_now(end))
        return self._planned_end

    def _end(self, begin: PartitionOffsets, limit: ReadLimit, before: TopicIds) -> PartitionOffsets:
        heads = self._end_of_log(begin)
        begin |= self._changes.starts_after_loss(self._cluster, begin, heads, before)
        heads = {tp: head for tp, head in heads.items() if tp in begin}
        if not isinstance(limit, ReadAllAvailable):
            heads = self._limits.end(self._cluster, begin, heads, finite=False)
        return {tp: max(offset, heads.get(tp, offset)) for tp, offset in begin.items()}

    def _read_heads(self, begin: PartitionOffsets) -> PartitionOffsets:
        wanted = selected_partitions(self._cluster, self._options, absent_ok=True)
        return self._cluster.latest(wanted & begin.keys())

    # Methods for newly assigned and revoked partitions

    def _enter(
        self, fresh: Iterable[TopicPartition], done: PartitionOffsets
    ) -> tuple[PartitionOffsets, PartitionOffsets]:
        """Divide newly assigned partitions into two dicts with their start offsets.

        The first dict has the partitions that start at their offset in the checkpoint. The second dict has the
        partitions that the checkpoint lacks. A partition with any other start offset is in neither dict: the next
        micro-batch omits the partition.
        """
        starts = self._starts(sorted(fresh), done)
        for tp, found in starts.items():
            self._redelivered_below[tp] = found.redelivered_below
        begin = {tp: found.start for tp, found in starts.items() if done.get(tp) == found.start}
        entering = {tp: found.start for tp, found in starts.items() if tp not in done}
        if entering:
            log.info(
                "partitions new in this query: %s", ", ".join(f"{tp} from {offset}" for tp, offset in entering.items())
            )
        return begin, entering

    def _starts(self, fresh: list[TopicPartition], done: PartitionOffsets) -> dict[TopicPartition, PartitionStart]:
        if not fresh:
            return {}
        held = self._cluster.committed(fresh)
        found = {tp: group_commits.partition_start(held[tp], self._query, done.get(tp)) for tp in fresh if tp in held}
        rest = [tp for tp in fresh if tp not in held]
        if rest:
            starts = resolve(self._cluster, rest, self._options.group_fallback, "startingOffsets", {})
            found |= {tp: PartitionStart(offset, 0) for tp, offset in starts.items()}
        return found

    def _commit_revoked(self, done: PartitionOffsets, revoked: Collection[TopicPartition]) -> None:
        """Commit the completed offsets of revoked partitions.

        The marks keep the end of a micro-batch that is planned and not completed, because some of its rows may have
        been delivered. They also keep the rows that an earlier owner may have delivered.
        """
        planned = partitions_of(self._planned_end or {})
        offsets = {
            tp: OffsetAndMetadata(done[tp], str(self._mark(tp, max(done[tp], planned.get(tp, 0)))))
            for tp in revoked
            if tp in self._active and tp in done
        }
        if not offsets:
            return
        try:
            self._member.commit(offsets)
        except KohortError as error:
            log.warning(
                "%s revoked without a commit, the next owner reads the last micro-batch again: %s",
                sorted(revoked),
                error,
            )

    def _mark(self, tp: TopicPartition, end: int) -> CommitMark:
        return CommitMark(self._query, max(end, self._redelivered_below.get(tp, 0)))

    def _commit_marks(self, begin: PartitionOffsets, end: PartitionOffsets) -> bool:
        marks = {tp: OffsetAndMetadata(begin[tp], str(self._mark(tp, end[tp]))) for tp in end}
        if not marks or marks == self._committed_marks:
            return True
        try:
            self._member.commit(marks)
        except CommitFailed as error:
            log.warning(
                "group %s: the commit was rejected, no micro-batch is planned: %s", self._options.group_id, error
            )
            return False
        except KohortError as error:
            log.info("group %s: the commit failed, no micro-batch is planned yet: %s", self._options.group_id, error)
            return False
        self._committed_marks = marks
        return True

    # Methods that Spark calls to plan the tasks of a micro-batch

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
        begin, upto = partitions_of(start), partitions_of(end)
        begin |= self._starts_of_replaced(begin, start, end)
        both = begin.keys() & upto.keys()
        if end == self._planned_end:
            again = self._redelivered_below = {
                tp: offset for tp, offset in self._redelivered_below.items() if tp not in begin or offset > begin[tp]
            }
        else:  # an earlier process of this query planned the micro-batch and did not complete it
            both = self._still_owned(group_commits.query_of(end), both & self._without_recreated(upto, end).keys())
            again = upto
        return self._plan({tp: begin[tp] for tp in both}, {tp: upto[tp] for tp in both}, again)

    def _still_owned(self, query: int | None, partitions: set[TopicPartition]) -> set[TopicPartition]:
        held = self._cluster.committed(partitions) if partitions else {}
        marks = {tp: group_commits.parse_mark(o.metadata) for tp, o in held.items()}
        taken = {tp for tp, mark in marks.items() if mark is not None and mark.query != query}
        if taken:
            names = ", ".join(map(str, sorted(taken)))
            log.warning("partitions of another query, not read again by the repeated micro-batch: %s", names)
        return partitions - taken

    def stop(self) -> None:
        member, self._joined = self._joined, None
        if member is not None:
            member.close()
        super().stop()

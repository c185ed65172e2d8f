"""Queries that are members of one group: the records that each query reads, also after a partition moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kohort.errors import CommitFailed, ConfigError, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.source import parse_source_options
from kohort.spark.reading.group_commits import parse_mark
from kohort.spark.reading.member_stream import MemberStreamReader, OnRevoked
from kohort.spark.reading.ranges import DataLost
from kohort.spark.reading.stream import KohortStreamReader
from kohort.spark.values.row_builders import RecordRowBuilder
from support.spark.dictionary_cluster import DictionaryCluster

ALL = ReadAllAvailable()
ROWS = RecordRowBuilder(("partition", "offset", "redelivered"))
P0, P1 = (TopicPartition("orders", n) for n in range(2))


class FakeMembership:
    """Fake group membership that a test controls. Commits go to the ``group`` of the fake cluster."""

    def __init__(self, cluster: DictionaryCluster) -> None:
        self.assigned: set[TopicPartition] = set()
        self.fenced = False
        self._cluster = cluster
        self._next: set[TopicPartition] | None = None
        self._on_revoked: OnRevoked = lambda _: None

    def assign_next(self, *partitions: TopicPartition) -> None:
        """Set the assignment that the next poll returns."""
        self._next = set(partitions)

    def fence(self) -> None:
        """Remove the member from the group; the member notices at its next request."""
        self.fenced = True

    def poll(self, wait_ms: int, on_revoked: OnRevoked) -> set[TopicPartition]:
        self._on_revoked = on_revoked
        if self.fenced:
            self.assigned, self.fenced = set(), False
            return set()
        if self._next is None:
            return set()
        assigned, self._next = self._next, None
        on_revoked(self.assigned - assigned)
        new = assigned - self.assigned
        self.assigned = assigned
        return new

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.fenced:
            raise CommitFailed("the group has rebalanced without this member")
        self._cluster.commit(offsets)

    def close(self) -> None:
        self._on_revoked(self.assigned)
        self.assigned = set()


class Query:
    """Simulated Spark query. Its checkpoint and its delivered rows survive a restart."""

    def __init__(self, cluster: DictionaryCluster, most_rows: int | None = None, **options: str) -> None:
        all_options = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", "group.id": "g", "group.mode": "member"}
        if most_rows is not None:
            all_options["maxOffsetsPerTrigger"] = str(most_rows)
        self._limit = ALL if most_rows is None else ReadMaxRows(most_rows)
        self._options = parse_source_options(all_options | {"idleWaitMs": "0"} | options, streaming=True)
        self._cluster = cluster
        self.rows: list[tuple[int, int]] = []
        self.again: list[tuple[int, int]] = []
        self.completed: Any = None
        self.planned: tuple[Any, Any] | None = None
        self.restart()

    def restart(self) -> None:
        self.member = FakeMembership(self._cluster)
        self.reader = MemberStreamReader(self._options, ROWS, lambda _: self._cluster, lambda _: self.member)
        if self.completed is None:
            self.completed = self.reader.initialOffset()
        if self.planned is not None:
            self.read()

    def stop(self) -> None:
        self.reader.stop()

    def plan(self) -> bool:
        end = self.reader.latestOffset(self.completed, self._limit)
        self.planned = None if end == self.completed else (self.completed, end)
        return self.planned is not None

    def read(self) -> list[tuple[int, int]]:
        assert self.planned is not None
        rows = [r for t in self.reader.partitions(*self.planned) for b in self.reader.read(t) for r in b.to_pylist()]
        found = [(r["partition"], r["offset"]) for r in rows]
        self.again += [(r["partition"], r["offset"]) for r in rows if r["redelivered"]]
        self.rows += found
        self.completed, self.planned = self.planned[1], None
        return found

    def run_until_idle(self) -> None:
        while self.plan():
            self.read()

    def assign(self, *partitions: TopicPartition) -> Query:
        self.member.assign_next(*partitions)
        return self


def test_recreated_topic_ends_a_member_query_unless_fail_on_data_loss_is_false() -> None:
    for options in ({}, {"failOnDataLoss": "false"}):
        cluster = DictionaryCluster(p0=list(range(50)))
        cluster.incarnation = b"1"
        query = Query(cluster, **options).assign(P0)
        query.run_until_idle()
        cluster.incarnation = b"2"
        cluster.logs[P0], cluster.ends[P0] = [], 0
        cluster.append(P0, 80)
        query.restart()
        query.assign(P0)

        if not options:
            with pytest.raises(DataLost, match="topics recreated since the last micro-batch: orders"):
                query.run_until_idle()
            continue
        query.run_until_idle()
        assert query.rows == pairs(0, range(50)) + pairs(0, range(80))


def pairs(partition: int, offsets: Collection[int]) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in offsets]


def test_queries_of_one_group_read_only_assigned_partitions_and_continue_moved_partitions() -> None:
    cluster = DictionaryCluster(p0=list(range(5)), p1=list(range(3)))
    left, right = Query(cluster).assign(P0, P1), Query(cluster)
    left.run_until_idle()
    right.run_until_idle()
    assert sorted(left.rows) == pairs(0, range(5)) + pairs(1, range(3))

    left.assign(P0).run_until_idle()
    right.assign(P1).run_until_idle()
    cluster.append(P0, 2)
    cluster.append(P1, 2)
    left.run_until_idle()
    right.run_until_idle()

    assert left.rows[8:] == pairs(0, [5, 6])
    assert right.rows == pairs(1, [3, 4])
    assert left.again == right.again == []
    assert {tp.partition: o.offset for tp, o in cluster.group.items()} == {0: 7, 1: 5}


def test_member_query_commits_start_and_end_of_a_micro_batch_before_it_reads_records() -> None:
    cluster = DictionaryCluster(p0=list(range(9)))
    query = Query(cluster, most_rows=4).assign(P0)
    query.plan()
    query.read()

    query.plan()

    mark = parse_mark(cluster.group[P0].metadata)
    assert cluster.group[P0].offset == 0
    assert mark is not None
    assert mark.upto == 4


def test_fenced_query_plans_no_micro_batch_and_later_continues_at_the_committed_offsets() -> None:
    cluster = DictionaryCluster(p0=list(range(3)))
    slow, other = Query(cluster).assign(P0), Query(cluster)
    slow.run_until_idle()
    cluster.append(P0, 2)
    assert slow.plan()

    slow.member.fence()
    other.assign(P0).run_until_idle()
    slow.read()
    cluster.append(P0, 4)
    slow.member.poll = lambda wait_ms, on_revoked: set()  # type: ignore[method-assign]  # the query has not noticed that it was fenced
    committed = dict(cluster.group)
    assert not slow.plan(), "the commit of the fenced query is rejected"
    assert cluster.group == committed
    del slow.member.poll  # type: ignore[attr-defined]  # it notices now
    slow.run_until_idle()
    assert P0 not in slow.member.assigned

    other.run_until_idle()
    slow.assign(P0)
    other.assign().run_until_idle()
    cluster.append(P0, 1)
    slow.run_until_idle()

    assert slow.rows == pairs(0, [0, 1, 2, 3, 4, 9]), "offsets 5 to 8 were read by the other query"
    assert other.rows == pairs(0, range(3, 9))
    assert other.again == pairs(0, [3, 4]), "rows of the micro-batch that the fenced query had begun"


def test_takeover_of_a_killed_query_repeats_its_micro_batch_and_marks_rows_as_redelivered() -> None:
    cluster = DictionaryCluster(p0=list(range(6)))
    killed, other = Query(cluster, most_rows=4).assign(P0), Query(cluster)
    killed.plan()
    killed.read()
    assert killed.plan()  # a micro-batch with offsets [0, 4) is in flight

    other.assign(P0).run_until_idle()

    assert other.rows == pairs(0, range(6))
    assert other.again == pairs(0, range(4))


def test_takeover_of_a_query_stopped_during_a_micro_batch_marks_its_rows_as_redelivered() -> None:
    cluster = DictionaryCluster(p0=list(range(6)))
    stopped, other = Query(cluster, most_rows=4).assign(P0), Query(cluster)
    stopped.plan()
    stopped.read()
    assert stopped.plan()
    assert stopped.read() == pairs(0, range(4))

    stopped.stop()  # before the next plan, so offset 4 is not committed
    other.assign(P0).run_until_idle()

    assert other.rows == pairs(0, range(6))
    assert other.again == pairs(0, range(4))


def test_rows_of_a_killed_query_stay_marked_if_the_next_owner_reads_none_of_them() -> None:
    cluster = DictionaryCluster(p0=list(range(6)), p1=[0])
    killed, between, other = Query(cluster).assign(P0), Query(cluster), Query(cluster)
    killed.plan()
    killed.read()
    assert killed.plan()  # a micro-batch with offsets [0, 6) is in flight
    between.assign(P0, P1)
    assert between.plan()  # an empty micro-batch at the start offsets
    between.read()

    between.assign(P1).plan()
    other.assign(P0).run_until_idle()

    assert other.again == pairs(0, range(6))


def test_second_takeover_also_marks_rows_of_the_first_owner_as_redelivered() -> None:
    cluster = DictionaryCluster(p0=list(range(6)))
    first, second, third = Query(cluster).assign(P0), Query(cluster), Query(cluster)
    first.plan()
    first.read()
    assert first.plan()  # a micro-batch with offsets [0, 6) is in flight
    second.assign(P0)
    assert second.plan()  # the second owner plans an empty micro-batch

    third.assign(P0).run_until_idle()

    assert third.again == pairs(0, range(6))


def test_restarted_query_repeats_its_micro_batch_only_for_partitions_that_it_still_owns() -> None:
    cluster = DictionaryCluster(p0=list(range(4)), p1=list(range(4)))
    killed, other = Query(cluster).assign(P0, P1), Query(cluster)
    killed.plan()
    killed.read()
    assert killed.plan()

    other.assign(P1).run_until_idle()
    killed.restart()
    killed.assign(P0).run_until_idle()

    assert killed.rows == pairs(0, range(4))
    assert killed.again == pairs(0, range(4)), "rows of a repeated micro-batch are marked"
    assert other.rows == pairs(1, range(4))


def test_query_killed_between_a_micro_batch_and_its_commit_reads_no_record_twice() -> None:
    cluster = DictionaryCluster(p0=list(range(4)))
    query = Query(cluster).assign(P0)
    query.plan()
    query.read()
    query.plan()
    query.read()
    assert cluster.group[P0].offset == 0, "the micro-batch is complete but not committed"

    cluster.append(P0, 2)
    query.restart()
    query.assign(P0).run_until_idle()

    assert query.rows == pairs(0, range(6))
    assert cluster.group[P0].offset == 6


def test_restarted_query_uses_committed_offsets_that_were_reset_while_it_was_down() -> None:
    cluster = DictionaryCluster(p0=list(range(4)))
    query = Query(cluster).assign(P0)
    query.run_until_idle()

    cluster.group[P0] = OffsetAndMetadata(1)
    query.restart()
    query.assign(P0).run_until_idle()

    assert query.rows == pairs(0, [0, 1, 2, 3, 1, 2, 3])


def test_member_without_partitions_plans_no_micro_batch_and_group_fallback_latest_skips_old_records() -> None:
    cluster = DictionaryCluster(p0=list(range(4)))
    idle, from_the_end = Query(cluster), Query(cluster, groupFallback="latest").assign(P0)

    assert not idle.plan()
    from_the_end.run_until_idle()
    cluster.append(P0, 1)
    from_the_end.run_until_idle()

    assert from_the_end.rows == pairs(0, [4])


def test_available_now_in_member_mode_and_a_member_checkpoint_in_standalone_mode_are_rejected() -> None:
    cluster = DictionaryCluster(p0=[0])
    member = Query(cluster).assign(P0)
    member.run_until_idle()
    alone = KohortStreamReader(
        parse_source_options({"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}, streaming=True), ROWS
    )

    with pytest.raises(KohortError, match=r"made with group\.mode=member"):
        alone.latestOffset(member.completed, ALL)
    with pytest.raises(ConfigError, match="only for continuous queries"):
        member.reader.prepareForTriggerAvailableNow()

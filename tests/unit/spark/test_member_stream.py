"""Queries that share a topic as members of one group: who reads what, trigger by trigger, and what a takeover costs."""

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
from kohort.spark.reading.member_stream import GiveUp, MemberStreamReader
from kohort.spark.reading.ranges import DataLost
from kohort.spark.reading.stream import KohortStreamReader
from kohort.spark.values.row_builders import RecordRowBuilder
from support.spark.dictionary_cluster import DictionaryCluster

ALL = ReadAllAvailable()
ROWS = RecordRowBuilder(("partition", "offset", "redelivered"))
P0, P1 = (TopicPartition("orders", n) for n in range(2))


class PlayedMember:
    """A member whose group does as the test says; the cluster's dictionary is the group's offsets."""

    def __init__(self, cluster: DictionaryCluster) -> None:
        self.held: set[TopicPartition] = set()
        self.fenced = False
        self._cluster = cluster
        self._next: set[TopicPartition] | None = None

    def is_given(self, *partitions: TopicPartition) -> None:
        """The assignment that the next turn takes."""
        self._next = set(partitions)

    def is_out(self) -> None:
        """The group goes on without this member, which does not know yet."""
        self.fenced = True

    def poll(self, wait_ms: int, give_up: GiveUp) -> set[TopicPartition]:
        if self.fenced:
            self.held, self.fenced = set(), False
            return set()
        if self._next is None:
            return set()
        assigned, self._next = self._next, None
        give_up(self.held - assigned)
        came = assigned - self.held
        self.held = assigned
        return came

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.fenced:
            raise CommitFailed("the group has rebalanced without this member")
        self._cluster.commit(offsets)

    def close(self) -> None:
        self.held = set()


class Query:
    """One application: a checkpoint that outlives its processes, and what it has delivered."""

    def __init__(self, cluster: DictionaryCluster, most_rows: int | None = None, **options: str) -> None:
        given = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", "group.id": "g", "group.mode": "member"}
        if most_rows is not None:
            given["maxOffsetsPerTrigger"] = str(most_rows)
        self._limit = ALL if most_rows is None else ReadMaxRows(most_rows)
        self._options = parse_source_options(given | {"idleWaitMs": "0"} | options, streaming=True)
        self._cluster = cluster
        self.rows: list[tuple[int, int]] = []
        self.again: list[tuple[int, int]] = []
        self.completed: Any = None
        self.planned: tuple[Any, Any] | None = None
        self.starts()

    def starts(self) -> None:
        """A process begins: a micro-batch that was planned and not completed is read again."""
        self.member = PlayedMember(self._cluster)
        self.reader = MemberStreamReader(self._options, ROWS, lambda _: self._cluster, lambda _: self.member)
        if self.completed is None:
            self.completed = self.reader.initialOffset()
        if self.planned is not None:
            self.reads()

    def plans(self) -> bool:
        """A trigger; whether there is anything to do."""
        end = self.reader.latestOffset(self.completed, self._limit)
        self.planned = None if end == self.completed else (self.completed, end)
        return self.planned is not None

    def reads(self) -> list[tuple[int, int]]:
        """The micro-batch that was planned; it completes."""
        assert self.planned is not None
        rows = [r for t in self.reader.partitions(*self.planned) for b in self.reader.read(t) for r in b.to_pylist()]
        found = [(r["partition"], r["offset"]) for r in rows]
        self.again += [(r["partition"], r["offset"]) for r in rows if r["redelivered"]]
        self.rows += found
        self.completed, self.planned = self.planned[1], None
        return found

    def goes_on(self) -> None:
        """Triggers until nothing is left to do."""
        while self.plans():
            self.reads()

    def given(self, *partitions: TopicPartition) -> Query:
        self.member.is_given(*partitions)
        return self


def test_topic_created_again_between_two_runs_of_a_member_ends_it_or_is_read_from_its_beginning() -> None:
    for options in ({}, {"failOnDataLoss": "false"}):
        cluster = DictionaryCluster(p0=list(range(50)))
        cluster.incarnation = b"1"
        query = Query(cluster, **options).given(P0)
        query.goes_on()
        cluster.incarnation = b"2"
        cluster.logs[P0], cluster.ends[P0] = [], 0
        cluster.append(P0, 80)
        query.starts()
        query.given(P0)

        if not options:
            with pytest.raises(DataLost, match="topics recreated since the last micro-batch: orders"):
                query.goes_on()
            continue
        query.goes_on()
        assert query.rows == pairs(0, range(50)) + pairs(0, range(80))


def pairs(partition: int, offsets: Collection[int]) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in offsets]


def test_two_queries_read_what_they_were_given_and_a_partition_that_moves_is_read_on_by_the_other() -> None:
    cluster = DictionaryCluster(p0=list(range(5)), p1=list(range(3)))
    left, right = Query(cluster).given(P0, P1), Query(cluster)
    left.goes_on()
    right.goes_on()
    assert sorted(left.rows) == pairs(0, range(5)) + pairs(1, range(3))

    left.given(P0).goes_on()
    right.given(P1).goes_on()
    cluster.append(P0, 2)
    cluster.append(P1, 2)
    left.goes_on()
    right.goes_on()

    assert left.rows[8:] == pairs(0, [5, 6])
    assert right.rows == pairs(1, [3, 4])
    assert left.again == right.again == []
    assert {tp.partition: o.offset for tp, o in cluster.group.items()} == {0: 7, 1: 5}


def test_a_micro_batch_is_claimed_with_its_end_before_it_is_read() -> None:
    cluster = DictionaryCluster(p0=list(range(9)))
    query = Query(cluster, most_rows=4).given(P0)
    query.plans()
    query.reads()

    query.plans()

    mark = parse_mark(cluster.group[P0].metadata)
    assert cluster.group[P0].offset == 0
    assert mark is not None
    assert mark.upto == 4


def test_a_query_that_is_out_of_its_group_plans_nothing_and_goes_on_where_the_others_are() -> None:
    cluster = DictionaryCluster(p0=list(range(3)))
    slow, other = Query(cluster).given(P0), Query(cluster)
    slow.goes_on()
    cluster.append(P0, 2)
    assert slow.plans()

    slow.member.is_out()
    other.given(P0).goes_on()
    slow.reads()
    cluster.append(P0, 4)
    slow.member.poll = lambda wait_ms, give_up: set()  # type: ignore[method-assign]  # it has not heard yet
    committed = dict(cluster.group)
    assert not slow.plans(), "its commit is refused"
    assert cluster.group == committed
    del slow.member.poll  # type: ignore[attr-defined]  # now it has
    slow.goes_on()
    assert P0 not in slow.member.held

    other.goes_on()
    slow.given(P0)
    other.given().goes_on()
    cluster.append(P0, 1)
    slow.goes_on()

    assert slow.rows == pairs(0, [0, 1, 2, 3, 4, 9]), "what the other read meanwhile it does not read"
    assert other.rows == pairs(0, range(3, 9))
    assert other.again == pairs(0, [3, 4]), "the micro-batch that the slow one had begun"


def test_who_takes_over_from_a_killed_query_reads_its_micro_batch_again_and_says_which_rows() -> None:
    cluster = DictionaryCluster(p0=list(range(6)))
    killed, other = Query(cluster, most_rows=4).given(P0), Query(cluster)
    killed.plans()
    killed.reads()
    assert killed.plans()  # [0, 4) is under way

    other.given(P0).goes_on()

    assert other.rows == pairs(0, range(6))
    assert other.again == pairs(0, range(4))


def test_a_second_takeover_still_knows_what_the_first_had_under_way() -> None:
    cluster = DictionaryCluster(p0=list(range(6)))
    first, second, third = Query(cluster).given(P0), Query(cluster), Query(cluster)
    first.plans()
    first.reads()
    assert first.plans()  # [0, 6)
    second.given(P0)
    assert second.plans()  # it only came in

    third.given(P0).goes_on()

    assert third.again == pairs(0, range(6))


def test_a_killed_query_that_returns_repeats_only_what_nobody_has_taken_over() -> None:
    cluster = DictionaryCluster(p0=list(range(4)), p1=list(range(4)))
    killed, other = Query(cluster).given(P0, P1), Query(cluster)
    killed.plans()
    killed.reads()
    assert killed.plans()

    other.given(P1).goes_on()
    killed.starts()
    killed.given(P0).goes_on()

    assert killed.rows == pairs(0, range(4))
    assert killed.again == pairs(0, range(4)), "a repeated micro-batch says so"
    assert other.rows == pairs(1, range(4))


def test_a_query_killed_between_its_micro_batch_and_the_commit_reads_nothing_twice() -> None:
    cluster = DictionaryCluster(p0=list(range(4)))
    query = Query(cluster).given(P0)
    query.plans()
    query.reads()
    query.plans()
    query.reads()
    assert cluster.group[P0].offset == 0, "complete, and the group does not know"

    cluster.append(P0, 2)
    query.starts()
    query.given(P0).goes_on()

    assert query.rows == pairs(0, range(6))
    assert cluster.group[P0].offset == 6


def test_a_group_that_was_moved_by_hand_while_its_query_was_down_is_followed() -> None:
    cluster = DictionaryCluster(p0=list(range(4)))
    query = Query(cluster).given(P0)
    query.goes_on()

    cluster.group[P0] = OffsetAndMetadata(1)
    query.starts()
    query.given(P0).goes_on()

    assert query.rows == pairs(0, [0, 1, 2, 3, 1, 2, 3])


def test_without_partitions_a_query_does_nothing_and_without_a_commit_it_begins_as_told() -> None:
    cluster = DictionaryCluster(p0=list(range(4)))
    idle, from_the_end = Query(cluster), Query(cluster, groupFallback="latest").given(P0)

    assert not idle.plans()
    from_the_end.goes_on()
    cluster.append(P0, 1)
    from_the_end.goes_on()

    assert from_the_end.rows == pairs(0, [4])


def test_the_two_modes_do_not_go_on_with_each_others_checkpoints_by_mistake() -> None:
    cluster = DictionaryCluster(p0=[0])
    member = Query(cluster).given(P0)
    member.goes_on()
    alone = KohortStreamReader(
        parse_source_options({"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}, streaming=True), ROWS
    )

    with pytest.raises(KohortError, match=r"made with group\.mode=member"):
        alone.latestOffset(member.completed, ALL)
    with pytest.raises(ConfigError, match="for continuous queries"):
        member.reader.prepareForTriggerAvailableNow()

"""Reads and commits of a streaming query at each trigger, with a fake cluster."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: E402 - behind importorskip

from kohort.errors import ApiError, ConfigError, ConnectionFailed, KohortError  # noqa: E402 - behind importorskip
from kohort.model import OffsetAndMetadata, TopicPartition  # noqa: E402 - behind importorskip
from kohort.spark.options.offsets import Range  # noqa: E402 - behind importorskip
from kohort.spark.options.source import SourceOptions, parse_source_options  # noqa: E402 - behind importorskip
from kohort.spark.reading.ranges import DataLost, KohortBatchReader  # noqa: E402 - behind importorskip
from kohort.spark.reading.stream import KohortStreamReader  # noqa: E402 - behind importorskip
from kohort.spark.values.row_builders import RecordRowBuilder  # noqa: E402 - behind importorskip
from support.spark.dictionary_cluster import DictionaryCluster  # noqa: E402 - behind importorskip

ALL = ReadAllAvailable()
ROWS = RecordRowBuilder(("partition", "offset"))
P0, P1, P2 = (TopicPartition("orders", n) for n in range(3))


def stream_options(**options: str) -> SourceOptions:
    required = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}
    return parse_source_options(required | {n.replace("__", "."): v for n, v in options.items()}, streaming=True)


def stream(cluster: DictionaryCluster, **options: str) -> KohortStreamReader:
    return KohortStreamReader(stream_options(**options), ROWS, lambda _: cluster)


def batch(cluster: DictionaryCluster, **options: str) -> KohortBatchReader:
    all_options = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", **options}
    return KohortBatchReader(parse_source_options(all_options, streaming=False), ROWS, lambda _: cluster)


def offsets_read(reader: Any, tasks: Iterable[Any]) -> list[tuple[int, int]]:
    rows = [b.to_pylist() for task in tasks for b in reader.read(task)]
    return [(row["partition"], row["offset"]) for part in rows for row in part]


def committed(cluster: DictionaryCluster) -> dict[int, int]:
    return {tp.partition: offset.offset for tp, offset in sorted(cluster.group.items())}


def test_starting_offsets_of_a_stream_are_committed_to_the_group_before_the_first_read() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2], p1=[0])

    initial = stream(cluster, group__id="g", startingOffsets="latest").initialOffset()

    assert initial == {"orders": {"0": 3, "1": 1}}
    assert {o.metadata[:12] for o in cluster.group.values()} == {"kohort-init:"}


def test_retried_first_micro_batch_starts_at_its_committed_start_offsets() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2])
    options = {"group__id": "g", "startingOffsets": "latest"}
    first = stream(cluster, **options).initialOffset()

    cluster.append(P0, 5)
    again = stream(cluster, **options).initialOffset()

    assert again == first == {"orders": {"0": 3}}


def test_explicit_starting_offsets_override_committed_offsets() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2])
    cluster.group[P0] = OffsetAndMetadata(2)

    assert stream(cluster, group__id="g", startingOffsets="earliest").initialOffset() == {"orders": {"0": 0}}


def test_stream_starts_at_committed_offsets_or_at_group_fallback() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2], p1=[0, 1])
    cluster.group[P0] = OffsetAndMetadata(1)

    assert stream(cluster, group__id="g", groupFallback="earliest").initialOffset() == {"orders": {"0": 1, "1": 0}}
    cluster.group = {P0: OffsetAndMetadata(1)}
    assert stream(cluster, group__id="g").initialOffset() == {"orders": {"0": 1, "1": 2}}


def test_failed_commit_of_the_starting_offsets_stops_the_query() -> None:
    cluster = DictionaryCluster(p0=[0])
    cluster.refuse_commits = True

    with pytest.raises(ApiError, match="the group has members"):
        stream(cluster, group__id="g").initialOffset()


def test_error_of_a_missing_topic_names_the_topic() -> None:
    with pytest.raises(ApiError, match="topics that do not exist: orders"):
        stream(DictionaryCluster()).initialOffset()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group__id": "g"}, "group g has no offsets, .* after their 4 records. .* set groupFallback=earliest"),
        ({}, "no start is given, .* after their 4 records. .* set startingOffsets=earliest"),
        ({"group__id": "g", "startingOffsets": "earliest"}, ""),
        ({"group__id": "g", "groupFallback": "earliest"}, ""),
    ],
)
def test_available_now_query_that_starts_at_the_log_end_logs_a_warning(
    options: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(DictionaryCluster(p0=[0, 1, 2], p1=[0]), **options)
    reader.prepareForTriggerAvailableNow()
    begin = reader.initialOffset()
    reader.latestOffset(begin, ALL)
    reader.latestOffset(begin, ALL)

    warnings = [r.getMessage() for r in caplog.records if "no records to read" in r.getMessage()]
    assert len(warnings) == bool(message)
    assert re.search(message, " ".join(warnings))


def test_available_now_query_of_empty_or_growing_topics_logs_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for cluster, more in ((DictionaryCluster(p0=[]), 0), (DictionaryCluster(p0=[0]), 1)):
        reader = stream(cluster, group__id="g")
        reader.prepareForTriggerAvailableNow()
        begin = reader.initialOffset()
        cluster.append(P0, more)
        reader.latestOffset(begin, ALL)

    assert not caplog.records


def test_end_of_a_completed_micro_batch_is_committed_and_the_lag_becomes_0() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2], p1=[0])
    reader = stream(cluster, group__id="g", startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()

    end = reader.latestOffset(start, ALL)
    assert committed(cluster) == {0: 0, 1: 0}, "no micro-batch is complete"
    assert len(offsets_read(reader, reader.partitions(start, end))) == 4
    assert reader.latestOffset(end, ALL) == end, "the same end offsets end the query"

    assert committed(cluster) == {0: 3, 1: 1}
    assert {o.metadata[:13] for o in cluster.group.values()} == {"kohort-query:"}


def test_metadata_of_a_commit_ends_with_the_owner_of_the_group() -> None:
    options = {"group__id": "g", "startingOffsets": "latest", "groupOwner": "1f3c9a2b.orders.-.%2Fstate"}
    cluster = DictionaryCluster(p0=[0, 1, 2])
    cluster.group[P0] = OffsetAndMetadata(1, f"{stream_options(**options).pin}:{options['groupOwner']}")
    reader = stream(cluster, **options)

    start = reader.initialOffset()
    assert start == {"orders": {"0": 1}}
    end = reader.latestOffset(start, ALL)
    reader.partitions(start, end)
    reader.latestOffset(end, ALL)
    assert re.fullmatch(r"kohort-query:[^:]+:\d+:\d+:1f3c9a2b\.orders\.-\.%2Fstate", cluster.group[P0].metadata)

    cluster.group = {}
    assert stream(cluster, **options).initialOffset() == {"orders": {"0": 3}}
    assert cluster.group[P0].metadata == f"{stream_options(**options).pin}:1f3c9a2b.orders.-.%2Fstate"
    cluster.append(P0, 5)
    assert stream(cluster, **options).initialOffset() == {"orders": {"0": 3}}


def test_failed_commit_is_retried_at_the_next_trigger() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2])
    reader = stream(cluster, group__id="g", startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.partitions(reader.initialOffset(), end)

    cluster.refuse_commits = True
    reader.latestOffset(end, ALL)
    assert committed(cluster) == {0: 0}
    cluster.refuse_commits = False
    reader.latestOffset(end, ALL)

    assert committed(cluster) == {0: 3}


def test_idle_query_commits_its_offsets_only_once_and_waits_for_records() -> None:
    cluster = DictionaryCluster(p0=[0])
    reader = stream(cluster, group__id="g", startingOffsets="earliest", idleWaitMs="40")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    reader.partitions(start, end)

    for _ in range(5):
        assert reader.latestOffset(end, ALL) == end

    assert len(cluster.commits) == 2, "commits of the start and of one micro-batch"
    assert cluster.waits == [40] * 5


def test_query_with_commit_offsets_false_commits_no_offsets() -> None:
    cluster = DictionaryCluster(p0=[0])
    reader = stream(cluster, group__id="g", startingOffsets="earliest", commitOffsets="false")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.partitions(reader.initialOffset(), end)
    reader.latestOffset(end, ALL)

    assert cluster.commits == []


def test_trigger_available_now_respects_the_row_limit_and_stops_at_the_initial_log_end() -> None:
    cluster = DictionaryCluster(p0=list(range(10)))
    reader = stream(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)

    at, ends = reader.initialOffset(), []
    while True:
        end = reader.latestOffset(at, limit)
        cluster.append(P0, 100)
        if end == at:
            break
        ends.append(end["orders"]["0"])
        at = end

    assert ends == [4, 8, 10]


def test_partition_added_during_a_stream_is_read_from_its_beginning() -> None:
    cluster = DictionaryCluster(p0=[0])
    reader = stream(cluster, startingOffsets="latest")
    start = reader.initialOffset()
    cluster.append(P1, 3)

    end = reader.latestOffset(start, ALL)

    assert end == {"orders": {"0": 1, "1": 3}}
    assert offsets_read(reader, reader.partitions(start, end)) == [(1, 0), (1, 1), (1, 2)]


def test_empty_micro_batch_has_no_tasks() -> None:
    reader = stream(DictionaryCluster(p0=[0]), startingOffsets="latest")
    start = reader.initialOffset()

    assert reader.partitions(start, start) == []


def test_offset_range_that_ends_before_it_starts_raises_error() -> None:
    reader = stream(DictionaryCluster(p0=[0]))

    with pytest.raises(KohortError, match="orders-0 from 150 to 100"):
        reader.partitions({"orders": {"0": 150}}, {"orders": {"0": 100}})


def test_records_deleted_before_they_were_read_end_the_query_with_an_error() -> None:
    cluster = DictionaryCluster(p0=list(range(20, 30)))
    reader = stream(cluster)

    with pytest.raises(DataLost, match=r"offsets 5 to 19 were deleted.*failOnDataLoss=false"):
        reader.latestOffset({"orders": {"0": 5}}, ALL)


def test_query_with_fail_on_data_loss_false_skips_deleted_records() -> None:
    cluster = DictionaryCluster(p0=list(range(20, 24)))
    reader = stream(cluster, failOnDataLoss="false")
    start = {"orders": {"0": 5}}

    end = reader.latestOffset(start, ALL)

    assert end == {"orders": {"0": 24}}
    assert offsets_read(reader, reader.partitions(start, end)) == [(0, o) for o in range(20, 24)]


def test_query_with_fail_on_data_loss_false_reads_a_truncated_topic_from_its_beginning() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2])
    start = {"orders": {"0": 900}}

    with pytest.raises(DataLost, match="recreated"):
        stream(cluster).latestOffset(start, ALL)
    reader = stream(cluster, failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)

    assert end == {"orders": {"0": 3}}
    assert offsets_read(reader, reader.partitions(start, end)) == [(0, 0), (0, 1), (0, 2)]


def test_offset_range_is_read_to_its_exact_end_despite_gaps_and_larger_batches() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 4, 5, 6, 9, 12, 13])
    reader = stream(cluster)

    tasks = reader.partitions({"orders": {"0": 2}}, {"orders": {"0": 12}})

    assert offsets_read(reader, tasks) == [(0, 4), (0, 5), (0, 6), (0, 9)]


def test_lost_connection_is_retried_in_the_same_spark_task() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2])
    cluster.fetch_failures = [ConnectionFailed("gone")]
    reader = stream(cluster)

    assert offsets_read(reader, reader.partitions({"orders": {"0": 0}}, {"orders": {"0": 3}})) == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]


def test_columns_that_the_read_schema_omits_are_not_built() -> None:
    cluster = DictionaryCluster(p0=[0])
    reader = stream(cluster)
    (task,) = reader.partitions({"orders": {"0": 0}}, {"orders": {"0": 1}})

    (read,) = list(reader.read(task))

    assert read.schema == pa.schema([("partition", pa.int32()), ("offset", pa.int64())])


def test_batch_read_returns_records_between_its_offsets() -> None:
    cluster = DictionaryCluster(p0=list(range(5)), p1=list(range(3)))
    reader = batch(
        cluster, startingOffsets='{"orders": {"0": 3, "1": -2}}', endingOffsets='{"orders": {"0": -1, "1": 2}}'
    )

    assert offsets_read(reader, reader.partitions()) == [(0, 3), (0, 4), (1, 0), (1, 1)]


def test_starting_offsets_without_a_partition_or_with_an_unknown_partition_are_rejected() -> None:
    reader = batch(DictionaryCluster(p0=[0], p1=[0]), startingOffsets='{"orders": {"0": 0, "2": 0}}')

    with pytest.raises(KohortError, match=r"no offset for orders-1 and an offset for orders-2, which is not read"):
        reader.partitions()


def test_starting_timestamp_selects_the_first_record_at_or_after_that_time() -> None:
    cluster = DictionaryCluster(p0=list(range(10)), p1=list(range(4)))

    assert stream(cluster, startingTimestamp="2500").initialOffset() == {"orders": {"0": 3, "1": 3}}
    times = '{"orders": {"0": 5000, "1": 1000}}'
    assert stream(cluster, startingOffsetsByTimestamp=times).initialOffset() == {"orders": {"0": 5, "1": 1}}


def test_starting_timestamp_after_all_records_raises_error_unless_strategy_is_latest() -> None:
    cluster = DictionaryCluster(p0=list(range(10)), p1=list(range(4)))
    late = {"startingTimestamp": "7000"}

    with pytest.raises(KohortError, match=r"orders-1 has no record at or after timestamp 7000.*Strategy=latest"):
        stream(cluster, **late).initialOffset()
    reader = stream(cluster, **late, startingOffsetsByTimestampStrategy="latest")
    assert reader.initialOffset() == {"orders": {"0": 7, "1": 4}}


def test_batch_read_ends_at_a_timestamp_or_at_committed_offsets() -> None:
    cluster = DictionaryCluster(p0=list(range(5)), p1=list(range(3)))
    cluster.group[P0] = OffsetAndMetadata(2)

    by_time = batch(cluster, endingTimestamp="3000")
    by_group = batch(cluster, endingOffsets="group", **{"group.id": "g"})

    assert offsets_read(by_time, by_time.partitions()) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert offsets_read(by_group, by_group.partitions()) == [(0, 0), (0, 1)]


def test_warning_about_commits_of_another_query_in_the_group_is_logged_only_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = DictionaryCluster(p0=list(range(9)))
    reader = stream(cluster, group__id="g", startingOffsets="earliest")
    reader.latestOffset(reader.initialOffset(), ALL)
    reader.latestOffset({"orders": {"0": 3}}, ALL)
    assert not caplog.records

    cluster.group[P0] = OffsetAndMetadata(7, "kohort-query:other:1:2")
    reader.latestOffset({"orders": {"0": 4}}, ALL)
    cluster.group[P0] = OffsetAndMetadata(8, "kohort-query:other:1:2")
    reader.latestOffset({"orders": {"0": 5}}, ALL)

    (record,) = caplog.records
    assert "group g: orders-0 was committed at 7 by kohort-query:other:1:2" in record.getMessage()
    assert committed(cluster) == {0: 5}


def test_ending_offsets_after_the_log_end_are_rejected_unless_fail_on_data_loss_is_false(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2], p1=[0])
    options = {"endingOffsets": '{"orders": {"0": 500, "1": 1}}'}

    with pytest.raises(ConfigError, match="endingOffsets are after the log end: orders-0: 500, the log ends at 3"):
        batch(cluster, **options).partitions()
    reader = batch(cluster, failOnDataLoss="false", **options)
    assert offsets_read(reader, reader.partitions()) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert "reading up to it: orders-0: 500, the log ends at 3" in caplog.text


def replaced(cluster: DictionaryCluster, rows: int) -> None:
    cluster.incarnation = b"2"
    cluster.logs[P0], cluster.ends[P0] = [], 0
    cluster.append(P0, rows)


def read_to_the_end(reader: KohortStreamReader, start: Any) -> tuple[int, Any]:
    end = reader.latestOffset(start, ALL)
    return len(offsets_read(reader, reader.partitions(start, end))), end


def with_ids(rows: list[int]) -> DictionaryCluster:
    cluster = DictionaryCluster(p0=rows)
    cluster.incarnation = b"1"
    return cluster


@pytest.mark.parametrize("same_process", [True, False])
def test_recreated_topic_with_a_longer_log_is_detected_by_its_topic_id(same_process: bool) -> None:
    cluster = with_ids(list(range(50)))
    strict, patient = stream(cluster), stream(cluster, failOnDataLoss="false")
    assert patient.initialOffset() == {"kohort:topics": {"orders": "31"}, "orders": {"0": 50}}
    _, start = read_to_the_end(strict, {"orders": {"0": 0}})
    read_to_the_end(patient, start)
    replaced(cluster, 80)
    if not same_process:
        strict, patient = stream(cluster), stream(cluster, failOnDataLoss="false")

    with pytest.raises(DataLost, match="topics recreated since the last micro-batch: orders"):
        strict.latestOffset(start, ALL)
    read, end = read_to_the_end(patient, start)
    assert (read, end) == (80, {"kohort:topics": {"orders": "32"}, "orders": {"0": 80}})
    again = stream(cluster, failOnDataLoss="false")
    assert len(offsets_read(again, again.partitions(start, end))) == 80, (
        "a repetition of this micro-batch reads the same"
    )
    assert read_to_the_end(again, end) == (0, end)


def test_repeated_micro_batch_skips_records_of_a_recreated_topic() -> None:
    cluster = with_ids(list(range(50)))
    start = stream(cluster, startingOffsets="earliest").initialOffset()
    end = stream(cluster).latestOffset(start, ALL)
    replaced(cluster, 80)

    with pytest.raises(DataLost, match="topics recreated"):
        stream(cluster).partitions(start, end)
    patient = stream(cluster, failOnDataLoss="false")
    assert patient.partitions(start, end) == []
    assert read_to_the_end(patient, end)[0] == 80


def test_checkpoint_without_topic_ids_is_accepted_and_the_next_offsets_have_topic_ids() -> None:
    cluster = with_ids(list(range(5)))
    start = {"orders": {"0": 3}}

    assert read_to_the_end(stream(cluster), start) == (2, {"kohort:topics": {"orders": "31"}, "orders": {"0": 5}})
    assert len(stream(cluster).partitions(start, {"orders": {"0": 5}})) == 1
    cluster.incarnation = b"\0" * 16
    assert read_to_the_end(stream(cluster), start) == (2, {"orders": {"0": 5}}), "a broker without topic ids"


def test_offsets_keep_the_topic_id_of_a_deleted_topic_until_the_topic_is_recreated() -> None:
    cluster = with_ids(list(range(50)))
    _, start = read_to_the_end(stream(cluster), {"orders": {"0": 0}})
    patient = stream(cluster, failOnDataLoss="false", idleWaitMs="0")
    log = cluster.logs.pop(P0)

    assert patient.latestOffset(start, ALL) == start
    cluster.logs[P0] = log
    replaced(cluster, 80)
    assert read_to_the_end(patient, start)[0] == 80


def test_deleted_topic_ends_the_query_unless_fail_on_data_loss_is_false(caplog: pytest.LogCaptureFixture) -> None:
    cluster = DictionaryCluster(p0=list(range(5)))
    strict, patient = stream(cluster), stream(cluster, failOnDataLoss="false", idleWaitMs="0")
    cluster.logs.clear()
    start = {"orders": {"0": 3}}

    with pytest.raises(DataLost, match="partitions deleted while the query runs: orders-0"):
        strict.latestOffset(start, ALL)
    assert [patient.latestOffset(start, ALL) for _ in range(3)] == [start] * 3
    assert len(caplog.records) == 1


def test_pickled_stream_reader_works_without_the_state_of_the_driver() -> None:
    reader = pickle.loads(pickle.dumps(KohortStreamReader(stream_options(), ROWS)))

    (task,) = reader.partitions({"orders": {"0": 0}}, {"orders": {"0": 3}})
    assert task.ranges == [Range("orders", 0, 0, 3, redelivered_below=3)]


def test_rows_of_a_repeated_micro_batch_are_marked_as_redelivered() -> None:
    cluster = DictionaryCluster(p0=[0, 1, 2, 3])
    columns = RecordRowBuilder(("offset", "redelivered"))
    first, second = (KohortStreamReader(stream_options(), columns, lambda _: cluster) for _ in range(2))
    start = {"orders": {"0": 1}}

    end = first.latestOffset(start, ALL)
    for reader, again in ((first, False), (second, True)):
        (task,) = reader.partitions(start, end)
        rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
        assert rows == [{"offset": n, "redelivered": again} for n in (1, 2, 3)]

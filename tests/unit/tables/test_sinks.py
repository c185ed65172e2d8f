"""Commits of rows with offsets: compare-and-swap, races, unknown outcomes, schema and owner of the table."""

import dataclasses
import shutil

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from kohort.errors import TableError, UsageError
from kohort.tables import DeltaSink, IcebergSink
from kohort.tables.sink import ATTEMPTS, Fenced, OffsetStep, TopicLife
from support.tables import FORMATS, rows_of, sink_in, table_of

ORDERS = TopicLife("billing", "cluster", "orders", "id-1")
SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers):
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers_of(sink):
    return sorted(row["n"] for row in rows_of(sink))


@pytest.fixture(params=FORMATS)
def make(request, tmp_path):
    """A function that returns a new sink on the same table, opened for the rows."""

    def make_sink(schema=SCHEMA, **options):
        sink = sink_in(tmp_path, request.param, **options)
        sink.open(schema)
        return sink

    return make_sink


def test_commit_stores_rows_and_offsets_of_all_partitions(make):
    sink = make()
    assert (sink.owner(ORDERS), sink.offset(ORDERS, 0)) == ("none", None)

    sink.commit(rows(1, 2), [OffsetStep(ORDERS, 0, None, 10), OffsetStep(ORDERS, 7, None, 3)])
    sink.commit(rows(3), [OffsetStep(ORDERS, 0, 10, 20)])

    other = make()
    other.check(ORDERS, ())
    assert [other.offset(ORDERS, p) for p in (0, 7, 1)] == [20, 3, None]
    assert numbers_of(other) == [1, 2, 3]


def test_commit_from_an_outdated_offset_is_fenced(make):
    sink, zombie = make(), make()
    sink.commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])

    with pytest.raises(Fenced, match="orders-0: the table is at offset 10, not None"):
        zombie.commit(rows(1, 2), [OffsetStep(ORDERS, 0, None, 20)])

    assert numbers_of(sink) == [1]


def test_commit_that_loses_a_race_after_its_check_is_fenced(make):
    """The other member commits between the check of the offsets and the append."""
    sink, other = make(), make()
    plain = sink.append

    def append(*arguments):
        sink.append = plain
        other.commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])
        plain(*arguments)

    sink.append = append
    with pytest.raises(Fenced):
        sink.commit(rows(1, 2), [OffsetStep(ORDERS, 0, None, 20)])

    assert numbers_of(sink) == [1]
    assert sink.offset(ORDERS, 0) == 10


def test_members_with_other_partitions_and_other_writers_do_not_fence(make):
    sink, member, writer = make(), make(), make()
    plain = sink.append

    def append(*arguments):
        sink.append = plain
        member.commit(rows(10), [OffsetStep(ORDERS, 1, None, 10)])
        writer.refresh()
        writer.append(rows(100), [])
        plain(*arguments)

    sink.append = append
    sink.commit(rows(1), [OffsetStep(ORDERS, 0, None, 20)])

    assert numbers_of(sink) == [1, 10, 100]
    assert [sink.offset(ORDERS, p) for p in (0, 1)] == [20, 10]


def test_iceberg_commit_with_unknown_outcome_is_found_in_the_table(tmp_path):
    sink = sink_in(tmp_path, "iceberg")
    sink.open(SCHEMA)
    plain = sink.append
    outcomes = [None, CommitStateUnknownException, CommitStateUnknownException]

    def append(*arguments):
        if len(outcomes) != 2:  # the second attempt does not arrive
            plain(*arguments)
        if (error := outcomes.pop()) is not None:
            raise error("no answer")

    sink.append = append
    sink.commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])
    sink.commit(rows(2), [OffsetStep(ORDERS, 0, 10, 20)])

    assert (numbers_of(sink), outcomes) == ([1, 2], [])


def test_commit_that_never_wins_raises_after_its_attempts(make):
    sink = make()
    calls = []

    def append(*arguments):
        calls.append(1)
        raise sink.conflicts()[0]("another writer")

    sink.append = append
    with pytest.raises(TableError, match=f"other writers won {ATTEMPTS} commits in a row: another writer"):
        sink.commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])
    assert len(calls) == ATTEMPTS


def test_another_group_is_refused_with_the_name_of_the_first(make):
    make().commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])

    with pytest.raises(TableError, match="holds rows of topic 'orders' from group 'billing', not from 'audit'"):
        make().check(dataclasses.replace(ORDERS, group="audit"), ())


@pytest.mark.parametrize("moment", ["before its check", "between its check and its append"])
def test_group_that_loses_the_race_for_a_new_table_is_refused(make, moment):
    """Both groups saw a table without an owner when their partitions were assigned."""
    audit, sink = dataclasses.replace(ORDERS, group="audit"), make()
    sink.check(audit, ())
    plain = sink.append

    def first_commit():
        make().commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])

    def append(*arguments):
        sink.append = plain
        first_commit()
        plain(*arguments)

    if moment == "before its check":
        first_commit()
    else:
        sink.append = append
    with pytest.raises(TableError, match="from group 'billing', not from 'audit'"):
        sink.commit(rows(1), [OffsetStep(audit, 0, None, 10)])

    assert numbers_of(sink) == [1]


def test_two_topics_of_two_groups_share_a_table(make):
    refunds = TopicLife("audit", "cluster", "refunds", "id-2")
    make().commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])
    sink = make()
    sink.check(refunds, ())
    sink.commit(rows(2), [OffsetStep(refunds, 0, None, 5)])

    assert (make().offset(ORDERS, 0), make().offset(refunds, 0)) == (10, 5)


def test_a_recreated_topic_is_refused_until_it_is_accepted(make):
    again = dataclasses.replace(ORDERS, topic_id="id-9")
    make().commit(rows(1), [OffsetStep(ORDERS, 0, None, 10), OffsetStep(ORDERS, 1, None, 10)])
    sink = make()

    with pytest.raises(TableError, match=r"deleted and created again.*pass accept_recreated=\['orders'\]"):
        sink.check(again, ())
    sink.check(again, ["orders"])
    assert sink.offset(again, 0) is None
    sink.commit(rows(2), [OffsetStep(again, 0, None, 3)], ["orders"])

    sink.check(again, ())
    assert [sink.offset(again, p) for p in (0, 1)] == [3, None]
    assert numbers_of(sink) == [1, 2]


def test_a_new_column_is_an_error_or_added(make):
    make().commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])
    wider = pa.schema([("n", pa.int64()), ("word", pa.string())])

    with pytest.raises(TableError, match="has no column 'word': pass schema_mode='merge' to add word"):
        make(wider)
    sink = make(wider, schema_mode="merge")
    sink.commit(pa.table({"n": [2], "word": ["x"]}), [OffsetStep(ORDERS, 0, 10, 11)])

    assert sorted(map(str, rows_of(sink))) == ["{'n': 1, 'word': None}", "{'n': 2, 'word': 'x'}"]


def test_a_member_without_the_new_column_writes_null(make):
    narrow = make()
    make(pa.schema([("n", pa.int64()), ("word", pa.string())]), schema_mode="merge")

    narrow.commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])

    assert rows_of(narrow) == [{"n": 1, "word": None}]


def test_a_table_is_partitioned_by_columns(make):
    by_day = pa.table({"n": [1, 2, 3], "day": ["mon", "tue", "tue"]})
    sink = make(by_day.schema, partition_by=["day"])
    sink.commit(by_day, [OffsetStep(ORDERS, 0, None, 10)])

    assert (sink.partition_columns(), numbers_of(sink)) == (["day"], [1, 2, 3])
    with pytest.raises(TableError, match=r"partition_by=\['n'\]: at least one column must remain"):
        make(partition_by="n")
    with pytest.raises(TableError, match="partition_by='day': the rows have no such column, only n"):
        make(partition_by="day")


def test_other_partition_columns_than_the_table_has_are_refused(make):
    schema = pa.schema([("n", pa.int64()), ("day", pa.string())])
    make(schema)
    with pytest.raises(TableError, match=r"is partitioned by \[\], not by \['day'\]: omit partition_by"):
        make(schema, partition_by="day")


def test_history_names_group_and_offsets(make):
    sink = make()
    sink.commit(rows(1), [OffsetStep(ORDERS, 4, None, 10)])
    sink.refresh()

    is_delta = isinstance(sink, DeltaSink)
    facts = table_of(sink).history(1)[0] if is_delta else table_of(sink).current_snapshot().summary
    assert facts["kohort.group"] == "billing"
    assert '"topic_id": "id-1", "offsets": {"4": 10}' in facts["kohort.offsets"]


def test_arguments_of_sinks_are_checked(tmp_path):
    with pytest.raises(UsageError, match="schema_mode='append': expected 'error' or 'merge'"):
        DeltaSink(tmp_path / "t", schema_mode="append")
    with pytest.raises(UsageError, match=r"the table 'orders' needs a namespace"):
        IcebergSink("orders", catalog={})


def test_delta_table_that_expires_offsets_is_refused(tmp_path):
    sink = sink_in(tmp_path, "delta")
    sink.open(SCHEMA)
    table_of(sink).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})

    with pytest.raises(TableError, match="forgets offsets after interval 7 days"):
        sink_in(tmp_path, "delta").open(SCHEMA)


def test_damaged_property_of_an_iceberg_table_is_named(tmp_path):
    sink = sink_in(tmp_path, "iceberg")
    sink.open(SCHEMA)
    with table_of(sink).transaction() as transaction:
        transaction.set_properties({"kohort.offsets.orders": '{"group": 1}'})

    with pytest.raises(TableError, match=r"property kohort\.offsets\.orders is not kohort's"):
        sink.check(ORDERS, ())


def test_error_of_the_library_names_table_and_action(make, tmp_path):
    sink = make()
    for folder in tmp_path.iterdir():
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()

    failed = pytest.raises(TableError, match=r"cannot commit rows: .*mend the cause, then load again")
    with failed, sink.explained("commit rows"):
        sink.commit(rows(1), [OffsetStep(ORDERS, 0, None, 10)])


def test_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    sink = DeltaSink(tmp_path / "file" / "orders")

    failed = pytest.raises(TableError, match=r"cannot (be created|open or create the table): ")
    with failed, sink.explained("open or create the table"):
        sink.open(SCHEMA)

"""A group loads topics into Delta and Iceberg tables: every record once, at every crash point."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import kohort
from kohort import Admin, Consumer, Producer, TableError, TopicPartition, UndecodableValue, UsageError
from kohort.tables import load
from support.tables import FORMATS, rows_of, sink_in

pytestmark = pytest.mark.ours
PARTITIONS = 2
SCHEMA = pa.schema([("n", pa.int64())])
COUNT = 40


one_format = pytest.mark.parametrize("form", ["delta"])
"""For behavior of ``load`` alone, which is the same with both sinks."""


class Crash(Exception):
    """The process dies here."""


@pytest.fixture(params=FORMATS)
def form(request):
    return request.param


@pytest.fixture
def make(tmp_path, form):
    return lambda **options: sink_in(tmp_path, form, **options)


@pytest.fixture
def consumer_of(bootstrap, name):
    def make_consumer(group=name, **options):
        shared = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        return Consumer(group_id=group, **shared | options)

    return make_consumer


@pytest.fixture
def fill(bootstrap, topic):
    def send(numbers):
        with Producer(bootstrap_servers=bootstrap) as producer:
            for n in numbers:
                producer.send(topic, b'{"n": %d}' % n, partition=n % PARTITIONS)
            producer.flush(30_000)

    return send


def load_to_end(consumer, topic, sink, **options):
    with consumer:
        return load(consumer, topic, sink, json=SCHEMA, until_end=True, **options)


def numbers_in(sink):
    return sorted(row["n"] for row in rows_of(sink))


def crash_at(sink, moment):
    """Let the first append of the sink die before or after the table's commit."""
    plain = sink.append

    def append(*arguments):
        if moment == "after the table's commit":
            plain(*arguments)
        raise Crash

    sink.append = append


def test_each_record_is_a_row_and_both_offsets_move(make, consumer_of, topic, fill, name):
    fill(range(COUNT))

    result = load_to_end(consumer_of(), topic, make())

    assert (result.rows, result.fenced_rows) == (COUNT, 0)
    assert numbers_in(make()) == list(range(COUNT))
    with consumer_of() as consumer:
        committed = consumer.committed([TopicPartition(topic, p) for p in range(PARTITIONS)])
    assert [at.offset for at in committed.values()] == [COUNT // 2] * 2
    fill(range(COUNT, COUNT + 4))
    assert load_to_end(consumer_of(), topic, make()).rows == 4
    assert numbers_in(make()) == list(range(COUNT + 4))


@pytest.mark.parametrize("moment", ["before the table's commit", "after the table's commit"])
def test_crash_neither_loses_nor_repeats_a_row(make, consumer_of, topic, fill, moment):
    fill(range(COUNT))
    sink = make()
    crash_at(sink, moment)
    with pytest.raises(Crash):
        load_to_end(consumer_of(), topic, sink)

    with consumer_of() as consumer:  # the group's commit did not happen
        assert set(consumer.committed([TopicPartition(topic, 0)]).values()) == {None}
    load_to_end(consumer_of(), topic, make())

    assert numbers_in(make()) == list(range(COUNT))


@pytest.mark.parametrize("moment", ["before the table's commit", "after the table's commit"])
def test_crash_during_a_rebalance_neither_loses_nor_repeats_a_row(make, consumer_of, topic, fill, moment):
    """The first member crashes while it commits the rows of revoked partitions; the second member goes on."""
    fill(range(COUNT))
    sink, second = make(), consumer_of()
    crash_at(sink, moment)

    def join_when_rows_are_buffered(table):
        if table.num_rows and not second.subscription():
            second.subscribe(topic)
            joining.start()
        return table

    joining = threading.Thread(target=lambda: load(second, topic, make(), json=SCHEMA, until_end=True))
    with second:
        with consumer_of() as first, pytest.raises(Crash):
            load(first, topic, sink, json=SCHEMA, transform=join_when_rows_are_buffered, commit_ms=600_000)
        joining.join(60)

    load_to_end(consumer_of(), topic, make())
    assert numbers_in(make()) == list(range(COUNT))


def test_zombie_member_does_not_write_rows_that_its_successor_wrote(make, consumer_of, topic, fill, bootstrap, name):
    """The group removes the member between its check of the table and its append."""
    fill(range(COUNT))
    sink, zombie = make(), consumer_of()
    plain = sink.append

    def append(*arguments):
        sink.append = plain
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.remove_group_members(name, [zombie.group_metadata().member_id])
        load_to_end(consumer_of(), topic, make())
        plain(*arguments)

    sink.append = append
    result = load_to_end(zombie, topic, sink)

    assert (result.rows, result.fenced_rows) == (0, COUNT)
    assert numbers_in(make()) == list(range(COUNT))


def test_two_members_write_one_table(make, consumer_of, topic, fill):
    fill(range(COUNT))
    results = []

    def run():
        results.append(load_to_end(consumer_of(), topic, make()))

    members = [threading.Thread(target=run) for _ in range(2)]
    for member in members:
        member.start()
    for member in members:
        member.join(60)

    assert sum(result.rows for result in results) == COUNT
    assert numbers_in(make()) == list(range(COUNT))


@one_format
def test_group_offsets_behind_the_table_are_brought_up(make, consumer_of, topic, fill):
    fill(range(COUNT))
    load_to_end(consumer_of(), topic, make())
    places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    with consumer_of() as consumer:
        consumer.assign(places)
        consumer.commit({places[0]: 1})

    assert load_to_end(consumer_of(), topic, make()).rows == 0
    with consumer_of() as consumer:
        assert {at.offset for at in consumer.committed(places).values()} == {COUNT // 2}


@one_format
def test_a_table_without_offsets_starts_at_the_group_offset(make, consumer_of, topic, fill):
    fill(range(COUNT))
    with consumer_of() as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({TopicPartition(topic, 0): 18})

    load_to_end(consumer_of(), topic, make())

    assert numbers_in(make()) == sorted([36, 38, *range(1, COUNT, 2)])


@one_format
def test_rows_before_an_undecodable_value_are_committed(make, consumer_of, topic, fill, bootstrap):
    fill(range(4))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"not json", partition=0).result(30_000)

    for _ in range(2):
        with pytest.raises(UndecodableValue) as caught:
            load_to_end(consumer_of(), topic, make(), columns=())
        assert (caught.value.topic, caught.value.offset) == (topic, 2)

    assert numbers_in(make()) == [0, 1, 2, 3]
    assert load_to_end(consumer_of(), topic, make(schema_mode="merge"), columns=(), json_errors=True).rows == 1


@one_format
def test_aborted_records_are_no_rows_and_control_records_end_no_load(make, consumer_of, topic, bootstrap):
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for n in range(3):
            producer.begin_transaction()
            producer.send(topic, b'{"n": %d}' % n, partition=0)
            producer.commit_transaction() if n != 1 else producer.abort_transaction()

    options = {"isolation_level": "read_committed"}
    assert load_to_end(consumer_of(**options), topic, make()).rows == 2
    assert load_to_end(consumer_of(**options), topic, make()).rows == 0
    assert numbers_in(make()) == [0, 2]


def test_recreated_topic_is_refused_until_it_is_accepted(make, consumer_of, topic, fill, bootstrap):
    fill(range(4))
    load_to_end(consumer_of(), topic, make())
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic])
        admin.create_topics({topic: PARTITIONS})
    fill(range(100, 102))

    with pytest.raises(TableError, match="was deleted and created again"):
        load_to_end(consumer_of(), topic, make())
    load_to_end(consumer_of(), topic, make(), accept_recreated=topic)

    assert numbers_in(make()) == [0, 1, 2, 3, 100, 101]


def test_table_of_another_group_is_refused(make, consumer_of, topic, fill):
    fill(range(4))
    load_to_end(consumer_of(), topic, make())

    with pytest.raises(TableError, match="a second group would write each row again"):
        load_to_end(consumer_of(f"another of {topic}"), topic, make())


@one_format
def test_offset_that_retention_deleted_continues_at_the_log_start(make, consumer_of, topic, fill, bootstrap, caplog):
    fill(range(4))
    load_to_end(consumer_of(), topic, make())
    fill(range(4, COUNT))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 10})

    load_to_end(consumer_of(auto_offset_reset="latest"), topic, make())

    assert f"{topic}-0: retention deleted 8 offsets before the table got them: 2 on" in caplog.text
    assert numbers_in(make()) == sorted({*range(4), *range(5, COUNT, 2), *range(20, COUNT, 2)})


@one_format
def test_reset_to_the_log_end_during_a_load_passes_over_no_record(make, consumer_of, topic, bootstrap):
    """Each fetch is one batch; retention deletes a part of the log behind the first."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(COUNT):
            producer.send(topic, b'{"n": %d}' % n, partition=0).result(30_000)
    latest = {"auto_offset_reset": "latest", "fetch_max_bytes": 1, "max_partition_fetch_bytes": 1}
    with consumer_of() as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit({TopicPartition(topic, 0): 0})
    sink = make()
    plain = sink.append

    def append(*arguments):
        sink.append = plain
        plain(*arguments)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_records({TopicPartition(topic, 0): 30})
        reset.start()

    def send_until_the_load_ends():
        with Producer(bootstrap_servers=bootstrap) as producer:
            while not over.wait(0.05):
                producer.send(topic, b'{"n": 99}', partition=0).result(30_000)

    sink.append, over = append, threading.Event()
    reset = threading.Thread(target=send_until_the_load_ends)
    try:
        with consumer_of(**latest) as consumer, pytest.raises(TableError, match=r"moved it to \d+: load again"):
            load(consumer, topic, sink, json=SCHEMA, commit_rows=1)
    finally:
        over.set()
        reset.join()

    load_to_end(consumer_of(**latest), topic, make())
    assert set(range(30, COUNT)) < set(numbers_in(make()))


@one_format
def test_offset_beyond_the_log_end_is_refused(make, consumer_of, topic, fill, bootstrap, tmp_path):
    """A log that was truncated below the table's offset would give other records the same offsets."""
    fill(range(4))
    load_to_end(consumer_of(), topic, make())
    sink = make()
    sink.refresh()
    plain = sink.offset
    sink.offset = lambda *arguments: (plain(*arguments) or 0) + 90

    with pytest.raises(TableError, match="up to offset 92, but the log continues at 2: it was truncated"):
        load_to_end(consumer_of(), topic, sink)


@one_format
def test_wakeup_ends_the_load_after_a_last_commit(make, consumer_of, topic, fill):
    fill(range(COUNT))
    consumer = consumer_of()

    def stop_when_complete(table):
        seen.extend(table["n"].to_pylist())
        if len(seen) == COUNT:
            consumer.wakeup()
        return table

    seen = []
    with consumer:
        result = load(consumer, topic, make(), json=SCHEMA, transform=stop_when_complete)

    assert (result.rows, result.commits) == (COUNT, 1)
    assert numbers_in(make()) == list(range(COUNT))


@one_format
@pytest.mark.parametrize("limit", [{"commit_rows": 1}, {"commit_bytes": 1}, {"commit_ms": 1}])
def test_each_limit_makes_a_commit(make, consumer_of, topic, fill, limit):
    """The load never ends by itself: only a commit calls the wakeup."""
    fill(range(COUNT))
    consumer, sink = consumer_of(), make()
    plain = sink.append

    def append(rows, steps):
        plain(rows, steps)
        committed.append(rows.num_rows)
        if sum(committed) == COUNT:
            consumer.wakeup()

    committed, sink.append = [], append
    with consumer:
        load(consumer, topic, sink, json=SCHEMA, **limit)

    assert numbers_in(make()) == list(range(COUNT))


@one_format
def test_records_that_transform_drops_move_the_group_offset_in_a_running_load(make, consumer_of, topic, fill):
    """The load never ends by itself: only a commit of the group calls the wakeup."""
    fill(range(COUNT))
    consumer = consumer_of()
    plain = consumer.commit

    def commit(*arguments):
        plain(*arguments)
        if sum(at.offset for at in consumer.committed([(topic, p) for p in range(PARTITIONS)]).values() if at) == COUNT:
            consumer.wakeup()

    consumer.commit = commit
    with consumer:
        result = load(consumer, topic, make(), json=SCHEMA, commit_ms=1, transform=lambda table: table.slice(0, 0))

    assert (result.rows, result.commits) == (0, 0)


def test_transform_filters_and_adds_columns(make, consumer_of, topic, fill):
    fill(range(6))

    def even(table):
        table = table.filter(pa.compute.equal(pa.compute.bit_wise_and(table["n"], 1), 0))
        return table.append_column("double", pa.compute.multiply(table["n"], 2)).select(["n", "double"])

    load_to_end(consumer_of(), topic, make(partition_by="n"), transform=even)

    found = sorted(rows_of(make()), key=lambda row: row["n"])
    assert found == [{"n": n, "double": 2 * n} for n in (0, 2, 4)]


@one_format
def test_invalid_arguments_are_refused_before_the_group_is_joined(make, consumer_of, topic):
    sink = make()
    with consumer_of(enable_auto_commit=True) as consumer, pytest.raises(UsageError, match="enable_auto_commit=False"):
        load(consumer, topic, sink)
    with consumer_of(None) as consumer, pytest.raises(UsageError, match="needs a group_id"):
        load(consumer, topic, sink)
    with consumer_of() as consumer:
        with pytest.raises(UsageError, match=r"expected a kohort\.Consumer and a sink"):
            load(consumer, topic, "s3://bucket")
        with pytest.raises(UsageError, match="commit_rows=0: expected at least 1"):
            load(consumer, topic, sink, commit_rows=0)
        with pytest.raises(UsageError, match=r"transform returned NoneType, not a pyarrow\.Table"):
            load(consumer, topic, sink, transform=lambda _: None)
        with pytest.raises(TableError, match="does not store column 'd' of Arrow type duration"):
            load(consumer, topic, sink, transform=lambda t: t.append_column("d", pa.nulls(len(t), pa.duration("s"))))
        assert consumer.subscription() == set()
    assert not sink.exists()


def test_missing_package_is_named_with_its_extra(monkeypatch, tmp_path, form):
    package = {"delta": "deltalake", "iceberg": "pyiceberg"}[form]
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(kohort.MissingExtra, match=rf"pip install 'kohort\[{form}\]'"):
        sink_in(tmp_path, form)

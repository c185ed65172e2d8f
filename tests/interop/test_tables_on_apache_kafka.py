"""A group of Apache Kafka loads a topic into Delta and Iceberg tables, exactly once."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import kohort
from kohort import TableError
from kohort.tables import load
from support.tables import FORMATS, rows_of, sink_in
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
SCHEMA = pa.schema([("n", pa.int64())])
PARTITIONS = 3
COUNT = 3000


def transact(bootstrap, topic, numbers, *, commit=True):
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=f"to-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for n in numbers:
            producer.send(topic, b'{"n": %d}' % n, partition=n % PARTITIONS)
        producer.commit_transaction() if commit else producer.abort_transaction()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("form", FORMATS)
def test_two_members_load_a_transactional_topic_once(apache, tmp_path, form, protocol):
    topic = f"tables-{form}-{protocol}"
    with kohort.Admin(bootstrap_servers=apache) as admin:
        admin.create_topics({topic: PARTITIONS})
        eventually(lambda: not admin.describe_topics([topic]).errors)
    transact(apache, topic, range(COUNT))
    transact(apache, topic, range(COUNT, 2 * COUNT), commit=False)

    def run():
        with kohort.Consumer(
            bootstrap_servers=apache,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer:
            load(consumer, topic, sink_in(tmp_path, form), json=SCHEMA, columns=["partition", "offset"], until_end=True)

    sink_in(tmp_path, form)  # creates the catalog
    members = [threading.Thread(target=run) for _ in range(2)]
    for member in members:
        member.start()
    for member in members:
        member.join(300)
    transact(apache, topic, range(2 * COUNT, 2 * COUNT + 9))
    run()

    rows = rows_of(sink_in(tmp_path, form))
    assert sorted(row["n"] for row in rows) == [*range(COUNT), *range(2 * COUNT, 2 * COUNT + 9)]
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows)


def test_a_recreated_topic_is_refused(apache, tmp_path):
    topic = "tables-recreated"

    def run(**options):
        with kohort.Consumer(
            bootstrap_servers=apache, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            return load(consumer, topic, sink_in(tmp_path, "delta"), json=SCHEMA, until_end=True, **options)

    def create():
        admin.create_topics({topic: PARTITIONS})
        eventually(lambda: not admin.describe_topics([topic]).errors)

    with kohort.Admin(bootstrap_servers=apache) as admin:
        create()
        transact(apache, topic, range(6))
        assert run().rows == 6
        admin.delete_topics([topic])
        eventually(lambda: topic not in [listing.name for listing in admin.list_topics()])
        create()
        transact(apache, topic, range(3))
        with pytest.raises(TableError, match="was deleted and created again"):
            run()
        assert run(accept_recreated=topic).rows == 3

from __future__ import annotations

import pytest

import kohort
from kohort import TopicPartition


@pytest.fixture
def opened(broker, run):
    run("topics", "create", "bookings", "--partitions", "2", "--if-not-exists")
    names = ("importer-1", "importer-2")
    producers = [kohort.Producer(bootstrap_servers=broker.bootstrap, transactional_id=name) for name in names]
    for producer in producers:
        producer.init_transactions()
    producers[0].begin_transaction()
    for partition in range(2):
        producers[0].send("bookings", b"open", partition=partition)
    producers[0].flush()
    yield producers[0]
    for producer in producers:
        producer.close()


def test_transactions_list_sorts_by_age(run, ask, opened):
    first, second = ask("transactions", "list")["transactions"]

    assert (first["transactional_id"], first["state"], first["partitions"]) == (
        "importer-1",
        "Ongoing",
        ["bookings-0", "bookings-1"],
    )
    assert first["seconds"] >= 0
    assert (second["transactional_id"], second["state"], second["seconds"]) == ("importer-2", "Empty", None)
    table = run("transactions", "list", "--open-for", "0").stdout.splitlines()
    assert table[0].split()[:4] == ["TRANSACTIONAL-ID", "STATE", "SECONDS", "PARTITIONS"]
    assert [line.split()[0] for line in table[1:]] == ["importer-1"]
    assert [t["transactional_id"] for t in ask("transactions", "list", "--state", "Empty")["transactions"]] == [
        "importer-2"
    ]


def test_transactions_describe_shows_time_until_abort(run, ask, opened):
    assert ask("transactions", "describe", "importer-1")["timeout_ms"] == 60_000
    lines = run("transactions", "describe", "importer-1").stdout
    assert lines.split()[:2] == ["FIELD", "VALUE"]
    assert "bookings-0, bookings-1" in lines
    assert "aborted in" in lines
    assert "aborted in" not in run("transactions", "describe", "importer-2").stdout
    opened.commit_transaction()
    ended = ask("transactions", "describe", "importer-1")
    assert (ended["state"], ended["seconds"], ended["partitions"]) == ("CompleteCommit", None, [])
    assert run("transactions", "list", "--open-for", "0").stdout.splitlines()[1:] == []
    missing = run("transactions", "describe", "nobody", code=3).stderr
    assert "TRANSACTIONAL_ID_NOT_FOUND" in missing
    assert "transactional.id 'nobody'" in missing


def test_abort_unblocks_consumers_and_fences_producer(run, ask, broker, opened):
    output = run("transactions", "abort", "importer-1", "--yes").stdout

    assert output == "importer-1: the transaction is aborted and the producer is fenced\n"
    with pytest.raises((kohort.ProducerFenced, kohort.TransactionFailed)):
        opened.commit_transaction()
    committed = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, **committed) as consumer:
        partitions = [TopicPartition("bookings", n) for n in range(2)]
        ends = consumer.end_offsets(partitions)
        assert all(end > 0 for end in ends.values()), "the last stable offset is at the end"
    assert run("transactions", "abort", "nobody", "--yes", code=3).stderr.count("TRANSACTIONAL_ID_NOT_FOUND") == 1

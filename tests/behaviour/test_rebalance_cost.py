import kohort
from kohort.aio.consuming.consumer import Consumer
from kohort.insight.findings.rebalances import find_rebalances
from kohort.watch.journal_source import JournalAccess, open_journal


def found(broker, group):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        access = JournalAccess(lambda o: kohort.Consumer(o, bootstrap_servers=broker.bootstrap), admin, {})
        journal = open_journal(access, group)
        assert journal is not None
        entries = journal.read()
        journal.close()
    return find_rebalances(entries)


def poll_until(condition, *consumers: Consumer) -> None:
    for _ in range(400):
        for consumer in consumers:
            consumer.poll(25, max_records=1)
        if condition():
            return
    raise AssertionError("no result within ten seconds")


def test_moved_partition_has_its_pause_and_lag_before_and_after():
    options = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 2}
    with kohort.Broker(options) as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for i in range(400):
                producer.send("orders", value=b"%d" % i, partition=i % 2)
        shared = {"bootstrap_servers": broker.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
        with Consumer(**shared, client_id="first") as first, Consumer(**shared, client_id="second") as second:
            first.subscribe(["orders"])
            poll_until(lambda: len(first.assignment()) == 2, first)
            assert all(first.position(partition) is not None for partition in first.assignment())  # else not committed
            first.commit()
            second.subscribe(["orders"])
            poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
            for _ in range(5):
                second.poll(50, max_records=1)
            rebalances = [this for this in found(broker, "g") if this.end != "no_rebalance"]

    (first_of_all, *others) = rebalances
    assert [move.lag_after for move in first_of_all.moves] == [200, 200]
    assert first_of_all.moves[0].unowned_ms is None, "nobody had it before"
    got = [move for this in others for move in this.moves if move.after is not None and move.lag_after is not None]
    assert got
    assert 0 < got[0].lag_after <= 200
    assert got[0].lag_before is not None
    assert any("resume" in this.phases_ms for this in others)

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

import kohort
from kohort.cli.main import main


@pytest.fixture
def orders(run, broker):
    run("topics", "create", "orders", "--partitions", "2", "--if-not-exists")
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for n in range(10):
            value = b"\x1b[2J\n\xff" + b"x" * 5000 if n == 5 else b"value-%d" % n
            producer.send("orders", value, b"k%d" % n, partition=0, headers=[("h", b"\xfe")])
    run("consume", "orders", "--group", "g", "--partition", "0", "--max", "5", code=2)
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("g", {kohort.TopicPartition("orders", 0): 5})
    yield "orders"
    run("group", "delete", "g", "--yes")
    run("topics", "delete", "orders", "--yes")


def test_peek_shows_records_around_committed_offset(run, ask, orders):
    shown = run("group", "peek", "g", "orders:0")

    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[0] == ["READ", "OFFSET", "TIME", "KEY", "VALUE"]
    assert [(row[0], row[1]) for row in rows[1:]] == (
        [("yes", "2"), ("yes", "3"), ("yes", "4"), ("next", "5"), ("no", "6"), ("no", "7")]
    )
    assert r"\x1b[2J\n\\xff" in shown.stdout or r"\x1b[2J\n\xff" in shown.stdout
    assert "characters in all)" in shown.stdout
    assert shown.stdout.replace("\n", "").isprintable()
    assert shown.stderr == "orders-0: committed 5, 5 behind the end of the log, 10\n"
    about = ask("group", "peek", "g", "orders:0", "-B", "0", "-A", "1")
    (record,) = about["records"]
    assert (record["offset"], record["read"], record["key"]) == (5, "next", "k5")
    assert set(record["value"]) == {"base64"}
    assert record["headers"] == [{"name": "h", "value": {"base64": "/g=="}}]


def test_peek_reports_committed_offset_at_log_end_and_outside_log(run, ask, broker, orders):
    place = kohort.TopicPartition("orders", 0)
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("g", {place: 10})
        at_end = run("group", "peek", "g", "orders:0", "-B", "1")
        assert "all records are read" in at_end.stderr
        assert [line.split()[:2] for line in at_end.stdout.splitlines()[1:]] == [["yes", "9"]]
        admin.alter_group_offsets("g", {place: 99})
        beyond = run("group", "peek", "g", "orders:0")
        assert "committed 99, beyond the end of the log, 10" in beyond.stderr
        admin.alter_group_offsets("g", {place: 2})
        admin.delete_records({place: 6})
        lost = run("group", "peek", "g", "orders:0", "-A", "6")
        assert "4 offsets were deleted unread" in lost.stderr
        assert [line.split()[:2] for line in lost.stdout.splitlines()[1:]] == [["no", "6"], ["no", "7"]]


def test_peek_reports_missing_group_or_partition(run, orders):
    assert "no committed offset for orders-1" in run("group", "peek", "g", "orders:1", code=3).stderr
    assert "does not exist" in run("group", "peek", "g", "orders:7", code=3).stderr
    assert "does not exist" in run("group", "peek", "nobody", "orders:0", code=3).stderr
    assert "expected TOPIC:NUMBER" in run("group", "peek", "g", "orders", code=2).stderr
    assert "expected TOPIC:NUMBER" in run("group", "peek", "g", "orders:-1", code=2).stderr


def test_shell_completion_offers_committed_partitions(broker, orders):
    complete = ShellComplete(main, {}, "kohort", "_KOHORT_COMPLETE")
    words = ["group", "peek", "--bootstrap", broker.bootstrap, "g"]

    assert [item.value for item in complete.get_completions(words, "ord")] == ["orders:0"]
    assert complete.get_completions(["group", "peek", "--bootstrap", "127.0.0.1:1", "g"], "") == []

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("yaml")

from kohort import Admin, Broker, Consumer, NewTopic, Producer, TopicPartition
from kohort.cli.main import main

ORDERS = """\
name: orders
brokers: "@BROKERS@"
sources:
  orders: {topics: [orders], decode: {format: json, schema: "id long"}}
  rates: {topics: [rates], read: table, decode: {format: json, schema: "id long"}}
sinks: [{noop: }]
dlq: {topic: dead}
"""


def run(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["pipeline", *args])
    assert result.exit_code == code, result.output
    return result.output


def letter(topic: str, reason: str, **more: str) -> Sequence[tuple[str, bytes]]:
    fields = {"topic": topic, "reason": reason, "offset": "7", **more}
    return [("trace", b"1"), *((f"kohort-error.{name}", text.encode()) for name, text in fields.items())]


def read(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    first = TopicPartition(topic, 0)
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign([first])
        consumer.seek_to_beginning([first])
        end = consumer.end_offsets([first])[first]
        found = []
        while consumer.position(first) < end:
            found += [(r.key, r.value, list(r.headers)) for r in consumer.poll(500)]
    return found


def test_replay_sends_each_dead_letter_once_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    with Broker() as broker:
        file.write_text(ORDERS.replace("@BROKERS@", broker.bootstrap))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"orders": 1, "rates": 1, "dead": 2})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for n in range(3):
                producer.send("dead", b"%d" % n, b"k", partition=n % 2, headers=letter("orders", "no id"))
            producer.send("dead", None, b"t", headers=letter("rates", "no value", pipeline="orders"))
            producer.send("dead", b"x", b"o", headers=letter("orders", "late", pipeline="others"))
            producer.send("dead", b"y", b"o", headers=letter("elsewhere", "late"))
            producer.send("dead", b"z", b"o")

        waiting = run("replay", str(file), "--dry-run")
        assert waiting == (
            "3 no id\n3 dead letters to send back; 3 of other pipelines skipped\n"
            "1 tombstones skipped: --tombstones sends them and deletes their keys\n"
        )
        with_tombstones = run("replay", str(file), "--dry-run", "--tombstones")
        assert with_tombstones.startswith("3 no id\n1 no value\n4 dead letters to send back")
        assert read(broker.bootstrap, "orders") == []
        done = run("replay", str(file))
        assert "3 dead letters sent back" in done
        assert "1 tombstones skipped" in done
        assert "replayed records now come after newer records of their keys" in done
        assert "0 dead letters sent back" in run("replay", str(file))

        orders = read(broker.bootstrap, "orders")
        assert sorted(value for _, value, _ in orders if value is not None) == [b"0", b"1", b"2"]
        assert orders[0][0::2] == (b"k", [("trace", b"1")])
        assert read(broker.bootstrap, "rates") == []


def test_replay_sends_tombstones_only_with_tombstones_option(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    with Broker() as broker:
        file.write_text(ORDERS.replace("@BROKERS@", broker.bootstrap))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"orders": 1, "rates": 1, "dead": 1})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("dead", None, b"t", headers=letter("rates", "no value"))

        assert "1 dead letters sent back" in run("replay", str(file), "--tombstones")
        assert read(broker.bootstrap, "rates") == [(b"t", None, [("trace", b"1")])]


def test_replay_keeps_rejected_dead_letters(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    with Broker() as broker:
        file.write_text(ORDERS.replace("@BROKERS@", broker.bootstrap))
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 1, configs={"max.message.bytes": "200"}), NewTopic("dead", 1)])
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("dead", b"x" * 1000, b"k", headers=letter("orders", "no id"))

        assert "MESSAGE_TOO_LARGE" in run("replay", str(file), code=1)
        assert "1 dead letters to send back" in run("replay", str(file), "--dry-run")


def test_replay_reports_pipeline_without_dead_letter_topic(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS.replace("@BROKERS@", "127.0.0.1:1").replace("dlq: {topic: dead}\n", ""))

    assert "pipeline orders has no dlq" in run("replay", str(file), code=1)

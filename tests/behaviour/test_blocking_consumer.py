from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import kohort
from kohort import (
    ApiTimeout,
    ConfigError,
    NoOffsetForPartition,
    OffsetAndMetadata,
    TopicPartition,
    UndecodableValue,
    UsageError,
    Wakeup,
)
from kohort.aio.consuming import waits
from kohort.wire.record_batch import NewRecord, build_batch
from support.waiting import eventually

DEADLINE_S = 100
PARTITIONS = 6


@pytest.fixture(scope="module")
def producer(bootstrap: str) -> Iterator[kohort.Producer]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        yield producer


@pytest.fixture
def consumer(bootstrap: str, topic: str) -> Iterator[Callable[..., kohort.Consumer]]:
    with contextlib.ExitStack() as stack:

        def make(**options: object) -> kohort.Consumer:
            settings = {"group_id": topic, "auto_offset_reset": "earliest", "metadata_max_age_ms": 500, **options}
            return stack.enter_context(kohort.Consumer(bootstrap_servers=bootstrap, **settings))

        yield make


def send(producer: kohort.Producer, topic: str, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        producer.send(topic, b"%d" % n, key=b"k%d" % n)
    producer.flush()


until = functools.partial(eventually, deadline_s=DEADLINE_S, pause_s=0)  # who polls waits by itself


def read(consumer: kohort.Consumer, count: int) -> list[int]:
    found: list[int] = []
    until(lambda: found.extend(int(r.value) for r in consumer.poll(200)) or len(found) >= count)
    return sorted(found)


def test_consumer_reads_sent_records_with_keys_and_positions(producer, consumer, topic):
    send(producer, topic, 100)
    reader = consumer()
    reader.subscribe(topic)

    assert read(reader, 100) == list(range(100))
    assert reader.assignment() == {TopicPartition(topic, n) for n in range(6)}
    assert sum(reader.position(p) for p in reader.assignment()) == 100
    assert set(reader.lag().values()) == {0}
    reader.commit()
    committed = reader.committed(reader.assignment())
    assert sum(o.offset for o in committed.values() if o) == 100
    assert reader.end_offsets(reader.assignment()) == {p: reader.position(p) for p in reader.assignment()}
    assert set(reader.beginning_offsets(reader.assignment()).values()) == {0}


class Worker(threading.Thread):
    def __init__(self, make: Callable[..., kohort.Consumer], topic: str, **options: object) -> None:
        super().__init__(daemon=True)
        self.owned: set[int] = set()
        self.values_read: list[int] = []
        self.stopping = False
        self.failure: Exception | None = None
        options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200, "enable_auto_commit": True, **options}
        self.consumer = make(**options)
        self.consumer.subscribe(topic, listener=self)
        self.start()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        assert threading.current_thread() is self
        self.owned = self.owned | {p.partition for p in partitions}  # a new set: the test looks at it meanwhile

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.owned = self.owned - {p.partition for p in partitions}

    on_partitions_lost = on_partitions_revoked

    def run(self) -> None:
        try:
            while not self.stopping:
                self.values_read += [int(r.value) for r in self.consumer.poll(100)]
        except Exception as error:  # noqa: BLE001  # raised again by stop()
            self.failure = error

    def stop(self) -> None:
        self.stopping = True
        self.join(DEADLINE_S)
        if self.failure is not None:
            raise self.failure

    def vanish(self) -> None:
        self.stop()
        driver, io = self.consumer._driver, self.consumer._waits.io
        io.call(driver.close)
        self.consumer._waits.closing = True
        self.owned = set()


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    made: list[Worker] = []
    yield made
    for worker in made:
        worker.stopping = True
    for worker in made:
        worker.join(DEADLINE_S)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_group_of_three_threads_survives_a_dead_member(producer, consumer, workers, topic, strategy):
    make = functools.partial(consumer, partition_assignment_strategy=strategy)
    send(producer, topic, 60)
    workers += [Worker(make, topic) for _ in range(3)]
    until(
        lambda: (
            sorted(n for w in workers for n in w.owned) == list(range(6)) and all(len(w.owned) == 2 for w in workers)
        )
    )
    until(lambda: {n for w in workers for n in w.values_read} == set(range(60)))

    workers[0].vanish()
    until(lambda: sorted(n for w in workers for n in w.owned) == list(range(6)))
    send(producer, topic, 60, first=60)
    until(lambda: {n for w in workers for n in w.values_read} == set(range(120)))

    for worker in workers[1:]:
        worker.stop()
        worker.consumer.close()
    late = make()
    late.subscribe(topic)
    send(producer, topic, 10, first=120)
    assert read(late, 10) == list(range(120, 130)), "the group goes on where it was"


@pytest.mark.ours
def test_group_survives_the_restart_of_its_broker(tmp_path):
    options = {"group.initial.rebalance.delay.ms": 0}
    with kohort.Broker(options, data_dir=tmp_path) as broker:
        address = broker.bootstrap
        with kohort.Producer(bootstrap_servers=address) as producer:
            send(producer, "t", 10)
        first = kohort.Consumer(bootstrap_servers=address, group_id="g", auto_offset_reset="earliest")
        first.subscribe("t")
        assert read(first, 10) == list(range(10))
        first.commit()
    with kohort.Broker(options, data_dir=tmp_path, listen=address):
        with kohort.Producer(bootstrap_servers=address) as producer:
            send(producer, "t", 5, first=10)
        assert read(first, 5) == list(range(10, 15))
        first.commit()
        first.close()


@pytest.fixture(scope="module")
def arrow() -> object:
    pyarrow = pytest.importorskip("pyarrow")
    from kohort.columns.batches import OffsetRange
    from kohort.columns.decode import decode_batches

    decode_batches(build_batch([NewRecord(b"k", b"v")]), OffsetRange("t", 0, 0))
    return pyarrow


def test_poll_arrow_and_poll_return_the_same_records(arrow, producer, consumer, topic):
    send(producer, topic, 500)
    reader = consumer(enable_auto_commit="false")
    reader.subscribe(topic)
    tables = []
    until(lambda: tables.append(reader.poll_arrow(500)) or sum(t.num_rows for t in tables) >= 500)
    table = arrow.concat_tables(tables)

    assert sorted(int(v) for v in table["value"].to_pylist()) == list(range(500))
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value"]
    assert reader.poll_arrow(0, columns=["value"]).column_names == ["value"]
    reader.seek_to_beginning()
    assert read(reader, 500) == list(range(500))


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_megabytes_are_read_as_sent(arrow, bootstrap, consumer, topic, compression):
    sent = {b"%d" % n: bytes([n % 251]) * 60_000 for n in range(150)}
    with kohort.Producer(bootstrap_servers=bootstrap, compression_type=compression) as producer:
        for key, value in sent.items():
            producer.send(topic, value, key=key)
    reader = consumer()
    reader.assign([TopicPartition(topic, n) for n in range(PARTITIONS)])
    as_records: list[kohort.Record] = []
    tables: list[Any] = []

    def rows() -> int:
        return sum(table.num_rows for table in tables)

    until(lambda: as_records.extend(reader.poll(200, max_records=7)) or len(as_records) == 150)
    reader.seek_to_beginning()
    until(lambda: tables.append(reader.poll_arrow(200, columns=["key", "value"])) or rows() == 150)
    reader.seek_to_beginning()
    until(lambda: tables.append(reader.poll_arrow(200, columns=["key", "value"])) or rows() == 300)

    assert {record.key: record.value for record in as_records} == sent
    found = arrow.concat_tables(tables).to_pylist()
    assert all(sent[row["key"]] == row["value"] for row in found)
    assert {row["key"] for row in found[:150]} == {row["key"] for row in found[150:]} == set(sent)


def test_switch_from_poll_to_poll_arrow_loses_nothing(arrow, producer, consumer, topic):
    send(producer, topic, 100)
    reader = consumer()
    reader.assign([TopicPartition(topic, n) for n in range(6)])
    found: list[int] = []
    until(lambda: found.extend(int(r.value) for r in reader.poll(200, max_records=7)) or found)

    until(lambda: found.extend(int(v) for v in reader.poll_arrow(200)["value"].to_pylist()) or len(found) >= 100)

    assert sorted(found) == list(range(100))


def test_empty_poll_releases_the_gil(monkeypatch, consumer, topic):
    reader = consumer()
    reader.subscribe(topic)
    let_go: list[float] = []
    monkeypatch.setattr(waits, "time", SimpleNamespace(sleep=let_go.append))

    assert reader.poll(0) == []

    assert let_go == [0]


def test_iteration_counts_only_yielded_records(producer, consumer, topic):
    send(producer, topic, 50)
    reader = consumer(enable_auto_commit="false")
    reader.subscribe(topic)
    found = []
    for record in reader:
        found.append(int(record.value))
        if len(found) == 20:
            break
    reader.commit()

    assert sum(o.offset for o in reader.committed(reader.assignment()).values() if o) == 20
    assert sorted(found + read(reader, 30)) == list(range(50))


def test_seek_pause_resume_and_offsets_for_times(producer, consumer, topic):
    one = TopicPartition(topic, 3)
    for n in range(10):
        producer.send(topic, b"%d" % n, partition=3, timestamp_ms=1000 * (n + 1))
    producer.flush()
    reader = consumer(enable_auto_commit="false")
    reader.assign([one])
    reader.seek(one, 7)
    assert read(reader, 3) == [7, 8, 9]

    reader.seek(one, 0)
    reader.pause([one])
    assert reader.poll(300) == []
    assert reader.paused() == {one}
    reader.resume([one])
    assert read(reader, 10) == list(range(10))

    found = reader.offsets_for_times({one: 4500, TopicPartition(topic, 0): 4500})
    assert (found[one].offset, found[one].timestamp_ms) == (4, 5000)
    assert found[TopicPartition(topic, 0)] is None
    reader.seek_to_end([one])
    assert reader.position(one) == 10


def test_commit_async_callbacks_run_in_order_of_commits(producer, consumer, topic):
    send(producer, topic, 10)
    reader = consumer(enable_auto_commit="false")
    reader.subscribe(topic)
    read(reader, 10)
    callbacks: list[object] = []
    p = TopicPartition(topic, 0)
    reader.commit_async({p: OffsetAndMetadata(1)}, lambda offsets, error: callbacks.append((offsets[p].offset, error)))
    reader.commit_async({p: OffsetAndMetadata(2)}, lambda offsets, error: callbacks.append((offsets[p].offset, error)))

    reader.commit({p: OffsetAndMetadata(3, "done")})

    assert callbacks == [(1, None), (2, None)]
    assert reader.committed([p]) == {p: OffsetAndMetadata(3, "done")}


def test_listener_error_is_raised_by_poll_after_the_rebalance(consumer, producer, topic):
    send(producer, topic, 5)

    class Listener:
        def on_partitions_assigned(self, partitions):
            raise ZeroDivisionError("listener")

        def on_partitions_revoked(self, partitions): ...
        def on_partitions_lost(self, partitions): ...

    reader = consumer()
    reader.subscribe(topic, listener=Listener())
    with pytest.raises(ZeroDivisionError, match="listener"):
        until(lambda: reader.poll(200))

    assert read(reader, 5) == list(range(5))


def test_wakeup_interrupts_a_waiting_poll(consumer, topic):
    reader = consumer()
    reader.assign([TopicPartition(topic, 0)])
    threading.Timer(0.2, reader.wakeup).start()

    with pytest.raises(Wakeup):
        reader.poll(3_600_000)


def test_concurrent_use_error_names_both_threads(consumer, topic):
    reader = consumer()
    reader.assign([TopicPartition(topic, 0)])
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        with contextlib.suppress(Wakeup):
            reader.poll(30_000)

    other = threading.Thread(target=wait, name="the-poller")
    other.start()
    entered.wait()
    until(lambda: reader._waits._user is other)
    with pytest.raises(UsageError, match="'MainThread' called it while 'the-poller' uses it"):
        reader.assignment()
    reader.wakeup()
    other.join()
    assert reader.assignment() == {TopicPartition(topic, 0)}


def test_second_close_has_no_effect_and_closed_consumer_raises_usage_error(consumer):
    reader = consumer()
    reader.close()
    reader.close()

    with pytest.raises(UsageError, match="the consumer is closed"):
        reader.poll()
    assert list(reader) == []


def test_usage_errors_of_consumer_explain_the_mistake(consumer, bootstrap, topic):
    reader = consumer()
    reader.subscribe(topic)
    with pytest.raises(UsageError, match=r"call unsubscribe\(\) before changing to partitions"):
        reader.assign([TopicPartition(topic, 0)])
    with pytest.raises(UsageError, match=r"-7 is not assigned to this consumer"):
        reader.seek(TopicPartition(topic, 7), 0)
    with pytest.raises(ConfigError, match=r"did you mean group_id"):
        kohort.Consumer(bootstrap_servers=bootstrap, groupid="x")  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        kohort.Consumer(group_id="x")


def test_reset_policy_none_without_commit_raises_no_offset_for_partition(producer, consumer, topic):
    send(producer, topic, 3)
    reader = consumer(auto_offset_reset="none")
    reader.subscribe(topic)

    with pytest.raises(NoOffsetForPartition, match=r"auto\.offset\.reset is none; call seek\(\)"):
        until(lambda: reader.poll(200))


def test_unreachable_address_raises_an_explaining_timeout():
    with kohort.Consumer(bootstrap_servers="127.0.0.1:1", group_id="g") as reader:
        with pytest.raises(UsageError, match=r"subscribe\(\) to topics or assign\(\) partitions first"):
            reader.poll()
        reader.subscribe("t")
        assert reader.poll(100) == []
        with pytest.raises(ApiTimeout):
            reader.committed([TopicPartition("t", 0)], timeout_ms=300)


def test_garbage_collected_blocking_consumer_leaves_its_group(bootstrap, producer, consumer, topic):
    send(producer, topic, 1)
    dropped = [
        kohort.Consumer(
            bootstrap_servers=bootstrap, group_id=topic, metadata_max_age_ms=500, session_timeout_ms=1_800_000
        )
    ]
    dropped[0].subscribe(topic)
    until(lambda: dropped[0].poll(100) or dropped[0].assignment())

    with pytest.warns(ResourceWarning, match="a Consumer was dropped without close"):
        dropped.clear()

    successor = consumer()
    successor.subscribe(topic)
    until(lambda: successor.poll(100) or len(successor.assignment()) == 6)


def test_failed_commit_async_reports_to_its_callback_only(consumer, topic):
    reader = consumer(enable_auto_commit=False)
    reader.assign([TopicPartition(topic, 0)])
    errors: list[str] = []
    too_long = {TopicPartition(topic, 0): OffsetAndMetadata(1, "x" * 5000)}
    reader.commit_async(too_long, lambda _offsets, error: errors.append(str(error)))

    reader.commit({TopicPartition(topic, 0): OffsetAndMetadata(2)})

    assert "OFFSET_METADATA_TOO_LARGE" in errors[0]


def test_changed_assignment_commits_positions_of_the_previous(producer, consumer, topic):
    send(producer, topic, 12)
    reader = consumer(auto_commit_interval_ms=600_000)
    everything = [TopicPartition(topic, n) for n in range(6)]
    reader.assign(everything)
    assert read(reader, 12) == list(range(12))

    reader.assign(everything[:1])

    until(lambda: sum(o.offset for o in reader.committed(everything).values() if o) == 12)


def test_group_metadata_and_partitions_for(producer, consumer, topic):
    send(producer, topic, 1)
    reader = consumer(group_instance_id="static-1")
    assert reader.partitions_for(topic) == 6
    assert reader.group_metadata() == (topic, -1, "", "static-1")
    with pytest.raises(ApiTimeout, match="does the topic exist"):
        consumer(allow_auto_create_topics=False).partitions_for("nowhere", timeout_ms=300)

    reader.subscribe(topic)
    until(lambda: reader.poll(100) or reader.assignment())
    member = reader.group_metadata()
    assert member.generation_id > 0
    assert member.member_id.startswith("static-1-")


def test_enforce_rebalance_rejoins_at_the_next_poll(producer, consumer, topic):
    reader = consumer()
    with pytest.raises(UsageError, match=r"subscribe\(\) to topics first"):
        reader.enforce_rebalance()
    reader.subscribe(topic)
    until(lambda: reader.poll(100) or reader.assignment())
    generation = reader.group_metadata().generation_id

    reader.enforce_rebalance("the rules have changed")

    until(lambda: reader.poll(100) or reader.group_metadata().generation_id > generation)


@pytest.mark.parametrize("wrong", [None, b"bytes", 7, ["good", " "], ["good", None], ["good", b"bytes"]])
def test_invalid_subscription_raises_usage_error(consumer, wrong):
    reader = consumer()
    with pytest.raises(UsageError, match="subscribe:"):
        reader.subscribe(wrong)
    assert reader.subscription() == set()


def test_empty_subscription_or_assignment_unsubscribes(producer, consumer, topic):
    send(producer, topic, 1)
    reader = consumer()
    reader.subscribe(topic)
    until(lambda: reader.poll(100) or reader.assignment())
    reader.subscribe([])
    assert reader.assignment() == set()
    reader.assign([TopicPartition(topic, 0)])
    reader.assign([])
    reader.subscribe(topic)
    assert reader.subscription() == {topic}


def test_wakeup_interrupts_any_waiting_call(consumer, topic):
    reader = consumer(allow_auto_create_topics=False)
    reader.assign([TopicPartition(topic, 0)])
    threading.Timer(0.2, reader.wakeup).start()
    with pytest.raises(Wakeup):
        reader.partitions_for("is-never-created", timeout_ms=60_000)


INTERRUPTED = """
import os, signal, threading, kohort
with kohort.Consumer(bootstrap_servers={0!r}, group_id={1!r}, auto_offset_reset="earliest") as consumer:
    consumer.subscribe({1!r})
    while not consumer.poll(100):
        pass
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        consumer.poll(60_000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_interrupts_poll_and_close_still_commits_and_leaves(bootstrap, producer, consumer, topic):
    producer.send(topic, b"x", partition=0)
    producer.flush()
    script = INTERRUPTED.format(bootstrap, topic)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=False)

    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    successor = consumer()
    assert successor.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 1
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups([topic])[topic].state == "Empty"


def test_member_with_a_pending_join_can_leave_immediately(bootstrap, consumer, topic):
    ann, ben = consumer(), consumer()
    ann.subscribe([topic])
    until(lambda: ann.poll(100) or ann.assignment())
    ben.subscribe([topic])
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:  # ann polls no more: ben's join waits for five minutes
        until(lambda: ben.poll(100) or admin.describe_groups([topic])[topic].state == "PreparingRebalance")

        ben.close(timeout_ms=3_600_000)

        assert len(admin.describe_groups([topic])[topic].members) == 1


def test_json_values_become_columns_and_an_invalid_value_ends_the_table(arrow, producer, consumer, topic):
    schema = arrow.schema([("n", arrow.int64()), ("name", arrow.string())])
    for n in range(10):
        producer.send(topic, b'{"n": %d, "name": "x%d"}' % (n, n) if n != 6 else b"not json", partition=0)
    producer.flush()
    reader = consumer(enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    reader.assign([partition])

    rows: list[dict[str, Any]] = []
    with pytest.raises(UndecodableValue, match=rf"{topic}-0 at offset 6") as bad:
        until(lambda: rows.extend(reader.poll_arrow(5000, columns=["offset"], json=schema).to_pylist()))

    assert rows == [{"offset": n, "n": n, "name": f"x{n}"} for n in range(6)]
    assert reader.position(partition) == 6
    reader.seek(partition, bad.value.offset + 1)
    until(lambda: rows.extend(reader.poll_arrow(5000, columns=["offset"], json=schema).to_pylist()) or len(rows) == 9)
    assert [r["n"] for r in rows[6:]] == [7, 8, 9]


def test_iter_arrow_yields_batches_with_all_columns(arrow, producer, consumer, topic):
    everything = ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    for n in range(20):
        producer.send(topic, b"%d" % n, key=b"k", headers=[("h", b"%d" % n), ("none", None)], timestamp_ms=1000 + n)
    producer.flush()
    reader = consumer()
    reader.subscribe(topic)

    rows: list[dict[str, Any]] = []
    for batch in reader.iter_arrow(columns=everything):
        assert batch.schema.names == everything
        rows += batch.to_pylist()
        if len(rows) == 20:
            break
    assert [r["value"] for r in rows] == [b"%d" % n for n in range(20)]
    assert rows[7]["headers"] == [{"key": "h", "value": b"7"}, {"key": "none", "value": None}]
    assert {r["timestamp_type"] for r in rows} == {0}
    assert rows[7]["timestamp"].timestamp() == 1.007
    reader.commit()
    assert sum(o.offset for o in reader.committed(reader.assignment()).values() if o) == 20

"""Record batches of a producer: encoder, accumulator, and delivery to the broker's log."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.broker.broker import Broker
from kohort.client.producer import ProducerMachine, record_metadata, to_bytes, to_headers
from kohort.client.writing.accumulator import Accumulator, SendColumns
from kohort.client.writing.produce_batch import ProduceBatch, prebuilt
from kohort.clock import ManualClock
from kohort.config.broker import BrokerConfig
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, CorruptRecord, UsageError
from kohort.log.storage import MemoryStorage
from kohort.model import TopicPartition
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from kohort_lab.machines.loop import Loop

blobs = st.none() | st.binary(max_size=20) | st.sampled_from([63, 64, 300, 8191, 8192, 9000]).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3)
records = st.lists(
    st.builds(NewRecord, blobs, blobs, headers, st.integers(1_600_000_000_000, 1_800_000_000_000)),
    min_size=1,
    max_size=8,
)


def filled(new_records, codec=Codec.NONE) -> ProduceBatch:
    batch = ProduceBatch("t", 0, codec, ready_at_ms=0, deadline_ms=1)
    for index, record in enumerate(new_records):
        batch.keys.append(record.key)
        batch.values.append(record.value)
        batch.timestamps.append(record.timestamp_ms)
        if record.headers:
            batch.headers[index] = record.headers
    return batch


@pytest.mark.heavy
@given(records)
def test_encoded_batch_equals_batch_of_reference_encoder(new_records):
    batch = filled(new_records)
    batch.seal()
    batch.number(77, 3, 12)

    expected = build_batch(new_records, producer_id=77, producer_epoch=3, base_sequence=12)

    assert b"".join(bytes(buffer) for buffer in batch.buffers()) == expected


@given(records, st.sampled_from(list(Codec)))
def test_split_batch_keeps_records_and_sequence(new_records, codec):
    batch = filled([*new_records, NewRecord(b"k", b"v", (), 1_700_000_000_000)], codec)
    batch.seal()
    batch.number(1, 0, 5)
    whole = read_batch(b"".join(bytes(b) for b in batch.buffers()))

    left, right = batch.split()

    parts = [read_batch(b"".join(bytes(b) for b in part.buffers())) for part in (left, right)]
    assert [r[1:] for part in parts for r in part] == [r[1:] for r in whole]
    assert (left.base_sequence, right.base_sequence) == (5, 5 + left.count)
    assert batch.done


@pytest.mark.parametrize("codec", list(Codec))
def test_prebuilt_batch_keeps_its_records(codec):
    data = build_batch([NewRecord(b"k", b"v" * 100, (("h", b"x"),), 5)] * 3, codec=codec)

    batch = prebuilt("t", 0, data, deadline_ms=1)

    assert (batch.count, batch.codec) == (3, codec)
    assert b"".join(bytes(b) for b in batch.buffers()) == data


ONE = build_batch([NewRecord(None, b"v")])


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 10, bytes(80), ONE[:-1], ONE[:-1] + b"w", ONE + b"more", ONE + ONE],
    ids=["nothing", "too short", "zeros", "cut off", "changed", "something after it", "two"],
)
def test_prebuilt_bytes_must_be_exactly_one_batch(data):
    with pytest.raises(CorruptRecord):
        prebuilt("t", 0, data, deadline_ms=1)


def accumulator(**options):
    return Accumulator(ProducerConfig(bootstrap_servers=["one:9092"], **options))


def test_batch_is_at_most_batch_size_and_larger_record_gets_its_own_batch():
    acc = accumulator(batch_size=1000)
    for size in [100] * 50 + [5_000] + [100] * 50:
        acc.append("t", 0, None, bytes(size), (), 0, 0)

    batches = list(acc.batches())

    assert all(batch.size <= 1000 for batch in batches if len(batch.values) > 1)
    assert [len(batch.values) for batch in batches] == [7] * 7 + [1, 1] + [7] * 7 + [1]
    assert all(batch.ready_at_ms == 0 for batch in batches[:-1]), "full batches do not linger"


def test_batch_size_limit_of_topic_applies_to_its_later_batches_only():
    acc = accumulator(batch_size=1000)
    acc.set_limit("t", 500)
    for topic in ("t", "u"):
        acc.extend(topic, 0, SendColumns([None] * 20, [bytes(100)] * 20, [0] * 20, {}), 0)
        acc.append(topic, 0, None, bytes(100), (), 0, 0)

    most = {topic: max(b.size for b in acc.batches() if b.topic == topic) for topic in ("t", "u")}

    assert 250 < most["t"] <= 500 < most["u"] <= 1000


ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=40),
        st.none() | st.sampled_from([b"", b"v", bytes(700), bytes(30_000)]),
        st.integers(0, 9),
        st.just(()) | st.just([("name", b"value"), ("null", None)]),
    ),
    max_size=60,
)


@given(rows=ROWS, batch_size=st.sampled_from([0, 300, 16_384]), largest=st.sampled_from([40_000, 1_048_576]))
def test_record_columns_fill_same_batches_as_single_records(rows, batch_size, largest):
    options = {"batch_size": batch_size, "max_request_size": largest}
    singly, together = accumulator(**options), accumulator(**options)
    singly.append("t", 0, None, b"first", (), 5, 7)
    together.append("t", 0, None, b"first", (), 5, 7)

    places = {id(batch): (batch, place) for batch, place, _ in (singly.append("t", 0, *row(r), 7) for r in rows)}
    keys, values, times, headers = zip(*rows, strict=True) if rows else ((), (), (), ())
    lot = SendColumns(keys, values, times, {n: some for n, some in enumerate(headers) if some})
    lots = together.extend("t", 0, lot, 7)

    assert [(contents(batch), place) for batch, _, place in lots] == [
        (contents(batch), place) for batch, place in places.values()
    ]
    assert [*map(contents, together.batches())] == [*map(contents, singly.batches())]
    assert together.buffered_bytes == singly.buffered_bytes
    assert sum(last - first + 1 for _, first, last in lots) == len(rows)


def row(fields):
    key, value, timestamp_ms, headers = fields
    return key, value, headers, timestamp_ms


def contents(batch):
    waits = (batch.size, batch.full, batch.ready_at_ms, batch.deadline_ms)
    return [*batch.keys], [*batch.values], [*batch.timestamps], dict(batch.headers), waits


def test_records_before_too_large_record_in_columns_are_kept():
    acc = accumulator()
    lot = SendColumns([None] * 3, [b"a", bytes(1_048_577), b"b"], [0] * 3, {})

    with pytest.raises(ApiError, match="MESSAGE_TOO_LARGE"):
        acc.extend("t", 0, lot, 0)

    assert [batch.values for batch in acc.batches()] == [[b"a"]]


def test_batch_size_zero_creates_one_batch_per_record():
    acc = accumulator(batch_size=0)
    for _ in range(3):
        acc.append("t", 0, None, b"x", (), 0, 0)

    assert len(list(acc.batches())) == 3


def test_sealed_batch_takes_no_records_and_releases_memory():
    acc = accumulator(compression_type="gzip")
    acc.append("t", 0, None, bytes(10_000), (), 0, 0)
    assert acc.buffered_bytes > 10_000

    batch = acc.take(TopicPartition("t", 0))
    other, index, is_new = acc.append("t", 0, None, b"y", (), 0, 0)

    assert batch.size < 1000
    assert (other is batch, index, is_new) == (False, 0, True)
    acc.release(batch)
    assert acc.buffered_bytes == other.size


def test_record_above_max_request_size_is_rejected_without_reserving_memory():
    acc = accumulator()
    with pytest.raises(ApiError, match="MESSAGE_TOO_LARGE"):
        acc.append("t", 0, None, bytes(1_048_577), (), 0, 0)
    assert acc.buffered_bytes == 0


def test_record_keys_values_and_headers_accept_bytes_text_or_none():
    assert [to_bytes("key", x) for x in (None, b"a", "ä", bytearray(b"b"), memoryview(b"c"))] == [
        None,
        b"a",
        "ä".encode(),
        b"b",
        b"c",
    ]
    assert to_headers({"a": "x", "b": None}) == [("a", b"x"), ("b", None)]
    for wrong in (5, [("a",)], [(1, b"x")], [("a", 5)], "ab"):
        with pytest.raises(UsageError):
            to_headers(wrong)


def test_broker_log_has_every_record_once_in_order_under_connection_loss():
    rng, clock = random.Random(23), ManualClock()
    loop = Loop(clock)
    config = BrokerConfig(listen_host="one", listen_port=9092, num_partitions=2)
    broker = Broker(config, MemoryStorage(), random.Random(1), clock.now_ms())
    loop.serve(("one", 9092), broker)
    machine = ProducerMachine(ProducerConfig(bootstrap_servers=["one:9092"], linger_ms=5), random.Random(2))
    loop.add(machine.engine)
    loop.run_until(lambda: machine.partitions("t"))
    sent = []
    for n in range(600):
        now_ms = clock.now_ms()
        sent.append((n, machine.add("t", n % 2, NewRecord(None, b"%d" % n, (), now_ms), now_ms)))
        match rng.randrange(0, 12):
            case 0:
                loop.cut()
            case 1:
                loop.holding_answers = True
            case 2:
                loop.release_answers()
        loop.run(rng.randrange(1, 15))
    loop.release_answers()
    loop.run_until(lambda: machine.sender.idle)

    for partition in (0, 1):
        log = broker.state.topics.log("t", partition)
        data = b"".join(bytes(buffer) for buffer in log.read(0, 1 << 30))
        written = [r for at, _ in split_batches(data) for r in read_batch(data, at)]
        assert [r.value for r in written] == [b"%d" % n for n in range(partition, 600, 2)]
        offsets = [record_metadata(batch, index).offset for n, (batch, index, _) in sent if n % 2 == partition]
        assert offsets == [r.offset for r in written]


def test_engine_wakes_for_record_that_is_due_before_engine_timer():
    machine = ProducerMachine(ProducerConfig(bootstrap_servers=["one:9092"], linger_ms=5), random.Random(2))
    record = NewRecord(None, b"value", (), 1000)

    batch, _, wake = machine.add("t", 0, record, 1000)
    assert wake  # the engine has no earlier wake-up
    assert not machine.add("t", 0, record, 1000)[2]  # the batch has room for another record
    for wake_at_ms, needed in ((1003, False), (batch.ready_at_ms, False), (batch.ready_at_ms + 1, True), (1000, True)):
        machine.engine.wake_at_ms = wake_at_ms
        assert machine.needs_wake(batch, 1000) is needed
    batch.full = True
    machine.engine.wake_at_ms = 1003
    assert machine.needs_wake(batch, 1000)

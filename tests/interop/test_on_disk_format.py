"""Kafka's own dump tool reads what our broker leaves on disk: segments, indexes, snapshots, ``__consumer_offsets``."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress

import pytest

import kohort
from kohort import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kohort.wire.record_batch import split_batches
from support.peers.kafka_tools import kafka
from support.recent import RECENT_MS

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.timeout(600)]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PER_CODEC = 40


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Create the data folder of a cleanly stopped broker: a topic in every codec, and a group's lifecycle."""
    folder = tmp_path_factory.mktemp("data")
    with kohort.Broker(data_dir=folder, offsets_topic_num_partitions=1) as broker:
        address = {"bootstrap_servers": broker.bootstrap}
        with Admin(**address) as admin:
            admin.create_topics([NewTopic("orders", 1, 1, {"index.interval.bytes": "600", "segment.bytes": "5000"})])
        for i, codec in enumerate(CODECS):
            with Producer(**address, compression_type=codec, batch_size=800) as producer:
                for n in range(PER_CODEC):
                    at = RECENT_MS + (i * PER_CODEC + n) * 1000
                    producer.send("orders", f"{codec} {n} " * 20, f"k{n}", headers={"n": str(n)}, timestamp_ms=at)
        with Consumer(**address, group_id="billing", group_instance_id="one", client_id="reader") as consumer:
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(100)
            consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(7, "seven are done")})
            consumer.seek(TopicPartition("orders", 0), 7)
        with Admin(**address) as admin:
            admin.alter_group_offsets("gone", {TopicPartition("orders", 0): OffsetAndMetadata(3)})
            admin.delete_groups(["gone"])
    return folder


def dump(files, *options):
    return kafka("dump-log", "--files", ",".join(map(str, files)), *options)


def fields(line):
    """``a: 1 b: [x] c: some text`` as a dict; names are single words."""
    return dict(re.findall(r"(\w+): (.*?)(?= \w+: |$)", line.removeprefix("| ")))


def test_segments_are_read_record_by_record_in_every_codec(data):
    segments = sorted((data / "orders-0").glob("*.log"))
    assert len(segments) > 2
    lines = dump(segments, "--print-data-log").splitlines()

    batches = [fields(line) for line in lines if line.startswith("baseOffset")]
    assert all(b["isvalid"] == "true" and b["magic"] == "2" for b in batches)
    assert list(dict.fromkeys(b["compresscodec"] for b in batches)) == CODECS
    assert [int(b["baseOffset"]) for b in batches] == [0] + [int(b["lastOffset"]) + 1 for b in batches[:-1]]
    records = [fields(line) for line in lines if line.startswith("| offset")]
    found = [(int(r["offset"]), int(r["CreateTime"]), r["headerKeys"], r["key"], r["payload"]) for r in records]
    assert found == [
        (i * PER_CODEC + n, RECENT_MS + (i * PER_CODEC + n) * 1000, "[n]", f"k{n}", (f"{codec} {n} " * 20))
        for i, codec in enumerate(CODECS)
        for n in range(PER_CODEC)
    ]


def test_indexes_are_sane_and_point_at_batches(data):
    folder = data / "orders-0"
    segments = sorted(folder.glob("*.log"))
    indexes = [f.with_suffix(suffix) for f in segments for suffix in (".index", ".timeindex")]

    output = dump(indexes, "--index-sanity-check")
    assert output.count("passed sanity check") + output.count("is empty") == len(indexes)

    starts = {}
    for line in dump(segments).splitlines():
        if line.startswith("Dumping"):
            starts[base := line.split("/")[-1].removesuffix(".log")] = {}
        elif line.startswith("baseOffset"):
            starts[base][int(fields(line)["position"])] = int(fields(line)["lastOffset"])
    pointed = 0
    for line in dump([i for i in indexes if i.suffix == ".index"]).splitlines():
        if line.startswith("Dumping"):
            base = line.split("/")[-1].removesuffix(".index")
        elif line.startswith("offset"):
            entry = {name: int(number) for name, number in fields(line).items()}
            assert starts[base][entry["position"]] == entry["offset"]
            pointed += 1
    assert pointed >= len(segments)


def test_producer_snapshots_are_read(data):
    snapshot = max((data / "orders-0").glob("*.snapshot"))

    producers = [fields(line) for line in dump([snapshot]).splitlines() if line.startswith("producerId")]

    assert sorted(int(p["producerId"]) for p in producers) == list(range(len(CODECS)))
    assert {int(p["producerEpoch"]) for p in producers} == {0}
    ends = [(i + 1) * PER_CODEC - 1 for i in range(len(CODECS))]
    assert [int(p["lastOffset"]) for p in sorted(producers, key=lambda p: int(p["producerId"]))] == ends


def test_the_offsets_topic_decodes_with_kafka_s_own_decoder(data):
    output = dump([data / "__consumer_offsets-0" / "00000000000000000000.log"], "--offsets-decoder")
    records = []
    for line in output.splitlines():
        if line.startswith("| offset"):
            key, _, value = line.partition(" key: ")[2].partition(" payload: ")
            records.append((json.loads(key), None if value == "<DELETE>" else json.loads(value)))
    groups = [v["data"] for k, v in records if k["type"] == "2" and k["data"]["group"] == "billing" and v]
    offsets = [(k["data"], v["data"]) for k, v in records if k["type"] == "1" and k["data"]["group"] == "billing"]
    tombstones = [(k["type"], v) for k, v in records if k["data"]["group"] == "gone"]

    stable = [g for g in groups if g["members"] and g["members"][0]["assignment"]["assignedPartitions"]][-1]
    (member,) = stable["members"]
    assert (stable["protocolType"], stable["protocol"], stable["generation"]) == ("consumer", "range", 1)
    assert stable["leader"] == member["memberId"]
    assert (member["groupInstanceId"], member["clientId"], member["clientHost"]) == ("one", "reader", "/127.0.0.1")
    assert (member["sessionTimeout"], member["rebalanceTimeout"]) == (45000, 300000)
    assert member["subscription"]["topics"] == ["orders"]
    assert member["assignment"]["assignedPartitions"] == [{"topic": "orders", "partitions": [0]}]
    where, committed = offsets[0]
    assert where == {"group": "billing", "topic": "orders", "partition": 0}
    assert (committed["offset"], committed["metadata"]) == (7, "seven are done")
    assert tombstones[-2:] == [("1", None), ("2", None)], "tombstones end a group that was deleted"


def markers_in(folder):
    """The headers of control batches, in the order of the log; without segments that go meanwhile."""
    found = []
    for log in sorted(folder.glob("*.log")):
        with suppress(FileNotFoundError):
            found += [header for _, header in split_batches(log.read_bytes()) if header.is_control]
    return found


def has_dropped_some(markers):
    """Return True once compaction has removed the first marker."""
    return bool(markers) and markers[0].base_offset > 1 and any(m.delete_horizon_ms is not None for m in markers)


def test_markers_that_compaction_is_about_to_drop_are_read(tmp_path):
    """A delete horizon in the place of the base timestamp (KIP-534), and the gaps that dropped markers have left."""
    compacting = {"log_cleaner_backoff_ms": 100, "log_cleaner_min_cleanable_ratio": 0.01}
    topic = NewTopic("orders", 1, 1, {"cleanup.policy": "compact", "segment.bytes": "2000"})
    with kohort.Broker(data_dir=tmp_path, **compacting, log_cleaner_delete_retention_ms=1_000) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([topic])
        with Producer(bootstrap_servers=broker.bootstrap, transactional_id="importer") as producer:
            producer.init_transactions()
            deadline = time.monotonic() + 60
            while not has_dropped_some(markers := markers_in(tmp_path / "orders-0")):
                assert time.monotonic() < deadline, f"{len(markers)} markers, and none is dropped"
                producer.begin_transaction()
                producer.send("orders", "x" * 100, "k")
                producer.commit_transaction()

    lines = dump(sorted((tmp_path / "orders-0").glob("*.log")), "--print-data-log").splitlines()
    batches = [fields(line) for line in lines if line.startswith("baseOffset")]
    assert all(batch["isvalid"] == "true" for batch in batches)
    about_to_go = [b for b in batches if b["isControl"] == "true" and b["deleteHorizonMs"] != "OptionalLong.empty"]
    assert len(about_to_go) > 0
    assert sum("endTxnMarker: COMMIT" in line for line in lines) >= len(about_to_go)

"""Good journals, histories and recordings, made by the broker and by hand: what is mutated."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

from fuzz.trees import json_bytes
from kohort.broker.io import Connected, Disconnected, Received, Stalled, Tick
from kohort.broker.recording_broker import RecordingBroker
from kohort.broker.recording_format import MAGIC, RecordingHead
from kohort.config import BrokerConfig, parse_config
from kohort.wire.headers import RequestHeader, build_request
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.record_batch import read_batch, split_batches
from support.histories import WrittenHistory
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember

PREFIX = struct.Struct(">iI")


def entries() -> list[bytes]:
    """Return entries that a broker wrote: of a group that rebalances, loses members, fences, and is deleted."""
    stage = BrokerStage(offsets_topic_num_partitions=1)
    first = RawMember(stage.connect(), "g", ["a"])
    first.wire.create("a", 4)
    first.start_join()
    stage.advance(0)
    first.end_join()
    first.sync({first.member_id: {"a": [0, 1, 2, 3]}})
    first.commit("a", 0, 5)
    for _ in range(3):
        other = RawMember(stage.connect(), "g", ["a"])
        other.start_join()
        first.heartbeat()
        first.start_join()
        stage.advance(0)
        first.end_join()
        first.sync({first.member_id: {"a": [0, 1]}, other.member_id: {"a": [2, 3]}})
        first.commit("a", 0, 5, generation=0)
        stage.advance(9_000)
        first.heartbeat()
        stage.advance(2_000)
        first.heartbeat()
        first.start_join()
        stage.advance(31_000)
        first.wire.take_all()
        first = RawMember(stage.connect(), "g", ["a"])
        first.start_join()
        stage.advance(0)
        first.end_join()
        first.sync({first.member_id: {"a": [0, 1]}})
    stage.advance(100_000)
    log = stage.broker.state.topics.get("__kohort_journal").partitions[0]
    data = b"".join(bytes(part) for part in log.read(0, 1 << 20))
    return [record.value or b"" for at, _ in split_batches(data) for record in read_batch(data, at)]


def history() -> list[bytes]:
    """Return a history of two producers and a group."""
    made = WrittenHistory()
    writer, reader = made.client("p"), made.client("c", group="g")
    for n in range(6):
        writer.sends(f"v{n}", n)
    reader.has(1, 0)
    reader.reads((0, "v0"), (1, "v1"))
    reader.commits(2)
    reader.reads((2, "v2"), (3, "v3"))
    writer.sends("lost", None, result="unknown")
    return ["".join(json.dumps(line) + "\n" for line in made.lines).encode()]


def recording() -> bytes:
    """Return the recording of a broker that was asked a few things."""
    parts: list[bytes] = []
    head = RecordingHead(parse_config(BrokerConfig, {"offsets_topic_num_partitions": 1}), 7, 1_000)
    broker = RecordingBroker(head, random.Random(7), parts.append)
    now_ms = 1_000
    for given in (Connected(1, "h"), *asked(), Tick(), Stalled(1_000), Disconnected(1)):
        now_ms += 10
        broker.handle(given, now_ms)
    return b"".join(parts)


def asked() -> list[Any]:
    create = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])
    look = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    given = []
    for message, version in ((create, 7), (look, 12)):
        key = type(message).API_KEY
        assert key is not None
        frame = b"".join(bytes(part) for part in build_request(RequestHeader(key, version, 1, "x"), message))
        given.append(Received(1, frame))
    return given


def with_head(data: bytes, change: Callable[[Any], Any]) -> bytes:
    """Return a recording whose head, a tree of JSON, is changed, and whose checksums fit."""
    at = len(MAGIC)
    end = at + PREFIX.size + int.from_bytes(data[at : at + 4], "big")
    body = json_bytes(change(json.loads(data[at + PREFIX.size : end])))
    return with_checksums(data[:at] + PREFIX.pack(len(body), 0) + body + data[end:])


def with_checksums(data: bytes) -> bytes:
    """Return the entries of a recording with checksums that fit."""
    good, at = bytearray(data), len(MAGIC)
    while at + PREFIX.size <= len(good):
        size = int.from_bytes(good[at : at + 4], "big")
        body = bytes(good[at + PREFIX.size : at + PREFIX.size + size])
        if not size or len(body) < size:
            break
        good[at + 4 : at + 8] = zlib.crc32(body).to_bytes(4, "big")
        at += PREFIX.size + size
    return bytes(good)

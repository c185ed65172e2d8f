"""Encode and decode the messages of a group, compared with kio and kafka-python in the same run.

    python bench/bench_codec.py [--repeat 5] [--json FILE]

Each figure is microseconds of processor time for one message, the best of several repeats. The bytes of all three
libraries are compared first.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kio.serial

from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages import fetch, group_classic, metadata, offsets
from kohort.wire.schema import Message

MEMBER_ID = "consumer-orders-1-0f4f2a6e-6f3c-4b59-9f59-c2d1a7e6b0aa"
PEERS = ("kio", "kafka-python")
NANOSECONDS_A_ROUND = 20_000_000


def cases() -> list[tuple[str, Message, int]]:
    """Return messages in the sizes of a group with a few dozen members."""
    join = group_classic.JoinGroupRequest(
        group_id="orders",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=MEMBER_ID,
        protocol_type="consumer",
        protocols=[
            group_classic.JoinGroupRequestProtocol(name="range", metadata=bytes(60)),
            group_classic.JoinGroupRequestProtocol(name="cooperative-sticky", metadata=bytes(84)),
        ],
        reason="rebalance in progress",
    )
    leader = group_classic.JoinGroupResponse(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader=MEMBER_ID,
        member_id=MEMBER_ID,
        members=[
            group_classic.JoinGroupResponseMember(member_id=f"{MEMBER_ID}-{i}", metadata=bytes(84)) for i in range(30)
        ],
    )
    heartbeat = group_classic.HeartbeatRequest(group_id="orders", generation_id=7, member_id=MEMBER_ID)
    cluster = metadata.MetadataResponse(
        cluster_id="c",
        controller_id=0,
        brokers=[metadata.MetadataResponseBroker(node_id=i, host="broker.example", port=9092) for i in range(3)],
        topics=[
            metadata.MetadataResponseTopic(
                name=f"topic-{t}",
                topic_id=bytes(15) + bytes([t + 1]),
                partitions=[
                    metadata.MetadataResponsePartition(partition_index=p, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2])
                    for p in range(12)
                ],
            )
            for t in range(5)
        ],
    )
    fetching = fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_id=9,
        session_epoch=3,
        topics=[
            fetch.FetchTopic(
                topic_id=bytes(15) + bytes([t + 1]),
                partitions=[
                    fetch.FetchPartition(partition=p, fetch_offset=1000, partition_max_bytes=1 << 20) for p in range(6)
                ],
            )
            for t in range(2)
        ],
    )
    commit = offsets.OffsetCommitRequest(
        group_id="orders",
        generation_id_or_member_epoch=7,
        member_id=MEMBER_ID,
        topics=[
            offsets.OffsetCommitRequestTopic(
                name="flights",
                partitions=[
                    offsets.OffsetCommitRequestPartition(
                        partition_index=p, committed_offset=1000 + p, committed_metadata=""
                    )
                    for p in range(12)
                ],
            )
        ],
    )
    return [
        ("JoinGroup v9 request", join, 9),
        ("JoinGroup v9 response, 30 members", leader, 9),
        ("Heartbeat v4 request", heartbeat, 4),
        ("Metadata v12 response, 60 partitions", cluster, 12),
        ("Fetch v17 request, 12 partitions", fetching, 17),
        ("OffsetCommit v9 request, 12 partitions", commit, 9),
    ]


def kio_pair(message: Message, version: int, body: bytes) -> tuple[Callable[[], bytes], Callable[[], Any]]:
    side = "request" if type(message).__name__.endswith("Request") else "response"
    name = type(message).__name__
    api = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name.removesuffix(side.title())).lower()
    entity = getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{side}"), name)
    read, write = kio.serial.entity_reader(entity), kio.serial.entity_writer(entity)
    value = read(body, 0)[0]

    def encode_it() -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return encode_it, lambda: read(body, 0)


def kafka_python_pair(message: Message, version: int, body: bytes) -> tuple[Callable[[], bytes], Callable[[], Any]]:
    families = [importlib.import_module(f"kafka.protocol.{f}") for f in ("consumer", "metadata", "admin", "producer")]
    entity = next(getattr(f, type(message).__name__) for f in families if hasattr(f, type(message).__name__))
    value = entity.decode(body, version=version)
    value._header = None  # the decoder leaves a field unset that the encoder reads
    return lambda: bytes(value.encode(version=version)), lambda: entity.decode(body, version=version)


def microseconds(call: Callable[[], Any], repeat: int) -> float:
    """Return the processor time of one call: the best round, each long enough for the clock."""
    call()
    started = time.perf_counter_ns()
    call()
    count = max(1, NANOSECONDS_A_ROUND // max(time.perf_counter_ns() - started, 1))
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time_ns()
        for _ in range(count):
            call()
        best = min(best, (time.process_time_ns() - started) / count)
    return round(best / 1000, 2)


def measure(repeat: int) -> list[dict[str, Any]]:
    rows = []
    for label, message, version in cases():
        body = encode_bytes(message, version)
        cls = type(message)
        pairs = {
            "kohort": (
                lambda m=message, v=version: encode_bytes(m, v),
                lambda c=cls, v=version, b=body: decode(c, v, b),
            ),
            "kio": kio_pair(message, version, body),
            "kafka-python": kafka_python_pair(message, version, body),
        }
        for name, (encode_it, _) in pairs.items():
            if encode_it() != body:
                sys.exit(f"{name} writes other bytes for {label}")
        for does, which in (("encode", 0), ("decode", 1)):
            row: dict[str, Any] = {"message": label, "does": does, "bytes": len(body)}
            row |= {f"{name}_us": microseconds(pair[which], repeat) for name, pair in pairs.items()}
            row |= {f"{peer}_over_kohort": round(row[f"{peer}_us"] / row["kohort_us"], 2) for peer in PEERS}
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = measure(options.repeat)
    print(f"{'µs a message':42}{'bytes':>7}{'':8}{'kohort':>9}{'kio':>16}{'kafka-python':>18}")
    for row in rows:
        beside = "".join(f"{row[f'{p}_us']:>9.2f} ({row[f'{p}_over_kohort']:>4.1f}x)" for p in PEERS)
        print(f"{row['message']:42}{row['bytes']:>7}  {row['does']:6}{row['kohort_us']:>9.2f}{beside}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()

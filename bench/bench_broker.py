"""Throughput and start of a served broker: Produce and Fetch with raw requests, and with confluent-kafka if installed.

    python bench/bench_broker.py [--data DIR] [--seconds 5] [--record-bytes 200] [--batch-records 500] [--json FILE]

The raw client sends prebuilt batches and does not decode records, so that the figures are the broker's. Several
requests are in flight, as with producers.
"""

from __future__ import annotations

import argparse
import json
import platform
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kohort.wire.headers import RequestHeader, build_request
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import Message

UNDER_WAY = 5


class Client:
    """A connection with several requests in flight."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(1 << 22)

    def request(self, message: Message, version: int) -> bytes:
        return b"".join(build_request(RequestHeader(type(message).API_KEY or 0, version, 1, "bench"), message))

    def send(self, request: bytes) -> None:
        self.socket.sendall(request)

    def skip_answer(self) -> int:
        """Read one answer and return its size."""
        head = self.socket.recv(4, socket.MSG_WAITALL)
        (size,) = struct.unpack(">i", head)
        remaining = size
        view = memoryview(self.buffer)
        while remaining:
            got = self.socket.recv_into(view, min(remaining, len(self.buffer)))
            if not got:
                raise EOFError("the broker closed the connection")
            remaining -= got
        return int(size)

    def repeat(self, request: bytes, seconds: float) -> tuple[int, int, float]:
        """Return the number of answered requests, the bytes of the responses, and the duration."""
        count = size = 0
        for _ in range(UNDER_WAY):
            self.send(request)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            size += self.skip_answer()
            count += 1
            self.send(request)
        took = time.perf_counter() - started
        for _ in range(UNDER_WAY):
            self.skip_answer()
        return count, size, took


def serve(data: str | None) -> tuple[subprocess.Popen[str], str, float]:
    """Start a broker; return its process, address, and start time in seconds."""
    where = ["--data", data] if data else ["--memory"]
    command = [
        sys.executable,
        "-m",
        "kohort",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--output",
        "json",
        "--quiet",
        *where,
    ]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    bootstrap = json.loads(process.stdout.readline())["bootstrap"]
    return process, bootstrap, time.perf_counter() - started


def resident_mb(pid: int) -> float | None:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    (line,) = [x for x in status.read_text().splitlines() if x.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def raw(bootstrap: str, args: argparse.Namespace) -> dict[str, Any]:
    client = Client(bootstrap)
    batch = build_batch([NewRecord(None, b"x" * args.record_bytes)] * args.batch_records)
    part = PartitionProduceData(index=0, records=batch)
    produce = client.request(
        ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="bench", partition_data=[part])]), 9
    )
    requests, _, took = client.repeat(produce, args.seconds)
    produced = {
        "requests_per_s": round(requests / took),
        "records_per_s": round(requests * args.batch_records / took),
        "mb_per_s": round(requests * len(batch) / took / 1e6, 1),
    }
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = client.request(
        FetchRequest(
            max_bytes=1 << 22, session_epoch=-1, min_bytes=1, topics=[FetchTopic(topic="bench", partitions=[partition])]
        ),
        12,
    )
    requests, size, took = client.repeat(fetch, args.seconds)
    fetched = {
        "requests_per_s": round(requests / took),
        "records_per_s": round(size / len(batch) * args.batch_records / took),
        "mb_per_s": round(size / took / 1e6, 1),
    }
    heartbeat = client.request(HeartbeatRequest(group_id="bench", generation_id=1, member_id="nobody"), 4)
    requests, _, took = client.repeat(heartbeat, args.seconds / 2)
    return {"produce": produced, "fetch": fetched, "heartbeat": {"requests_per_s": round(requests / took)}}


def confluent(bootstrap: str, args: argparse.Namespace) -> dict[str, Any] | None:
    try:
        from confluent_kafka import Consumer, Producer, TopicPartition
    except ImportError:
        return None
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    value = b"x" * args.record_bytes
    count = 0
    started = time.perf_counter()
    while time.perf_counter() - started < args.seconds:
        for _ in range(1000):
            producer.produce("confluent", value)
        count += 1000
        producer.poll(0)
        while len(producer) > 500_000:
            producer.poll(0.01)
    producer.flush()
    produced = count / (time.perf_counter() - started)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("confluent", 0, 0)])
    got, started = 0, time.perf_counter()
    while got < count and time.perf_counter() - started < 4 * args.seconds:
        got += len(consumer.consume(10_000, 0.5))
    consumed = got / (time.perf_counter() - started)
    consumer.close()
    return {"produce": {"records_per_s": round(produced)}, "consume": {"records_per_s": round(consumed)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="keep data in this folder instead of in memory")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--record-bytes", type=int, default=200)
    parser.add_argument("--batch-records", type=int, default=500)
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()

    started = time.perf_counter()
    process, bootstrap, ready_s = serve(args.data)
    try:
        client = Client(bootstrap)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("bench", "confluent")]
        client.send(client.request(CreateTopicsRequest(topics=topics, timeout_ms=5000), 5))
        client.skip_answer()
        part = PartitionProduceData(index=0, records=build_batch([NewRecord(None, b"first")]))
        first = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="bench", partition_data=[part])]
        )
        client.send(client.request(first, 9))
        client.skip_answer()
        results: dict[str, Any] = {
            "start": {
                "ready_s": round(ready_s, 3),
                "first_produce_acknowledged_s": round(time.perf_counter() - started, 3),
                "resident_mb": resident_mb(process.pid),
            },
            "raw": raw(bootstrap, args),
            "confluent_kafka": confluent(bootstrap, args),
            "resident_mb_at_the_end": resident_mb(process.pid),
            "machine": {"python": platform.python_version(), "system": platform.platform()},
            "settings": {k: v for k, v in vars(args).items() if k != "json"},
        }
    finally:
        process.terminate()
        process.wait(20)
    text = json.dumps(results, indent=2)
    print(text)
    if args.json:
        Path(args.json).write_text(text + "\n")


if __name__ == "__main__":
    main()

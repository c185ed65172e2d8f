"""Cost of a Heartbeat and a small Produce in the broker, from request bytes to response bytes.

    python bench/bench_requests.py [--seconds 3] [--json]

The broker's state machine alone, without sockets, with a server's clock. Processor time of this process; the minimum of
many laps, because other work makes some of them longer.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.io import Connected, Received, Send, Tick
from kohort.config import BrokerConfig
from kohort.log.storage import MemoryStorage
from kohort.wire.apis import APIS
from kohort.wire.frames import FrameReader
from kohort.wire.headers import RequestHeader, build_request, parse_response
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import Message

START_MS = 1_700_000_000_000
LAP = 2_000


class Machine:
    """A broker with one topic and one group of one member."""

    def __init__(self) -> None:
        config = BrokerConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
        self.now_ms = START_MS
        self.broker = Broker(config, MemoryStorage(), random.Random(1), START_MS)
        if hasattr(self.broker.state, "counters"):
            self.broker.state.counters.time_ns = time.perf_counter_ns
        self.broker.handle(Connected(1, "10.0.0.1"), START_MS)
        self.ask(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 5)
        self.ask(FindCoordinatorRequest(key="g", key_type=0), 2)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined: Any = self.ask(join, 3)
        self.member = joined.member_id
        assigned = [SyncGroupRequestAssignment(member_id=self.member, assignment=b"")]
        self.ask(SyncGroupRequest(group_id="g", generation_id=1, member_id=self.member, assignments=assigned), 3)

    def frame(self, message: Message, version: int) -> bytes:
        header = RequestHeader(type(message).API_KEY or 0, version, 1, "bench")
        return b"".join(build_request(header, message))

    def ask(self, message: Message, version: int) -> Message:
        out = [*self.broker.handle(Received(1, self.frame(message, version)), self.now_ms)]
        out += self.broker.handle(Tick(), self.now_ms)  # a round without a delay ends at once
        sent = b"".join(bytes(buffer) for one in out if isinstance(one, Send) for buffer in one.buffers)
        (frame,) = FrameReader(1 << 30).feed(sent)
        return parse_response(frame, APIS[message.API_KEY or 0].response, version)[1]

    def us(self, message: Message, version: int, seconds: float) -> float:
        """Return the microseconds per request: the minimum of the laps."""
        received, handle = Received(1, self.frame(message, version)), self.broker.handle
        best = float("inf")
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            self.now_ms += 1
            started = time.process_time_ns()
            for _ in range(LAP):
                handle(received, self.now_ms)
            best = min(best, (time.process_time_ns() - started) / LAP / 1000)
        return round(best, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    machine = Machine()
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=machine.member)
    part = PartitionProduceData(index=0, records=build_batch([NewRecord(None, b"x" * 100)]))
    produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[part])])
    found = {
        "heartbeat_us": machine.us(heartbeat, 3, args.seconds),
        "produce_us": machine.us(produce, 7, args.seconds),
    }
    print(json.dumps(found) if args.json else "\n".join(f"{name:<16} {value:8.2f}" for name, value in found.items()))


if __name__ == "__main__":
    main()

"""Consumer groups (KIP-848) in the coordinator: many members that join at once, and their heartbeats.

    python bench/bench_consumer_groups.py [--members 1000] [--partitions 1000] [--idle 10000] [--json]

One thread, no sockets, no invariant checks, as in a server. CPU times of this process. ``join_cpu_s``: from the first
heartbeat until all members own their target assignment, with one heartbeat of each member per second of the group's
clock; ``idle_core_share``: unchanged heartbeats every 5 s.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence

from kohort.config import BrokerConfig
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.records import KeyValue
from kohort.coordinator.runtime import Coordinator
from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

START_MS = 1_700_000_000_000
TOPIC_ID = b"t" * 16
INTERVAL_S = 5


class Topics:
    """One topic."""

    version = 1

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def topic_id(self, name: str) -> bytes | None:
        return TOPIC_ID if name == "t" else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return "t" if topic_id == TOPIC_ID else None

    def partition_count(self, name: str) -> int | None:
        return self._partitions if name == "t" else None

    def end_offset(self, _name: str, _partition: int) -> int | None:
        return None

    def made_at_ms(self, _name: str) -> int | None:
        return None

    def names(self) -> list[str]:
        return ["t"]


class Group:
    """Correct clients of one group."""

    def __init__(self, members: int, partitions: int) -> None:
        self.log: list[KeyValue] = []

        def append(_partition: int, records: Sequence[KeyValue], *_: object) -> None:
            self.log.extend(records)

        config = BrokerConfig(offsets_topic_num_partitions=1)
        self.coordinator = Coordinator(config, random.Random(1), Topics(partitions), append)
        self.coordinator.start_loading(0)
        self.coordinator.finish_loading(0, START_MS)
        self.epochs = {f"member-{i:05}": 0 for i in range(members)}
        self.owned: dict[str, list[int]] = {member_id: [] for member_id in self.epochs}
        self.spent_s = 0.0
        self.beats = 0

    def beat(self, member_id: str, now_ms: int, *, owns: bool) -> None:
        epoch = self.epochs[member_id]
        message = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
        if not epoch:
            message.rebalance_timeout_ms = 60_000
            message.subscribed_topic_names = ["t"]
            message.topic_partitions = []
        elif owns:
            owned = ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC_ID, partitions=self.owned[member_id])
            message.topic_partitions = [owned]
        request = GroupRequest(message, 1, "app", "/127.0.0.1", None)
        begun_s = time.process_time()
        (reply,) = self.coordinator.handle(request, now_ms)
        self.spent_s += time.process_time() - begun_s
        self.beats += 1
        answer = reply.message
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        assert not answer.error_code, answer
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[member_id] = [p for topic in answer.assignment.topic_partitions for p in topic.partitions]

    def settle(self, partitions: int) -> int:
        """Send heartbeats of all members until all partitions are assigned; return the number of rounds."""
        now_ms, rounds = START_MS, 0
        share = -(-partitions // len(self.epochs))
        while sum(map(len, self.owned.values())) < partitions or max(map(len, self.owned.values())) > share:
            for i, member_id in enumerate(self.epochs):
                self.beat(member_id, now_ms + i * 1_000 // len(self.epochs), owns=True)
            now_ms += 1_000
            rounds += 1
        return rounds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    joining = Group(options.members, options.partitions)
    rounds = joining.settle(options.partitions)
    idle = Group(options.idle, options.idle)
    idle.settle(options.idle)
    idle.spent_s, idle.beats = 0.0, 0
    for member_id in idle.epochs:
        idle.beat(member_id, START_MS + 60_000, owns=False)
    figures = {
        "join_cpu_s": round(joining.spent_s, 3),
        "join_rounds": rounds,
        "join_heartbeats": joining.beats,
        "join_records": len(joining.log),
        "idle_us_per_heartbeat": round(idle.spent_s / idle.beats * 1e6, 1),
        "idle_core_share": round(idle.spent_s / INTERVAL_S, 3),
    }
    print(json.dumps(figures) if options.json else "\n".join(f"{name:24} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()

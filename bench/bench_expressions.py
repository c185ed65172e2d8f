"""Subscription patterns of consumer groups (KIP-848) in the coordinator: many patterns over many topics.

    python bench/bench_expressions.py [--topics 10000] [--expressions 1000] [--groups 1] [--narrow] [--json]

One thread, no sockets, no invariant checks, as in a server. Each member has its own pattern, which matches every topic,
or with ``--narrow`` one. Milliseconds are processor time of the longest single event of its kind: a join, a step of the
search, an expiry of offsets, the heartbeat that computes the target assignment. ``held_mb`` is the patterns' share of
the memory budget.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from kohort.config import BrokerConfig
from kohort.coordinator.memory_budget import sizes_of
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.runtime import Coordinator
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

START_MS = 1_700_000_000_000
LONG_MS = 3_600_000
T = TypeVar("T")


class Topics:
    """``count`` topics of one partition each."""

    version = 1

    def __init__(self, count: int) -> None:
        self._ids = {f"topic-{i:06}": i.to_bytes(16) for i in range(1, count + 1)}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition_count(self, name: str) -> int | None:
        return 1 if name in self._ids else None

    def names(self) -> Iterable[str]:
        return self._ids


class Longest:
    """The longest event of each kind in ms, and the total time."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self.all_s: dict[str, float] = {}

    def of(self, kind: str, event: Callable[[], T]) -> T:
        begun_s = time.process_time()
        result = event()
        spent_s = time.process_time() - begun_s
        self.ms[kind] = max(self.ms.get(kind, 0.0), spent_s * 1e3)
        self.all_s[kind] = self.all_s.get(kind, 0.0) + spent_s
        return result


def measure(topics: int, expressions: int, groups: int, *, narrow: bool) -> dict[str, float]:
    def append(*_: object) -> None: ...

    config = BrokerConfig(
        offsets_topic_num_partitions=1,
        group_coordinator_max_bytes=-1,
        group_consumer_session_timeout_ms=LONG_MS,
        group_consumer_max_session_timeout_ms=LONG_MS,
    )
    coordinator = Coordinator(config, random.Random(1), Topics(topics), append)
    coordinator.start_loading(0)
    coordinator.finish_loading(0, START_MS)
    longest, now_ms = Longest(), START_MS

    def send(kind: str, message: object) -> None:
        request = GroupRequest(message, 1, "app", "/127.0.0.1", None)  # type: ignore[arg-type]
        (reply,) = longest.of(kind, lambda: coordinator.handle(request, now_ms))
        assert not reply.message.error_code, reply.message  # type: ignore[attr-defined]

    for i in range(expressions * groups):
        regex = f"topic-{i % topics:06}.*" if narrow else f"(topic-.*|{i})"
        send("join", heartbeat(f"g{i % groups}", f"member-{i:05}", regex))
    steps = 0
    while (wake_ms := coordinator.wake_at_ms) is not None and wake_ms < START_MS + LONG_MS // 100:
        now_ms = max(now_ms, wake_ms)
        longest.of("step", partial(coordinator.tick, now_ms))
        steps += 1
    request_topics = [
        OffsetDeleteRequestTopic(name=f"none-{i}", partitions=[OffsetDeleteRequestPartition()]) for i in range(1_000)
    ]
    send("offset_delete", OffsetDeleteRequest(group_id="g0", topics=request_topics))
    now_ms += 1_000
    send("target", heartbeat("g0", "member-00000", None))
    size_bytes = sum(size for size, _ in sizes_of(coordinator.groups_in_partition_of("g0")))  # type: ignore[arg-type]
    figures = {f"{kind}_ms": round(ms, 1) for kind, ms in longest.ms.items()}
    return figures | {
        "steps": steps,
        "steps_s": round(longest.all_s["step"], 1),
        "search_took_ms": now_ms - START_MS - 1_000,
        "held_mb": round(size_bytes / 1e6, 1),
    }


def heartbeat(group: str, member_id: str, regex: str | None) -> ConsumerGroupHeartbeatRequest:
    if regex is None:
        return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=1)
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--expressions", type=int, default=1_000, help="patterns of each group")
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--narrow", action="store_true", help="let each pattern match one topic")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.topics, options.expressions, options.groups, narrow=options.narrow)
    print(json.dumps(figures) if options.json else "\n".join(f"{name:24} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()

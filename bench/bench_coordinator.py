"""Coordinator events per second in process: heartbeats, commits, many members that join one group, many groups. See
also bench_group_size.py, and bench_offsets_load.py for the load of a log.

    python bench/bench_coordinator.py [--members 1000] [--groups 1000] [--seconds 2] [--json]

One thread, no sockets, a list as the log, no invariant checks, as in a server. CPU times of this process;
``python_additions_per_second`` measures the machine, to compare runs. The core share of many groups is given for the
coordinator alone, and for a broker that decodes and encodes frames.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.io import Connected, Received, Send
from kohort.config import BrokerConfig
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.records import KeyValue
from kohort.coordinator.runtime import Coordinator
from kohort.log.storage import MemoryStorage
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription
from kohort.wire.headers import RequestHeader, build_request
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.schema import Message

START_MS = 1_700_000_000_000
LAP = 100


class Topics:
    """One topic, as many partitions as members."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def topic_id(self, name: str) -> bytes | None:
        return b"t" * 16 if name == "t" else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return "t" if topic_id == b"t" * 16 else None

    def partition_count(self, name: str) -> int | None:
        return self._partitions if name == "t" else None

    def end_offset(self, _name: str, _partition: int) -> int | None:
        return None

    def made_at_ms(self, _name: str) -> int | None:
        return None


class Bench:
    """A coordinator and a loop of requests."""

    def __init__(self, members: int, coordinator: Coordinator | None = None) -> None:
        self.log: list[KeyValue] = []
        self.now_ms = START_MS
        if coordinator is None:
            config = BrokerConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3000)
            coordinator = Coordinator(config, random.Random(1), Topics(members), self._append)
            coordinator.start_loading(0)
            coordinator.finish_loading(0, self.now_ms)
        self.coordinator = coordinator
        self.answers: dict[Any, Any] = {}
        self.tickets = 0

    def _append(self, _partition: int, records: Sequence[KeyValue], _now_ms: int, _producer: object) -> None:
        self.log.extend(records)

    def ask(self, message: Message, version: int, ticket: Any = None) -> Any:
        request = GroupRequest(message, version, "bench", "/127.0.0.1", ticket, 1)
        for reply in self.coordinator.handle(request, self.now_ms):
            self.answers[reply.to] = reply.message
        return self.answers.get(ticket)

    def tick(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        for reply in self.coordinator.tick(self.now_ms):
            self.answers[reply.to] = reply.message


def join_request(member_id: str, metadata: bytes, group_id: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=n, metadata=metadata) for n in ("range", "cooperative-sticky")],
    )


def laps(act: Callable[[int], None], count: int) -> list[float]:
    """Return CPU seconds of ``act(0)``, ``act(1)``, ..., in laps of ``LAP``: on a busy machine the best lap counts."""
    found = []
    for first in range(0, count, LAP):
        began = time.process_time()
        for i in range(first, min(first + LAP, count)):
            act(i)
        found.append(time.process_time() - began)
    return found


def form_group(bench: Bench, members: int) -> tuple[dict[str, list[float]], list[str], int]:
    """Let ``members`` join one group in two steps each and sync; CPU seconds of each phase in laps."""
    metadata = build_subscription(Subscription(["t"]))
    times: dict[str, list[float]] = {}
    ids: list[str] = []
    times["member_ids"] = laps(lambda i: ids.append(bench.ask(join_request("", metadata), 9, i).member_id), members)
    times["join"] = laps(lambda i: bench.ask(join_request(ids[i], metadata), 9, ("join", i)), members)
    began = time.process_time()
    while ("join", 0) not in bench.answers:
        bench.tick(3000)
    times["close_round"] = [time.process_time() - began]

    generation, leader = bench.answers["join", 0].generation_id, bench.answers["join", 0].leader
    assignments = [
        SyncGroupRequestAssignment(member_id=m, assignment=build_assignment(Assignment([("t", i)])))  # type: ignore[list-item]  # a pair will do
        for i, m in enumerate(ids)
    ]

    def sync(i: int) -> None:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=ids[-1 - i],
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments if ids[-1 - i] == leader else [],
        )
        bench.ask(request, 5, ("sync", ids[-1 - i]))

    times["sync"] = laps(sync, members)
    assert all(bench.answers["sync", m].error_code == 0 for m in ids)
    return times, ids, generation


def form_groups(bench: Bench, groups: int) -> list[GroupRequest]:
    """Form stable groups of three members; return a heartbeat of every member."""
    metadata, names = build_subscription(Subscription(["t"])), range(3)
    for g in range(groups):
        for i in names:
            bench.ask(join_request("", metadata, f"g{g}"), 3, (g, i))
    while (0, 0) not in bench.answers or (groups - 1, 2) not in bench.answers:
        bench.tick(3000)
    beats = []
    for g in range(groups):
        answers = [bench.answers[g, i] for i in names]
        for i in sorted(names, key=lambda i: answers[i].leader == answers[i].member_id):
            member = {"group_id": f"g{g}", "generation_id": answers[i].generation_id, "member_id": answers[i].member_id}
            bench.ask(SyncGroupRequest(**member), 3, ("sync", g, i))
            beats.append(GroupRequest(HeartbeatRequest(**member), 4, "bench", "/127.0.0.1", None, 1))
        assert all(bench.answers["sync", g, i].error_code == 0 for i in names)
    return beats


def heartbeats_through_a_broker(groups: int) -> Callable[[int], None]:
    """Return an act that sends one heartbeat to a broker with groups of three, each member on its own connection."""
    broker = Broker(BrokerConfig(), MemoryStorage(), random.Random(1), START_MS)
    broker.state.offsets_topic.ensure(START_MS)
    bench = Bench(3, broker.state.coordinator)
    beats = form_groups(bench, groups)
    bench.coordinator.take_journal()
    inputs = []
    for number, beat in enumerate(beats):
        broker.handle(Connected(number, "127.0.0.1"), bench.now_ms)
        header = RequestHeader(HeartbeatRequest.API_KEY, 4, number, "bench")
        inputs.append(Received(number, b"".join(build_request(header, beat.message))))

    def heartbeat(i: int) -> None:
        (sent,) = broker.handle(inputs[i % len(inputs)], bench.now_ms)
        assert isinstance(sent, Send)

    return heartbeat


def rate(act: Callable[[int], None], seconds: float) -> float:
    """Return the runs of ``act`` per second of CPU time."""
    done, began = 0, time.process_time()
    while (spent := time.process_time() - began) < seconds:
        for i in range(done, done + 2000):
            act(i)
        done += 2000
    return done / spent


def additions_per_second() -> float:
    """Measure a plain loop, as a reference for the machine."""
    total, began = 0, time.process_time()
    for i in range(2_000_000):
        total += i
    return 2_000_000 / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    bench = Bench(options.members)
    times, ids, generation = form_group(bench, options.members)
    bench.coordinator.take_journal()
    beats = [HeartbeatRequest(group_id="g", generation_id=generation, member_id=m) for m in ids]
    requests = [GroupRequest(b, 4, "bench", "/127.0.0.1", i, 1) for i, b in enumerate(beats)]
    handle = bench.coordinator.handle

    def heartbeat(i: int) -> None:
        (reply,) = handle(requests[i % len(requests)], bench.now_ms + i // 100)
        assert reply.message.error_code == 0  # type: ignore[attr-defined]  # a heartbeat's answer

    def commit(i: int) -> None:
        p = OffsetCommitRequestPartition(partition_index=i % len(ids), committed_offset=i, committed_metadata="")
        message = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=generation,
            member_id=ids[i % len(ids)],
            topics=[OffsetCommitRequestTopic(name="t", partitions=[p])],
        )
        handle(GroupRequest(message, 8, "bench", "/127.0.0.1", i, 1), bench.now_ms)
        if len(bench.log) > 50_000:
            bench.log.clear()

    many = Bench(3)
    beats_of_many = form_groups(many, options.groups)
    many.coordinator.take_journal()

    def heartbeat_of_many(i: int) -> None:
        (reply,) = many.coordinator.handle(beats_of_many[i % len(beats_of_many)], many.now_ms)
        assert reply.message.error_code == 0  # type: ignore[attr-defined]  # a heartbeat's answer

    of_many = rate(heartbeat_of_many, options.seconds)
    of_many_through_a_broker = rate(heartbeats_through_a_broker(options.groups), options.seconds)
    result: dict[str, Any] = {
        "python_additions_per_second": round(additions_per_second()),
        "members": options.members,
        "cpu_seconds": {name: round(sum(spent), 4) for name, spent in times.items()},
        "cpu_us_per_member": {name: round(sum(spent) / options.members * 1e6, 1) for name, spent in times.items()},
        "heartbeats_per_second": round(rate(heartbeat, options.seconds)),
        "groups_of_three": options.groups,
        "heartbeats_per_second_of_groups_of_three": round(of_many),
        "core_share_of_10000_groups_with_heartbeats_every_3_s": round(10_000 / of_many, 3),
        "core_share_of_them_through_a_broker": round(10_000 / of_many_through_a_broker, 3),
        "commits_per_second": round(rate(commit, options.seconds)),
    }
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:53} {value}")


if __name__ == "__main__":
    main()

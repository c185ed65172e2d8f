"""Valid journals and histories for mutation."""

from __future__ import annotations

import json

from kohort.wire.record_batch import read_batch, split_batches
from support.histories import WrittenHistory
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember


def entries() -> list[bytes]:
    """Return a broker's journal entries of a group with rebalances, lost and fenced members, and its deletion."""
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

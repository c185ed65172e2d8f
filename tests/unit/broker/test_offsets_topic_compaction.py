"""Compaction of ``__consumer_offsets``."""

from itertools import chain

from kohort.broker.cluster.log_items import slices_of
from kohort.coordinator.replay import Skipped
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort_lab.sim.checks.group_invariants import check_log
from support.machines.broker_stage import BrokerStage

GROUPS = ["alpha", "beta", "gamma"]
PARTITIONS = 4


def commit(peer, group, offset):
    partitions = [
        OffsetCommitRequestPartition(partition_index=p, committed_offset=offset + p, committed_metadata=None)
        for p in range(PARTITIONS)
    ]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)]
    )
    answer = peer.ask(request, 7)
    assert {p.error_code for t in answer.topics for p in t.partitions} == {0}


def committed(peer, group):
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=list(range(PARTITIONS)))]
    answer = peer.ask(OffsetFetchRequest(group_id=group, topics=topics), 5)
    return [p.committed_offset for p in answer.topics[0].partitions]


def offsets_logs(stage):
    return stage.broker.state.topics.get("__consumer_offsets").partitions


def test_compacted_offsets_topic_stays_small_and_keeps_each_commit():
    stage = BrokerStage(offsets_topic_segment_bytes=2048, log_cleaner_backoff_ms=1000)
    peer = stage.connect()
    peer.create("orders", PARTITIONS)
    for n in range(0, 3000, 10):
        for group in GROUPS:
            commit(peer, group, n)
        stage.advance(40)
    stage.advance(10_000)

    offsets = {group: committed(peer, group) for group in GROUPS}
    assert offsets == {group: [2990 + p for p in range(PARTITIONS)] for group in GROUPS}
    written = sum(log.log_end_offset for log in offsets_logs(stage))
    remaining = sum(1 for log in offsets_logs(stage) for some in slices_of(log, Skipped()) for _ in some)
    assert written == 300 * len(GROUPS) * PARTITIONS
    assert remaining < written / 10
    for partition, log in enumerate(offsets_logs(stage)):
        check_log(stage.broker.state.coordinator, partition, chain.from_iterable(slices_of(log, Skipped())))
    assert any("compacted up to offset" in note for note in stage.log_lines())

    for cleanly in (True, False):
        stage.restart(cleanly=cleanly)
        peer = stage.connect()
        assert {group: committed(peer, group) for group in GROUPS} == offsets

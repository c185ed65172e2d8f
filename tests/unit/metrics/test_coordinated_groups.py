"""Snapshots of the groups that a broker of this process coordinates."""

from __future__ import annotations

from kohort.insight.lag import lag_of
from kohort.insight.snapshot import GroupSnapshot
from kohort.metrics import coordinated_groups
from kohort.metrics.broker_families import copy_counters
from kohort.metrics.coordinated_groups import YIELD_EVERY, ClosedSegmentBudget, CoordinatedGroups
from kohort.model import TopicPartition
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.topics import DeleteTopicsRequest
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember


def a_reader(stage: BrokerStage, group: str = "g", partitions: int = 2) -> RawMember:
    ann = RawMember(stage.connect(), group, ["t"])
    if stage.broker.state.topics.get("t") is None:
        stage.broker.state.topics.create("t", partitions, {}, stage.now_ms)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": list(range(partitions))}})
    return ann


def looked(own: CoordinatedGroups, stage: BrokerStage) -> dict[str, GroupSnapshot]:
    return {one.group: one for one in own.snapshots(stage.now_ms) if one is not None}


def test_snapshot_of_classic_group_has_members_offsets_and_log_ends(stage):
    ann = a_reader(stage)
    for _ in range(3):
        ann.wire.produce("t", b"x")
    ann.commit("t", 0, 1)

    group = looked(CoordinatedGroups(stage.broker.state), stage)["g"]

    assert (group.state, group.protocol, group.protocol_type, group.epoch) == ("Stable", "classic", "consumer", 1)
    assert group.partition_counts == {"t": 2}
    (member,) = group.members
    assert (member.topics, member.assignment) == (("t",), (TopicPartition("t", 0), TopicPartition("t", 1)))
    first, second = sorted(group.partitions, key=lambda one: one.partition)
    assert (first.committed, first.log_start, first.log_end) == (1, 0, 3)
    assert (second.committed, second.log_end) == (None, 0)


def test_record_time_is_the_timestamp_of_the_batch_that_contains_the_offset(stage):
    ann = a_reader(stage)
    own = CoordinatedGroups(stage.broker.state)
    written_ms = []
    for _ in range(3):
        ann.wire.produce("t", b"x")
        written_ms.append(stage.now_ms)
        stage.advance(1_000)
    ann.commit("t", 0, 1)

    lag = lag_of([looked(own, stage)["g"]])
    assert [one.time_ms for one in lag.partitions] == [stage.now_ms - written_ms[1], 0]

    ann.commit("t", 0, 3)
    read = lag_of([looked(own, stage)["g"]]).partitions[0]
    assert (read.records, read.time_ms) == (0, 0)


def test_snapshot_of_consumer_group_has_assignments_of_members(stage):
    peer = stage.connect()
    peer.create("t", 3)
    RawMember(peer, "m", ["t"]).find()
    join = ConsumerGroupHeartbeatRequest(
        group_id="m",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    stage.advance(0)
    assert peer.ask(join, 1).error_code == 0

    group = looked(CoordinatedGroups(stage.broker.state), stage)["m"]

    assert (group.protocol, group.state) == ("consumer", "Stable")
    (member,) = group.members
    assert sorted(member.assignment) == [TopicPartition("t", p) for p in range(3)]
    assert member.topics == ("t",)


def test_snapshots_include_groups_of_other_protocol_types_and_groups_with_only_offsets(stage):
    peer = stage.connect()
    peer.create("t")
    alone = RawMember(peer, "offsets", ["t"])
    alone.find()
    stage.advance(0)
    alone.commit("t", 0, 0, generation=-1)

    group = looked(CoordinatedGroups(stage.broker.state), stage)["offsets"]

    assert (group.state, group.members, len(group.partitions)) == ("Empty", (), 1)


def test_snapshot_marks_committed_offset_of_deleted_partition(stage):
    ann = a_reader(stage)
    assert ann.wire.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5).responses[0].error_code == 0

    group = looked(CoordinatedGroups(stage.broker.state), stage)["g"]

    assert {one.error for one in group.partitions} == {"there is no such partition"}
    assert group.partition_counts == {}


def test_snapshot_ignores_malformed_member_metadata(stage):
    ann = a_reader(stage)
    member = stage.broker.state.coordinator.groups_in_partition_of("g").by_id["g"].round.members[ann.member_id]
    member.assignment = b"\x00\x00\xff\xff\xff\xff"

    group = looked(CoordinatedGroups(stage.broker.state), stage)["g"]

    assert group.members[0].assignment == ()


def test_snapshot_of_group_with_many_offsets_pauses_for_the_event_loop(stage):
    ann = a_reader(stage, partitions=500)
    for partition in range(500):
        ann.commit("t", partition, 0)

    steps = list(CoordinatedGroups(stage.broker.state).snapshots(stage.now_ms))

    assert len(steps[-1].partitions) == 500
    assert steps[:-1].count(None) >= 500 // YIELD_EVERY


def test_snapshot_skips_groups_that_are_deleted_meanwhile(stage):
    for name in ("a", "b", "c"):
        a_reader(stage, name)
    groups = [one for _, one in stage.broker.state.coordinator.all_groups() if one.by_id]
    own = CoordinatedGroups(stage.broker.state)
    names = []
    for one in own.snapshots(stage.now_ms):
        if one is not None:
            names.append(one.group)
            for shard in groups:
                for other in set(shard.by_id) - {one.group}:
                    del shard.by_id[other]

    assert len(names) == 1


def test_snapshot_opens_limited_number_of_closed_segments_and_the_next_snapshot_continues(stage, monkeypatch):
    monkeypatch.setattr(coordinated_groups, "CLOSED_SEGMENTS_MOST", 3)
    topic = stage.broker.state.topics.create("t", 10, {"segment.ms": "1000"}, stage.now_ms)
    ann = a_reader(stage, partitions=10)
    for partition in range(10):
        for _ in range(2):
            ann.wire.produce("t", b"x", partition=partition)
            stage.advance(2_000)
            ann.heartbeat()
        ann.commit("t", partition, 0)
    closed = [log.segments[0] for log in topic.partitions]
    for segment in closed:
        segment.seal()
        while segment.is_open:
            segment.release()
    own = CoordinatedGroups(stage.broker.state)

    counts, opened = [], []
    for _ in range(4):
        group = looked(own, stage)["g"]
        counts.append(sum(1 for one in group.partitions if one.committed_record_at_ms is not None))
        opened.append(sum(segment.is_open for segment in closed))

    assert counts == [3, 6, 9, 10]
    assert opened == [3, 6, 9, 10]


def test_snapshot_first_opens_segments_that_the_previous_snapshot_postponed(monkeypatch):
    monkeypatch.setattr(coordinated_groups, "CLOSED_SEGMENTS_MOST", 2)
    closed = ClosedSegmentBudget()
    served = set()
    for look in range(20):
        closed.begin()
        served |= {what for what in [*(f"new-{look}-{n}" for n in range(5)), "last"] if closed.may_open(what)}
        assert closed.opened <= 2
        if "last" in served:
            break

    assert "last" in served, "the postponed segment precedes new segments"


def test_cached_record_times_of_a_group_are_deleted_with_the_group(stage):
    ann = a_reader(stage)
    ann.wire.produce("t", b"x")
    ann.commit("t", 0, 0)
    own = CoordinatedGroups(stage.broker.state)
    looked(own, stage)
    assert own._times.keys() == {"g"}

    for _, groups in stage.broker.state.coordinator.all_groups():
        groups.by_id.pop("g", None)
    looked(own, stage)
    assert own._times == {}


def test_broker_copy_for_metrics_has_budgets_and_counters(stage):
    ann = a_reader(stage)
    ann.wire.produce("nothing", b"x")

    copy = copy_counters(stage.broker, failed_handshakes=3)

    assert copy.numbers["kohort_broker_connections"] == 1
    assert copy.numbers["kohort_broker_failed_handshakes_total"] == 3
    assert copy.errors["Produce", 3] == 1
    assert copy.journal["round_opened"] == 1
    assert copy.budgets["connections (max.connections)"] == (1, stage.config.max_connections)
    assert {name for name, (used, limit) in copy.budgets.items() if used > limit >= 0} == set()

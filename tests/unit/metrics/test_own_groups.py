"""The groups of a broker of this process, seen from the inside."""

from __future__ import annotations

from kohort.insight.lag import lag_of
from kohort.insight.snapshot import GroupSnapshot
from kohort.metrics import own_groups
from kohort.metrics.broker_families import copy_of
from kohort.metrics.own_groups import AT_ONCE, ColdLooks, OwnGroups
from kohort.model import TopicPartition
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.topics import DeleteTopicsRequest
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember


def a_reader(stage: BrokerStage, group: str = "g", partitions: int = 2) -> RawMember:
    """The only member of its group, which has all of t."""
    ann = RawMember(stage.connect(), group, ["t"])
    if stage.broker.state.topics.get("t") is None:
        stage.broker.state.topics.create("t", partitions, {}, stage.now_ms)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": list(range(partitions))}})
    return ann


def looked(own: OwnGroups, stage: BrokerStage) -> dict[str, GroupSnapshot]:
    return {one.group: one for one in own.look(stage.now_ms) if one is not None}


def test_a_classic_group_is_seen_with_its_members_offsets_and_ends(stage):
    ann = a_reader(stage)
    for _ in range(3):
        ann.wire.produce("t", b"x")
    ann.commit("t", 0, 1)

    group = looked(OwnGroups(stage.broker.state), stage)["g"]

    assert (group.state, group.protocol, group.protocol_type, group.epoch) == ("Stable", "classic", "consumer", 1)
    assert group.partition_counts == {"t": 2}
    (member,) = group.members
    assert (member.topics, member.assignment) == (("t",), (TopicPartition("t", 0), TopicPartition("t", 1)))
    first, second = sorted(group.partitions, key=lambda one: one.partition)
    assert (first.committed, first.log_start, first.log_end) == (1, 0, 3)
    assert (second.committed, second.log_end) == (None, 0)


def test_the_age_of_what_waits_is_that_of_its_batch(stage):
    ann = a_reader(stage)
    own = OwnGroups(stage.broker.state)
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


def test_a_modern_group_is_seen_with_what_its_members_have(stage):
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

    group = looked(OwnGroups(stage.broker.state), stage)["m"]

    assert (group.protocol, group.state) == ("consumer", "Stable")
    (member,) = group.members
    assert sorted(member.assignment) == [TopicPartition("t", p) for p in range(3)]
    assert member.topics == ("t",)


def test_a_group_of_another_protocol_type_and_one_of_offsets_alone_are_seen_too(stage):
    peer = stage.connect()
    peer.create("t")
    alone = RawMember(peer, "offsets", ["t"])
    alone.find()
    stage.advance(0)
    alone.commit("t", 0, 0, generation=-1)

    group = looked(OwnGroups(stage.broker.state), stage)["offsets"]

    assert (group.state, group.members, len(group.partitions)) == ("Empty", (), 1)


def test_a_partition_that_is_gone_says_so(stage):
    ann = a_reader(stage)
    assert ann.wire.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5).responses[0].error_code == 0

    group = looked(OwnGroups(stage.broker.state), stage)["g"]

    assert {one.error for one in group.partitions} == {"there is no such partition"}
    assert group.partition_counts == {}


def test_what_a_member_says_that_cannot_be_read_does_no_harm(stage):
    ann = a_reader(stage)
    member = stage.broker.state.coordinator.groups_beside("g").by_id["g"].round.members[ann.member_id]
    member.assignment = b"\x00\x00\xff\xff\xff\xff"

    group = looked(OwnGroups(stage.broker.state), stage)["g"]

    assert group.members[0].assignment == ()


def test_a_group_with_many_offsets_is_looked_at_in_pieces(stage):
    ann = a_reader(stage, partitions=500)
    for partition in range(500):
        ann.commit("t", partition, 0)

    steps = list(OwnGroups(stage.broker.state).look(stage.now_ms))

    assert len(steps[-1].partitions) == 500
    assert steps[:-1].count(None) >= 500 // AT_ONCE


def test_groups_that_go_while_they_are_looked_at_are_left_out(stage):
    for name in ("a", "b", "c"):
        a_reader(stage, name)
    groups = [one for _, one in stage.broker.state.coordinator.all_groups() if one.by_id]
    own = OwnGroups(stage.broker.state)
    seen = []
    for one in own.look(stage.now_ms):
        if one is not None:
            seen.append(one.group)
            for held in groups:
                for other in set(held.by_id) - {one.group}:
                    del held.by_id[other]

    assert len(seen) == 1


def test_so_many_closed_segments_are_opened_in_a_look_and_the_rest_later(stage, monkeypatch):
    monkeypatch.setattr(own_groups, "COLD_MOST", 3)
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
    own = OwnGroups(stage.broker.state)

    known, opened = [], []
    for _ in range(4):
        group = looked(own, stage)["g"]
        known.append(sum(1 for one in group.partitions if one.committed_record_at_ms is not None))
        opened.append(sum(segment.is_open for segment in closed))

    assert known == [3, 6, 9, 10]
    assert opened == [3, 6, 9, 10]


def test_who_was_put_off_goes_first_in_the_next_look(monkeypatch):
    monkeypatch.setattr(own_groups, "COLD_MOST", 2)
    cold = ColdLooks()
    served = set()
    for look in range(20):
        cold.begin()
        served |= {what for what in [*(f"new-{look}-{n}" for n in range(5)), "last"] if cold.may_open(what)}
        assert cold.opened <= 2
        if "last" in served:
            break

    assert "last" in served, "though there are always others before it"


def test_times_of_records_are_forgotten_with_their_group(stage):
    ann = a_reader(stage)
    ann.wire.produce("t", b"x")
    ann.commit("t", 0, 0)
    own = OwnGroups(stage.broker.state)
    looked(own, stage)
    assert own._times.keys() == {"g"}

    for _, groups in stage.broker.state.coordinator.all_groups():
        groups.by_id.pop("g", None)
    looked(own, stage)
    assert own._times == {}


def test_a_broker_is_copied_with_its_budgets_and_counts(stage):
    ann = a_reader(stage)
    ann.wire.produce("nothing", b"x")

    copy = copy_of(stage.broker, failed_handshakes=3)

    assert copy.numbers["kohort_broker_connections"] == 1
    assert copy.numbers["kohort_broker_failed_handshakes_total"] == 3
    assert copy.errors["Produce", 3] == 1
    assert copy.journal["round_opened"] == 1
    assert copy.budgets["connections (max.connections)"] == (1, stage.config.max_connections)
    assert {name for name, (used, limit) in copy.budgets.items() if used > limit >= 0} == set()

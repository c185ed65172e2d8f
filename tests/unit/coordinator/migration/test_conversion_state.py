"""Conversion between classic and consumer groups: kept metadata, assignments and session data; size limits."""

import pytest

from kohort.coordinator.consumer.subscribed_topics import hash_of_topics
from kohort.coordinator.journal import ClientIdentity, EpochRaised, GroupConverted, MemberRemoved, RoundOpened
from kohort.coordinator.migration.embedded import assignment_for
from kohort.coordinator.records import CurrentWritten, MemberWritten, TargetEpochWritten, TargetWritten
from kohort.errors import ErrorCode, StorageError
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import parse_assignment
from kohort.wire.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kohort.wire.messages.group_admin import DescribeGroupsRequest
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import CoordinatorStage, Topics
from support.machines.written_groups import T, U, epochs, member, write

PROTOCOLS = (("range", subscription("u", "t", "t", rack="r")), ("roundrobin", subscription("t")))
CLIENT = {"client_id": "app 2", "client_host": "/10.0.0.2", "connection": 7}


def newest(**options) -> CoordinatorStage:
    return CoordinatorStage(group_consumer_assignment_interval_ms=0, **options)


@pytest.fixture
def classic() -> CoordinatorStage:
    stage = newest()
    fields = {"protocols": PROTOCOLS, "instance_id": "i", "session_ms": 20_000, "rebalance_ms": 50_000} | CLIENT
    joined = stage.answer(stage.join(**fields))
    assignments = {joined.member_id: assignment(("t", 1), ("t", 3), ("u", 0), ("gone", 0))}
    stage.sync(joined.member_id, 1, assignments, instance_id="i", **CLIENT)
    stage.commit({("t", 1): 7}, member_id=joined.member_id, generation=1, instance_id="i", **CLIENT)
    stage.advance(4_000)
    stage.heartbeat(joined.member_id, 1, instance_id="i", **CLIENT)
    stage.advance(1_000)
    return stage


def id_of(stage: CoordinatorStage) -> str:
    member_id: str = stage.answer(1).member_id
    return member_id


class TestUpgrade:
    def test_conversion_to_a_consumer_group_persists_member_metadata_and_assignments(self, classic):
        record_count = len(classic.records())
        classic.come("new", "t")

        member_id = id_of(classic)
        written = [r for r in classic.records()[record_count:] if getattr(r, "member_id", None) == member_id]
        metadata, target, current = (r.value for r in written[:3])
        assert [type(r) for r in written[:3]] == [MemberWritten, TargetWritten, CurrentWritten]
        assert metadata == ConsumerGroupMemberMetadataValue(
            instance_id="i",
            rack_id="r",
            client_id="app 2",
            client_host="/10.0.0.2",
            subscribed_topic_names=["t", "u"],
            subscribed_topic_regex="",
            rebalance_timeout_ms=50_000,
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=20_000,
                supported_protocols=[ClassicProtocol(name=name, metadata=blob) for name, blob in PROTOCOLS],
            ),
        )
        assert {topic.topic_id: topic.partitions for topic in target.topic_partitions} == {T: [1, 3], U: [0]}
        assert (current.member_epoch, current.previous_member_epoch, current.state) == (1, 1, 0)
        has = {topic.topic_id: (topic.partitions, topic.assignment_epochs) for topic in current.assigned_partitions}
        assert has == {T: ([1, 3], [1, 1]), U: ([0], [1])}
        (first, *_) = [r.value for r in classic.records()[record_count:] if isinstance(r, TargetEpochWritten)]
        assert (first.assignment_epoch, first.assignment_timestamp) == (1, 0)

    def test_journal_entry_of_a_group_conversion_has_members_and_initiator(self, classic):
        classic.come("new", client_id="app 3", client_host="/10.0.0.3")

        (entry,) = classic.entries(GroupConverted)
        was = ClientIdentity(id_of(classic), "app 2", "/10.0.0.2", "i", True)
        assert (entry.to, entry.epoch, entry.members) == ("consumer", 1, (was,))
        assert (entry.by, entry.at_ms) == (ClientIdentity("new", "app 3", "/10.0.0.3"), classic.now)

    def test_conversion_to_a_consumer_group_keeps_session_data_and_restarts_sessions(self, classic):
        last_ms = classic.now - 1_000
        classic.coordinator.connection_closed(7, classic.now)
        closed_ms = classic.now
        classic.come("new")

        classic.advance(19_999)
        assert [e.cause.event for e in classic.entries(EpochRaised)] == ["member_joined"]
        classic.advance(1)

        cause = classic.entries(EpochRaised)[-1].cause
        vitals = cause.vitals
        assert (cause.event, cause.member.member_id) == ("session_expired", id_of(classic))
        assert (vitals.session_timeout_ms, vitals.rebalance_timeout_ms) == (20_000, 50_000)
        assert (vitals.last_seen_ms, vitals.longest_gap_ms, vitals.commits) == (last_ms, 4_000, 1)
        assert (vitals.connection_closed_at_ms, vitals.last_progress_ms) == (closed_ms, last_ms - 4_000)

    @pytest.mark.parametrize(
        ("most", "reason"),
        [
            (1, "because the group size exceeds the consumer group maximum size."),
            (2, "The consumer group has reached its maximum capacity of 2 members."),
            (3, None),
        ],
    )
    def test_conversion_to_a_consumer_group_respects_the_group_size_limit(self, most, reason):
        stage = newest(group_consumer_max_size=most)
        stage.stable(2)

        answer = stage.come("new")

        words = answer.error_message
        assert words is None if reason is None else words.endswith(reason)
        assert bool(stage.entries(GroupConverted)) is (reason is None)

    def test_failed_conversion_of_a_classic_group_drops_pending_member_ids(self, classic):
        pending_id = classic.answer(classic.join()).member_id
        classic.refuse_with = StorageError("the disk is full")
        assert classic.come("new").error_code == ErrorCode.NOT_COORDINATOR
        classic.refuse_with = None

        assert classic.answer(classic.join(pending_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_static_member_may_convert_a_full_classic_group(self, classic):
        stage = newest(group_consumer_max_size=1)
        joined = stage.answer(stage.join(instance_id="i"))
        stage.sync(joined.member_id, 1, {joined.member_id: assignment(("t", 0))}, instance_id="i")

        assert stage.come("new", instance_id="i").error_code == ErrorCode.NONE
        assert stage.entries(GroupConverted)


POLICIES = {
    "disabled": (False, False, False),
    "upgrade": (True, True, False),
    "downgrade": (False, True, True),
    "bidirectional": (True, True, True),
}


@pytest.mark.parametrize(("policy", "may"), POLICIES.items(), ids=POLICIES.keys())
def test_migration_policy_selects_the_allowed_group_conversions(policy, may):
    upgraded = newest(group_consumer_migration_policy=policy)
    upgraded.stable(1)
    upgraded.come("new")
    mixed = newest(group_consumer_migration_policy=policy)
    mixed.come("new")
    joined = mixed.answer(mixed.join("old", version=3)).error_code == ErrorCode.NONE
    mixed.beat("new", -1)
    replaced = newest(group_consumer_migration_policy=policy)
    replaced.come("new", instance_id="i")
    replaced.join(instance_id="i")

    downgraded = [bool(one.entries(GroupConverted)) for one in (mixed, replaced)]
    assert (bool(upgraded.entries(GroupConverted)), joined, *downgraded) == (*may, may[2])


class TestDowngrade:
    @pytest.fixture
    def mixed(self) -> CoordinatorStage:
        stage = newest()
        stage.come("new")
        fields = {"protocols": PROTOCOLS, "version": 3, "session_ms": 20_000, "rebalance_ms": 50_000} | CLIENT
        joined = stage.answer(stage.join("old", **fields))
        stage.beat("new", 2, [])
        stage.answer(stage.join("old", **fields))
        epoch = stage.beat("new", 0, [], rebalance_timeout_ms=60_000, subscribed_topic_names=["t"]).member_epoch
        assert stage.answer(stage.join("old", **fields)).generation_id == epoch
        assert joined.error_code == ErrorCode.NONE
        stage.sync("old", epoch, **CLIENT)
        stage.advance(2_000)
        return stage

    def test_conversion_to_a_classic_group_keeps_metadata_and_target_of_remaining_members(self, mixed):
        epoch = mixed.coordinator.groups_in_partition_of("g").consumer["g"].epoch
        mixed.restart()
        mixed.beat("new", -1)

        (group,) = mixed.answer(mixed.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups
        (one,) = group.members
        assert (group.group_state, group.protocol_type) == ("PreparingRebalance", "consumer")
        assert (one.member_id, one.group_instance_id, one.client_id, one.client_host) == (
            "old",
            None,
            "app 2",
            "/10.0.0.2",
        )
        (entry,) = mixed.entries(GroupConverted)
        assert entry.members == (ClientIdentity("old", "app 2", "/10.0.0.2"),)
        assert (entry.to, entry.epoch, entry.by.member_id) == ("classic", epoch, "new")

    def test_failover_after_conversion_to_a_classic_group_loads_targets_as_assignments(self, mixed):
        target = mixed.coordinator.groups_in_partition_of("g").consumer["g"].targets["old"]
        mixed.beat("new", -1)
        mixed.restart()

        group = mixed.coordinator.groups_in_partition_of("g").by_id["g"]
        (one,) = group.round.members.values()
        assert (one.session_timeout_ms, one.rebalance_timeout_ms) == (20_000, 50_000)
        assert group.round.protocol_name == "range"
        has = {(mixed.topics.topic_id(p.topic), p.partition) for p in parse_assignment(one.assignment).partitions}
        assert has == {(topic, number) for topic, of in target.items() for number in of}

    def test_conversion_to_a_classic_group_keeps_session_data_and_restarts_sessions(self, mixed):
        last_ms = mixed.now - 2_000
        mixed.coordinator.connection_closed(7, mixed.now)
        closed_ms = mixed.now
        mixed.beat("new", -1)

        mixed.advance(19_999)
        assert mixed.entries(MemberRemoved) == []
        mixed.advance(1)

        (entry,) = mixed.entries(MemberRemoved)
        assert (entry.member.member_id, entry.why) == ("old", "session_expired")
        assert (entry.vitals.last_seen_ms, entry.vitals.connection_closed_at_ms) == (last_ms, closed_ms)
        assert (entry.vitals.session_timeout_ms, entry.vitals.rebalance_timeout_ms) == (20_000, 50_000)

    def test_conversion_to_a_classic_group_cancels_consumer_group_timers(self, mixed):
        mixed.beat("new", -1)

        kinds = {key.kind for key in mixed.coordinator.timers_of("g")}
        assert kinds == {"session", "round"}

    @pytest.mark.parametrize(("most", "converted"), [(1, False), (2, True)])
    def test_conversion_to_a_classic_group_respects_the_group_size_limit(self, most, converted):
        stage = newest(group_max_size=most)
        write(
            stage,
            epochs(5),
            member("m1", 5, {T: {0: 5}}, classic=True),
            member("m2", 5, {T: {1: 5}}, classic=True),
            member("new", 5, {T: {2: 5}}),
        )

        stage.beat("new", -1)

        assert bool(stage.entries(GroupConverted)) is converted

    def test_static_member_with_unchanged_member_id_converts_the_group_without_rebalance(self):
        stage = newest()
        stage.come("new", instance_id="i")

        joined = stage.answer(stage.join("new", instance_id="i"))

        assert stage.entries(GroupConverted)
        assert stage.heartbeat("new", joined.generation_id, instance_id="i") == ErrorCode.NONE
        assert stage.entries(RoundOpened) == []

    @pytest.mark.parametrize(("most", "converted"), [(1, False), (2, True)])
    def test_static_member_with_a_new_member_id_converts_the_group_without_rebalance(self, most, converted):
        stage = newest(group_max_size=most)
        write(stage, epochs(5), member("m1", 5, {T: {0: 5}}, classic=True), member("m2", 5, instance_id="i"))

        assert stage.answer(stage.join(instance_id="i")).error_code == ErrorCode.NONE

        assert bool(stage.entries(GroupConverted)) is converted


class TestAssignmentFormat:
    def synced(self, stage: CoordinatorStage, blob: bytes) -> bytes:
        write(stage, epochs(5), member("new", 5))
        stage.join("old", version=3, protocols=(("range", blob), ("roundrobin", subscription("t"))))
        generation = stage.answer(1).generation_id
        answer = stage.answer(stage.sync("old", generation))
        assert answer.error_code == ErrorCode.NONE
        return answer.assignment

    @pytest.mark.parametrize(("version", "written"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (9, 3)])
    def test_encoded_assignment_has_the_version_of_the_first_subscription_of_the_member(self, stage, version, written):
        blob = version.to_bytes(2) + subscription("t")[2:]

        assert int.from_bytes(self.synced(stage, blob)[:2]) == written

    @pytest.mark.parametrize(
        ("protocol", "version"), [(None, 2), ("range", 2), ("roundrobin", 1), ("cut short", 0), ("unknown", 0)]
    )
    def test_encoded_assignment_has_the_version_of_the_subscription_for_the_selected_protocol(self, protocol, version):
        blobs = {"range": b"\x00\x02", "roundrobin": b"\x00\x01", "cut short": b"\x00"}
        protocols = [ClassicProtocol(name=name, metadata=blob) for name, blob in blobs.items()]

        blob = assignment_for(ClassicMemberMetadata(supported_protocols=protocols), {T: {0}}, Topics(t=1), protocol)

        assert int.from_bytes(blob[:2]) == version
        assert parse_assignment(blob).partitions == [TopicPartition("t", 0)]

    def test_encoded_assignment_is_sorted_and_omits_deleted_topics(self):
        stage = newest()
        write(
            stage,
            epochs(5),
            member("m1", 5, {T: {3: 5, 0: 5}, U: {1: 5}}, classic=True, names=("t", "u")),
            member("new", 5),
        )
        stage.topics.delete("u")

        encoded = stage.answer(stage.sync("m1", 5)).assignment

        assert parse_assignment(encoded).partitions == [TopicPartition("t", 0), TopicPartition("t", 3)]


def test_topic_hash_omits_previous_topics_of_a_static_member_that_converts_the_group():
    stage = newest()
    joined = stage.answer(stage.join(instance_id="i"))
    assignments = {joined.member_id: assignment(("t", 0))}
    stage.sync(joined.member_id, joined.generation_id, assignments, instance_id="i")

    stage.come("new", "u", instance_id="i")
    stage.come("other", "u")

    group = stage.coordinator.groups_in_partition_of("g").consumer["g"]
    assert group.metadata_hash == hash_of_topics(["u"], stage.topics)

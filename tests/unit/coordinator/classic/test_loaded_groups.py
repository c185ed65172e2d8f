"""Classic groups that the coordinator loads from its log: members, timeouts, subscriptions."""

import pytest

from kohort.coordinator.journal import AssignmentWritten, MemberRemoved, Move, RoundClosed, RoundOpened
from kohort.coordinator.records import GroupWritten, build_record
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import MemberIdentity
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata
from kohort.wire.messages.offsets import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import GROUP, RANGE


def member(member_id: str, **fields: object) -> MemberMetadata:
    all_fields = {"session_timeout": 30_000, "rebalance_timeout": 60_000, "subscription": RANGE[0][1]} | fields
    return MemberMetadata(member_id=member_id, client_id="app", client_host="/127.0.0.1", **all_fields)


def restart_on(stage, *members: MemberMetadata, leader: str, protocol_type: str = "consumer") -> None:
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=3, protocol="range", leader=leader, members=list(members)
    )
    stage.log[stage.coordinator.partition_of(GROUP)] = [build_record(GroupWritten(GROUP, value))]
    stage.restart()


@pytest.mark.parametrize(("written", "timeout_ms"), [(-1, 30_000), (0, 0), (1, 1), (90_000, 90_000)])
def test_member_without_persisted_rebalance_timeout_uses_its_session_timeout(stage, written, timeout_ms):
    restart_on(stage, member("a", rebalance_timeout=written), leader="a")

    stage.leave("a")

    assert stage.entries(MemberRemoved)[-1].vitals.rebalance_timeout_ms == timeout_ms


def test_rebalance_with_zero_rebalance_timeout_waits_1_ms_for_a_static_member(stage):
    restart_on(stage, member("a", group_instance_id="i", rebalance_timeout=0), leader="a")
    pending = stage.answer(stage.join()).member_id

    stage.leave(pending)

    assert stage.entries(RoundOpened)[-1].timeout_ms == 0
    assert stage.coordinator.wake_at_ms == stage.now + 1
    stage.advance(5)
    assert stage.coordinator.wake_at_ms == stage.now + 1


def test_leader_loaded_from_the_log_stays_leader_in_the_next_generation(stage):
    restart_on(stage, member("a"), member("b"), leader="b")
    tickets = [stage.join("a", protocols=(("range", subscription("u")),)), stage.join("b")]

    assert {stage.answer(ticket).leader for ticket in tickets} == {"b"}
    assert stage.entries(RoundClosed)[-1].leader == "b"


def test_first_member_becomes_leader_if_the_persisted_leader_is_not_a_member(stage):
    restart_on(stage, member("a"), member("b"), leader="b")
    stage.leave("b")
    assert stage.answer(stage.join("a")).leader == "a"


def test_members_loaded_from_the_log_keep_their_subscriptions(stage):
    restart_on(stage, member("a"), leader="a")
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("t", "u")
    ]

    answer = stage.answer(stage.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0))

    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_first_rebalance_after_a_restart_journals_topics_whose_partition_count_grew(stage):
    restart_on(stage, member("a"), leader="a")
    stage.topics.make("t", 8)

    stage.join("a")

    assert stage.entries(RoundOpened)[-1].trigger.change.partitions_changed == {"t": (4, 8)}


def test_member_metadata_of_another_protocol_type_is_not_parsed(stage):
    restart_on(stage, member("a"), leader="a", protocol_type="connect")
    stage.topics.make("t", 8)

    stage.join("a", protocol_type="connect")

    assert stage.entries(RoundOpened)[-1].trigger.change.partitions_changed == {}


def test_instance_id_shared_by_two_loaded_members_belongs_to_the_member_loaded_last(stage):
    restart_on(stage, member("a", group_instance_id="i"), member("b", group_instance_id="i"), leader="b")

    stage.leave("a", client_id="admin")
    assert stage.heartbeat("a", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    stage.leave(MemberIdentity(member_id="", group_instance_id="i"), client_id="admin")

    removals = [(entry.member.member_id, entry.why) for entry in stage.entries(MemberRemoved)]
    assert removals == [("a", "left"), ("b", "left")]


def test_journal_entry_of_the_first_assignment_of_a_group_has_no_previous_owners(stage):
    stage.commit({("t", 0): 5})

    (a,), generation = stage.stable(1)

    (written,) = stage.entries(AssignmentWritten)
    assert (written.generation, written.partitions) == (generation, {a: {"t": (0,)}})
    assert written.moves == (Move("t", 0, None, a),)
    assert stage.records()[-1].value.members[0].assignment == assignment(("t", 0))


def test_journal_entry_of_a_rebalance_has_no_created_topics_if_the_previous_generation_has_no_timestamp(stage):
    stage.topics.make("old", 1)
    restart_on(stage, member("a"), leader="a")

    stage.join("a", protocols=(("range", subscription("t", "old")),))

    change = stage.entries(RoundOpened)[-1].trigger.change
    assert (change.topics_added, change.topics_created) == (("old",), ())

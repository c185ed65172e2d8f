"""Journal entries of a rebalance: leader, assignment, created topics, deleted topics, lag."""

from kohort.coordinator.classic.join import METADATA_MAX_BYTES
from kohort.coordinator.journal import RoundOpened
from kohort.coordinator.records import GroupWritten, build_record, parse_record
from kohort.errors import ErrorCode
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import CoordinatorStage, Topics

MOST = bytes(METADATA_MAX_BYTES)


def test_journal_entry_of_a_rebalance_shows_an_unsubscribed_topic_as_deleted_only_if_it_was_deleted():
    stage = CoordinatorStage(topics=Topics(deleted=1, kept=1, t=1))
    (a,), _ = stage.stable(1, protocols=[("range", subscription("deleted", "kept", "t"))])
    stage.topics.delete("deleted")

    stage.join(a, protocols=[("range", subscription("t"))])

    change = stage.entries(RoundOpened)[-1].trigger.change
    assert (change.topics_removed, change.topics_deleted) == (("deleted", "kept"), ("deleted",))


def test_journal_entry_of_a_rebalance_shows_a_topic_as_created_only_if_created_after_the_generation_began():
    stage = CoordinatorStage(topics=Topics(old=1, new=1, t=1))
    stage.topics.made["old"] = stage.now - 1
    (a,), _ = stage.stable(1)
    stage.topics.made["new"] = stage.now

    stage.join(a, protocols=[("range", subscription("new", "old", "t"))])

    change = stage.entries(RoundOpened)[-1].trigger.change
    assert (change.topics_added, change.topics_created) == (("new", "old"), ("new",))


def test_persisted_leader_that_is_not_the_first_member_stays_leader_after_restart(stage):
    (a, b), generation = stage.stable(2)
    partition = stage.coordinator.partition_of("g")
    written = parse_record(*stage.log[partition][-1])
    assert isinstance(written, GroupWritten)
    written.value.members.reverse()
    stage.log[partition][-1] = build_record(written)

    stage.restart()
    stage.join(b)
    assert stage.heartbeat(a, generation) == ErrorCode.NONE

    stage.join(a)
    assert stage.heartbeat(b, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_repeated_sync_group_request_in_stable_group_renews_the_session(stage):
    (a,), generation = stage.stable(1)
    stage.advance(9_000)
    stage.sync(a, generation)

    stage.advance(9_000)

    assert stage.heartbeat(a, generation) == ErrorCode.NONE


def test_journal_entry_of_a_departure_after_a_failed_append_of_the_assignment_has_no_lag(stage):
    (a, b), generation = stage.stable(2)
    stage.topics.ends["t", 0] = 100
    stage.commit({("t", 0): 60}, member_id=a, generation=generation)
    stage.join(a)
    stage.join(b)
    c, _ = stage.enter()
    for member_id in (a, b, c):
        stage.join(member_id)

    stage.leave(a)

    trigger = stage.entries(RoundOpened)[-1].trigger
    assert (trigger.event, trigger.member.member_id, trigger.vitals.lag) == ("member_left", a, None)


def test_journal_entry_of_a_removed_member_has_the_lag_of_its_partitions(stage):
    (a, _), generation = stage.stable(2)
    stage.topics.ends["t", 0] = 100
    stage.commit({("t", 0): 60}, member_id=a, generation=generation)

    stage.leave(a)

    trigger = stage.entries(RoundOpened)[-1].trigger
    assert (trigger.member.member_id, trigger.vitals.lag) == (a, 40)


def test_sync_group_v4_request_may_omit_protocol_type_and_name(stage):
    (a,), generation = stage.stable(1)
    ticket = stage.sync(a, generation, version=4, protocol_type=None, protocol_name=None)
    assert stage.answer(ticket).error_code == ErrorCode.NONE


def test_sync_group_request_with_assignments_larger_than_a_record_is_rejected(stage):
    (a,), generation = stage.stable(1)

    def joined(metadata: bytes) -> int:
        code: int = stage.answer(stage.join(group="other", protocols=[("range", metadata)])).error_code
        return code

    def synced(assignments: dict[str, bytes]) -> int:
        code: int = stage.answer(stage.sync(a, generation, assignments)).error_code
        return code

    assert (joined(MOST), joined(MOST + b"1")) == (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (synced({a: MOST}), synced({a: MOST, "b": b"1"})) == (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)

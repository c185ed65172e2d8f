"""State of consumer group members: revocations, session data, records that earlier versions wrote."""

import pytest

from kohort.clock import Timers
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import NEW_MEMBER
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.consumer.subscribed_topics import hash_of_topics
from kohort.coordinator.journal import EpochRaised, MemberReconciled, TargetComputed
from kohort.coordinator.records import CurrentWritten, EpochWritten, TargetEpochWritten, build_record
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from kohort_lab.sim.checks.group_invariants import InvariantBroken, check_consumer_group
from support.machines.coordinator_stage import CoordinatorStage, Topics
from support.machines.written_groups import T, epochs, member, write


def parts(*numbers: int) -> list[tuple[str, int]]:
    return [("t", number) for number in numbers]


def reconciled(stage: CoordinatorStage, member_id: str) -> MemberReconciled:
    return next(e for e in reversed(stage.entries(MemberReconciled)) if e.member.member_id == member_id)


def test_journaled_cause_of_a_group_epoch_names_only_changed_topics(stage):
    stage.come("m1", "t", "u", "none")
    stage.come("m2", "u")
    stage.topics.make("t", 6)

    stage.beat("m1", 2)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.partitions_changed) == ("topics_changed", {"t": (4, 6)})


def test_journaled_cause_of_a_group_epoch_has_topic_changes_since_the_first_member_joined(stage):
    stage.come("m1", "t", "u")
    stage.topics.make("t", 6)

    stage.beat("m1", 2)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.partitions_changed) == ("topics_changed", {"t": (4, 6)})


def test_journaled_duration_of_a_second_revocation_counts_from_its_own_start(stage):
    stage.come("m1")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2)  # the member must revoke two partitions
    stage.advance(3_000)
    stage.beat("m1", 2, parts(0, 1))
    assert reconciled(stage, "m1").revoked_after_ms == 3_000
    stage.beat("m2", 2)
    stage.advance(1_000)

    stage.come("m3")
    stage.advance(1_000)
    stage.come("m4")
    stage.advance(1_000)
    answer = stage.beat("m1", 3)
    (kept,) = stage.assignment_in(answer)
    stage.advance(500)
    stage.beat("m1", answer.member_epoch, [kept])

    assert reconciled(stage, "m1").revoked_after_ms == 500


def test_journaled_duration_of_a_revocation_after_a_static_rejoin_counts_from_its_own_start(stage):
    stage.come("m1", instance_id="one")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2, instance_id="one")  # the member must revoke two partitions
    stage.beat("m1", -2, instance_id="one")
    stage.advance(4_000)
    has = stage.assignment_in(stage.come("m1", instance_id="one"))
    assert has == parts(0, 1)
    stage.advance(1_000)

    stage.come("m3")
    stage.beat("m1", 3, instance_id="one")
    stage.advance(1_000)
    stage.come("m4")
    (kept,) = stage.assignment_in(stage.beat("m1", 4, instance_id="one"))
    stage.advance(700)
    stage.beat("m1", 4, [kept], instance_id="one")

    assert reconciled(stage, "m1").revoked_after_ms == 700


def test_journal_entry_of_an_assigned_partition_has_the_time_for_which_it_had_no_owner(stage):
    stage.come("m1")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2)
    stage.beat("m1", 2, parts(0, 1))
    stage.advance(2_000)
    stage.beat("m2", 3)

    assigned = reconciled(stage, "m2").given

    assert [(one.topic, one.partition, one.unowned_ms) for one in assigned] == [("t", 2, 2_000), ("t", 3, 2_000)]


def test_partitions_that_an_absent_static_member_must_revoke_become_unowned(stage):
    stage.come("m1", instance_id="one")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2, instance_id="one")  # the member must revoke two partitions
    stage.beat("m1", -2, instance_id="one")
    stage.advance(2_000)

    stage.beat("m2", 3)

    assigned = reconciled(stage, "m2").given
    assert [(one.partition, one.unowned_ms) for one in assigned] == [(2, 2_000), (3, 2_000)]


def test_member_without_assignment_record_stays_in_the_consumer_group():
    group = ModernGroup("g")
    for record in (*epochs(5), *member("m1", 5, {T: {0: 5}})):
        replay_consumer_group(group, record)

    replay_consumer_group(group, CurrentWritten("g", "m1", None))
    replay_consumer_group(group, CurrentWritten("g", "nobody", None))

    assert {name: one.current for name, one in group.members.items()} == {"m1": NEW_MEMBER}
    assert group.owners == {}


def test_journal_entry_of_a_removed_consumer_member_has_its_longest_gap_between_requests(stage):
    stage.come("m1")
    for silence_ms in (1_000, 4_000, 2_000):
        stage.advance(silence_ms)
        stage.beat("m1", 2)
    last_ms = stage.now

    stage.advance(60_000)

    vitals = stage.entries(EpochRaised)[-1].cause.vitals
    assert (vitals.longest_gap_ms, vitals.last_seen_ms) == (4_000, last_ms)


def test_empty_consumer_group_accepts_only_offset_commits_without_member_id(stage):
    stage.come("m1")
    stage.beat("m1", -1)

    assert stage.commit({("t", 0): 1}, version=9) == [ErrorCode.NONE]
    assert stage.commit({("t", 0): 1}, member_id="m1", generation=0, version=9) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("written", [None, [7]], ids=["record of Kafka before 4.3", "fewer epochs than partitions"])
def test_assigned_partitions_whose_record_has_no_epoch_get_the_member_epoch(stage, written):
    write(stage, epochs(5), member("m1", 5, {T: {0: 5, 1: 5}}))
    old = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=5,
        previous_member_epoch=4,
        state=0,
        assigned_partitions=[CurrentTopicPartitions(topic_id=T, partitions=[0, 1], assignment_epochs=written)],
        partitions_pending_revocation=[],
    )
    stage.log[stage.coordinator.partition_of("g")].append(build_record(CurrentWritten("g", "m1", old)))

    stage.restart()

    commits = [stage.commit({("t", 0): 1}, member_id="m1", generation=epoch, version=9) for epoch in (4, 5)]
    assert commits == [[ErrorCode.STALE_MEMBER_EPOCH], [ErrorCode.NONE]]


def test_invariant_check_fails_if_the_index_of_owners_contradicts_the_assignments():
    group = ModernGroup("g")
    for record in (*epochs(5), *member("m1", 5, {T: {0: 5}})):
        replay_consumer_group(group, record)
    group.owners.popitem()

    with pytest.raises(InvariantBroken, match="index of owners"):
        check_consumer_group(group, 0, Timers())


def test_repeated_full_heartbeat_persists_nothing_and_returns_the_assignment(stage):
    stage.come("m1")
    stage.beat("m1", 2)
    written = stage.appended

    answer = stage.beat(
        "m1", 2, parts(0, 1, 2, 3), rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], instance_id=None
    )

    assert (stage.assignment_in(answer), stage.appended) == (parts(0, 1, 2, 3), written)
    assert stage.assignment_in(stage.beat("m1", 2, parts(0, 1, 2, 3))) is None, (
        "the response to a heartbeat with null fields has no assignment"
    )


def test_target_assignment_keeps_previous_partitions_and_journals_moved_ones_with_topic_names(stage):
    stage.come("m1", "t")
    stage.advance(1_000)
    stage.come("m2", "t", "u")
    stage.beat("m1", 2)

    computed = stage.entries(TargetComputed)[-1]

    assert {(move.topic, move.partition, move.before, move.after) for move in computed.moves} == {
        ("t", 3, "m1", "m2"),
        ("u", 0, None, "m2"),
        ("u", 1, None, "m2"),
    }


def test_member_without_assignment_record_has_epoch_0(stage):
    stage.come("m1")

    (written,) = currents(stage)
    assert (written.value.previous_member_epoch, written.value.member_epoch) == (0, 2)
    assert (reconciled(stage, "m1").from_epoch, reconciled(stage, "m1").epoch) == (0, 2)


def test_consumer_group_with_only_tombstones_has_no_state():
    group, new = ModernGroup("g"), ModernGroup("g")
    for record in epochs(5):
        replay_consumer_group(group, record)
    replay_consumer_group(group, EpochWritten("g", None))
    replay_consumer_group(group, TargetEpochWritten("g", None))

    kept = ("epoch", "metadata_hash", "target_epoch", "target_at_ms")
    assert {name: getattr(group, name) for name in kept} == {name: getattr(new, name) for name in kept}


def test_topic_hash_of_a_group_is_the_same_as_in_earlier_kohort_versions():
    assert hash_of_topics(["u", "t", "none"], Topics(t=4, u=2)) == 6_053_682_676_446_597_683
    assert hash_of_topics(["none"], Topics(t=4)) == 0


def test_previous_epoch_of_a_member_that_unsubscribes_from_all_topics_equals_its_member_epoch(stage):
    stage.come("m1", "missing")
    written = len(currents(stage))

    assert stage.beat("m1", 2, subscribed_topic_names=["missing too"]).member_epoch == 2
    assert len(currents(stage)) == written

    assert stage.beat("m1", 2, subscribed_topic_names=[]).member_epoch == 2
    last = currents(stage)[-1]
    assert len(currents(stage)) == written + 1
    assert (last.value.member_epoch, last.value.previous_member_epoch) == (2, 2)


def currents(stage: CoordinatorStage) -> list[CurrentWritten]:
    return [record for record in stage.records() if isinstance(record, CurrentWritten)]

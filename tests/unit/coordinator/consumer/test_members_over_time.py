"""What is kept of members of consumer groups from one rebalance to the next: since when they revoke, their signs of
life, what earlier brokers wrote of them."""

from base64 import urlsafe_b64decode
from uuid import UUID

import pytest

from kohort.clock import Timers
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import new_member_id
from kohort.coordinator.consumer.reconcile import NEW_MEMBER
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.consumer.subscribed_topics import hash_of_topics
from kohort.coordinator.invariants import InvariantBroken, check_consumer_group
from kohort.coordinator.journal import EpochRaised, MemberReconciled, TargetComputed
from kohort.coordinator.records import CurrentWritten, EpochWritten, TargetEpochWritten, build_record
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from support.machines.coordinator_stage import CoordinatorStage, Topics
from support.machines.written_groups import T, epochs, member, write


def parts(*numbers: int) -> list[tuple[str, int]]:
    return [("t", number) for number in numbers]


def reconciled(stage: CoordinatorStage, member_id: str) -> MemberReconciled:
    """The latest step of a member."""
    return next(e for e in reversed(stage.entries(MemberReconciled)) if e.who.member_id == member_id)


def test_of_the_topics_of_a_group_those_are_told_to_have_changed_that_did(stage):
    stage.come("m1", "t", "u", "none")
    stage.come("m2", "u")
    stage.topics.make("t", 6)

    stage.beat("m1", 2)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.partitions_changed) == ("topics_changed", {"t": (4, 6)})


def test_what_the_founder_of_a_group_subscribed_to_is_compared_with_what_came_of_it(stage):
    stage.come("m1", "t", "u")
    stage.topics.make("t", 6)

    stage.beat("m1", 2)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.partitions_changed) == ("topics_changed", {"t": (4, 6)})


def test_each_revocation_is_timed_from_its_own_beginning(stage):
    stage.come("m1")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2)  # told to give up two
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
    (kept,) = stage.told(answer)
    stage.advance(500)
    stage.beat("m1", answer.member_epoch, [kept])

    assert reconciled(stage, "m1").revoked_after_ms == 500


def test_a_static_member_that_went_away_while_it_revoked_begins_anew_when_it_is_back(stage):
    stage.come("m1", instance_id="one")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2, instance_id="one")  # told to give up two
    stage.beat("m1", -2, instance_id="one")
    stage.advance(4_000)
    has = stage.told(stage.come("m1", instance_id="one"))
    assert has == parts(0, 1)
    stage.advance(1_000)

    stage.come("m3")
    stage.beat("m1", 3, instance_id="one")
    stage.advance(1_000)
    stage.come("m4")
    (kept,) = stage.told(stage.beat("m1", 4, instance_id="one"))
    stage.advance(700)
    stage.beat("m1", 4, [kept], instance_id="one")

    assert reconciled(stage, "m1").revoked_after_ms == 700


def test_a_partition_is_told_to_be_given_with_how_long_nobody_had_it(stage):
    stage.come("m1")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2)
    stage.beat("m1", 2, parts(0, 1))
    stage.advance(2_000)
    stage.beat("m2", 3)

    given = reconciled(stage, "m2").given

    assert [(one.topic, one.partition, one.unowned_ms) for one in given] == [("t", 2, 2_000), ("t", 3, 2_000)]


def test_what_a_static_member_was_to_give_up_is_nobodys_from_the_moment_it_goes_away(stage):
    stage.come("m1", instance_id="one")
    stage.advance(1_000)
    stage.come("m2")
    stage.beat("m1", 2, instance_id="one")  # told to give up two
    stage.beat("m1", -2, instance_id="one")
    stage.advance(2_000)

    stage.beat("m2", 3)

    given = reconciled(stage, "m2").given
    assert [(one.partition, one.unowned_ms) for one in given] == [(2, 2_000), (3, 2_000)]


def test_a_member_whose_assignment_was_removed_has_nothing_and_is_still_there():
    group = ModernGroup("g")
    for record in (*epochs(5), *member("m1", 5, {T: {0: 5}})):
        replay_consumer_group(group, record)

    replay_consumer_group(group, CurrentWritten("g", "m1", None))
    replay_consumer_group(group, CurrentWritten("g", "nobody", None))

    assert {name: one.current for name, one in group.members.items()} == {"m1": NEW_MEMBER}
    assert group.owners == {}


def test_who_is_put_out_leaves_its_signs_of_life_behind_with_the_longest_silence(stage):
    stage.come("m1")
    for silence_ms in (1_000, 4_000, 2_000):
        stage.advance(silence_ms)
        stage.beat("m1", 2)
    last_ms = stage.now

    stage.advance(60_000)

    vitals = stage.entries(EpochRaised)[-1].cause.vitals
    assert (vitals.longest_gap_ms, vitals.last_seen_ms) == (4_000, last_ms)


def test_an_empty_group_takes_commits_of_nobody_and_no_other(stage):
    stage.come("m1")
    stage.beat("m1", -1)

    assert stage.commit({("t", 0): 1}, version=9) == [ErrorCode.NONE]
    assert stage.commit({("t", 0): 1}, member_id="m1", generation=0, version=9) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("written", [None, [7]], ids=["before 4.3", "fewer than partitions"])
def test_partitions_without_an_epoch_each_have_that_of_their_member(stage, written):
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


def test_ids_that_the_coordinator_makes_are_random_uuids_of_rfc_4122(stage):
    ids = {new_member_id(stage.rng) for _ in range(50)}

    made = {UUID(bytes=urlsafe_b64decode(member_id + "==")) for member_id in ids}
    assert len(made) == 50
    assert {(one.version, one.variant) for one in made} == {(4, "specified in RFC 4122")}


def test_an_index_of_owners_that_is_not_what_members_have_is_noticed():
    group = ModernGroup("g")
    for record in (*epochs(5), *member("m1", 5, {T: {0: 5}})):
        replay_consumer_group(group, record)
    group.owners.popitem()

    with pytest.raises(InvariantBroken, match="index of owners"):
        check_consumer_group(group, 0, Timers())


def test_a_heartbeat_that_says_everything_once_more_writes_nothing_and_is_told_everything(stage):
    stage.come("m1")
    stage.beat("m1", 2)
    written = stage.appended

    answer = stage.beat(
        "m1", 2, parts(0, 1, 2, 3), rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], instance_id=None
    )

    assert (stage.told(answer), stage.appended) == (parts(0, 1, 2, 3), written)
    assert stage.told(stage.beat("m1", 2, parts(0, 1, 2, 3))) is None, "the next one, which says less, is not"


def test_a_target_takes_what_each_member_has_into_account_and_tells_moves_by_name(stage):
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


def test_a_member_begins_with_epoch_0(stage):
    stage.come("m1")

    (written,) = currents(stage)
    assert (written.value.previous_member_epoch, written.value.member_epoch) == (0, 2)
    assert (reconciled(stage, "m1").from_epoch, reconciled(stage, "m1").epoch) == (0, 2)


def test_a_group_whose_records_were_removed_is_as_one_of_which_nothing_was_written():
    group, new = ModernGroup("g"), ModernGroup("g")
    for record in epochs(5):
        replay_consumer_group(group, record)
    replay_consumer_group(group, EpochWritten("g", None))
    replay_consumer_group(group, TargetEpochWritten("g", None))

    kept = ("epoch", "metadata_hash", "target_epoch", "target_at_ms")
    assert {name: getattr(group, name) for name in kept} == {name: getattr(new, name) for name in kept}


def test_the_hash_of_topics_is_the_one_that_earlier_brokers_wrote():
    """Another would raise the epoch of every group at its first heartbeat after an upgrade."""
    assert hash_of_topics(["u", "t", "none"], Topics(t=4, u=2)) == 6_053_682_676_446_597_683
    assert hash_of_topics(["none"], Topics(t=4)) == 0


def test_who_subscribes_to_nothing_any_more_has_its_epoch_begin_anew_and_nobody_else(stage):
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

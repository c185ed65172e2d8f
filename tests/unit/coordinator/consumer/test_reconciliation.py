"""Reconciliation: a partition is assigned only after its previous owner revoked it (KIP-848)."""

from kohort.coordinator.records import CurrentWritten, EpochWritten, MemberWritten, TargetEpochWritten
from support.machines.coordinator_stage import CoordinatorStage, Topics


def kinds(records):
    return [type(record).__name__ for record in records]


def parts(topic, *numbers):
    return [(topic, number) for number in numbers]


def test_member_revokes_partitions_that_the_target_assignment_gives_to_another_member():
    stage = CoordinatorStage()

    first = stage.come("m1")
    assert (first.error_code, first.member_id, first.member_epoch) == (0, "m1", 2)
    assert (stage.assignment_in(first), first.heartbeat_interval_ms) == (parts("t", 0, 1, 2, 3), 5_000)
    assert kinds(stage.records()) == [
        "MemberWritten",
        "EpochWritten",
        "TargetWritten",
        "TargetEpochWritten",
        "CurrentWritten",
    ]

    record_count = len(stage.records())
    second = stage.come("m2")  # the assignment interval since the last target has not passed: no new target assignment
    assert (second.member_epoch, stage.assignment_in(second)) == (2, [])
    assert kinds(stage.records()[record_count:]) == ["MemberWritten", "EpochWritten", "CurrentWritten"]

    record_count = len(stage.records())
    stage.advance(1_000)
    second = stage.beat("m2", 2)
    assert (second.member_epoch, stage.assignment_in(second)) == (
        3,
        None,
    )  # the target of m2 has partitions that m1 still owns
    written = stage.records()[record_count:]
    assert kinds(written) == ["TargetWritten", "TargetWritten", "TargetEpochWritten", "CurrentWritten"]
    assert (written[-1].value.state, written[-1].value.previous_member_epoch) == (2, 2)

    first = stage.beat("m1", 2)
    assert (first.member_epoch, stage.assignment_in(first)) == (2, parts("t", 0, 1))
    assert stage.assignment_in(stage.beat("m2", 3)) is None

    first = stage.beat("m1", 2, parts("t", 0, 1, 2))  # m1 still owns one of the partitions that it must revoke
    assert (first.member_epoch, stage.assignment_in(first)) == (2, None)
    first = stage.beat("m1", 2, parts("t", 0, 1))
    assert (first.member_epoch, stage.assignment_in(first)) == (3, None)

    second = stage.beat("m2", 3)
    assert (second.member_epoch, stage.assignment_in(second)) == (3, parts("t", 2, 3))
    last = stage.records()[-1]
    assert isinstance(last, CurrentWritten)
    assert last.value.state == 0
    assert last.value.assigned_partitions[0].assignment_epochs == [3, 3]


def test_three_members_that_join_in_turn_reach_a_balanced_assignment():
    stage = CoordinatorStage(topics=Topics(t=6, u=3), group_consumer_assignment_interval_ms=0)
    one = stage.come("m1", "t", "u")
    assert stage.assignment_in(one) == parts("t", *range(6)) + parts("u", 0, 1, 2)
    two = stage.come("m2", "t", "u")
    assert (two.member_epoch, stage.assignment_in(two)) == (3, [])
    three = stage.come("m3", "t", "u")
    assert (three.member_epoch, stage.assignment_in(three)) == (4, [])

    keeps = stage.assignment_in(stage.beat("m1", 2))
    assert len(keeps) == 3
    assert stage.beat("m1", 2, keeps).member_epoch == 4

    two, three = stage.beat("m2", 3), stage.beat("m3", 4)
    has = {"m1": keeps, "m2": stage.assignment_in(two), "m3": stage.assignment_in(three)}
    assert (two.member_epoch, three.member_epoch) == (4, 4)
    assert [len(of) for of in has.values()] == [3, 3, 3]
    assert sorted(place for of in has.values() for place in of) == parts("t", *range(6)) + parts("u", 0, 1, 2)

    stage.restart()
    assert stage.assignment_in(stage.beat("m2", 4, has["m2"])) is None  # a failover moves no partition


def test_partitions_of_an_expired_member_are_assigned_to_other_members():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    stage.come("m2")
    stage.advance(30_000)
    stage.beat("m2", 3)
    record_count = len(stage.records())
    stage.advance(15_000)

    assert kinds(stage.records()[record_count:]) == ["CurrentWritten", "TargetWritten", "MemberWritten", "EpochWritten"]
    two = stage.beat("m2", 3)
    assert (two.member_epoch, stage.assignment_in(two)) == (4, parts("t", 0, 1, 2, 3))


def test_leave_of_the_last_member_empties_the_consumer_group():
    stage = CoordinatorStage()
    stage.come("m1")
    record_count = len(stage.records())

    response = stage.beat("m1", -1)

    assert (response.error_code, response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (
        0,
        "m1",
        -1,
        0,
    )
    *tombstones, epoch, target = stage.records()[record_count:]
    assert kinds(tombstones) == ["CurrentWritten", "TargetWritten", "MemberWritten"]
    assert isinstance(tombstones[-1], MemberWritten)
    assert isinstance(epoch, EpochWritten)
    assert (epoch.value.epoch, epoch.value.metadata_hash) == (3, 0)
    assert isinstance(target, TargetEpochWritten)
    assert (target.value.assignment_epoch, target.value.assignment_timestamp) == (3, 0)
    again = stage.come("m2")  # a group without target assignment ignores the assignment interval
    assert (again.member_epoch, stage.assignment_in(again)) == (4, parts("t", 0, 1, 2, 3))


def test_member_that_does_not_revoke_within_its_rebalance_timeout_is_removed():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", rebalance_timeout_ms=10_000)
    stage.come("m2")
    stage.beat("m1", 2)
    stage.advance(9_999)
    assert stage.beat("m1", 2, parts("t", 0, 1, 2, 3)).error_code == 0
    stage.advance(1)

    answer = stage.beat("m1", 2)

    assert answer.error_message == "Member m1 is not a member of group g."
    assert stage.assignment_in(stage.beat("m2", 3)) == parts("t", 0, 1, 2, 3)

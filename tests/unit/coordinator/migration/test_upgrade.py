"""Conversion of a classic group to a consumer group when a member sends its first ConsumerGroupHeartbeat."""

from __future__ import annotations

import pytest

from kohort.coordinator.journal import EpochRaised, GroupConverted
from kohort.coordinator.records import EpochWritten, GroupWritten, MemberWritten
from kohort.errors import ErrorCode, StorageError
from kohort.wire.consumer_protocol import parse_assignment
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import GROUP, RANGE, CoordinatorStage

ALL = [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
NEWEST = {"group_consumer_assignment_interval_ms": 0}


def owning(*partitions, topic="t"):
    return (("range", subscription(topic, owned=partitions)),)


def assigned(stage, ticket):
    return sorted(parse_assignment(stage.answer(ticket).assignment).partitions)


@pytest.fixture
def stage() -> CoordinatorStage:
    return CoordinatorStage(**NEWEST)


def one_classic_member(stage, partitions=ALL):
    member_id, ticket = stage.enter()
    generation = stage.answer(ticket).generation_id
    stage.sync(member_id, generation, {member_id: assignment(*partitions)})
    return member_id, generation


@pytest.mark.parametrize("epoch", [1, -1])
def test_consumer_heartbeat_with_epoch_above_0_does_not_convert_a_classic_group(stage, epoch):
    classic, generation = one_classic_member(stage)

    answer = stage.beat(classic, epoch)

    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )
    assert stage.heartbeat(classic, generation) == ErrorCode.NONE


def test_classic_member_keeps_its_assignment_until_it_rejoins(stage):
    classic, generation = one_classic_member(stage)

    new = stage.come("new")

    assert (new.error_code, new.member_epoch, stage.assignment_in(new)) == (0, generation + 1, [])
    assert stage.heartbeat(classic, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = stage.answer(stage.join(classic, protocols=owning(*ALL)))
    assert (joined.generation_id, joined.leader, joined.members) == (generation, "", [])
    kept = assigned(stage, stage.sync(classic, generation))
    assert len(kept) == 2
    assert stage.assignment_in(stage.beat("new", new.member_epoch)) is None

    assert stage.heartbeat(classic, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = stage.answer(stage.join(classic, protocols=owning(*kept)))
    assert joined.generation_id == generation + 1
    assert assigned(stage, stage.sync(classic, generation + 1)) == kept
    assert stage.heartbeat(classic, generation + 1) == ErrorCode.NONE
    assert sorted([*kept, *stage.assignment_in(stage.beat("new", new.member_epoch))]) == ALL


def test_eager_classic_member_of_a_converted_group_gets_its_target_at_once(stage):
    classic, generation = one_classic_member(stage)
    stage.come("new")

    joined = stage.answer(stage.join(classic))

    assert joined.generation_id == generation + 1
    kept = assigned(stage, stage.sync(classic, generation + 1))
    assert sorted([*kept, *stage.assignment_in(stage.beat("new", generation + 1))]) == ALL


def test_converted_consumer_group_is_persisted(stage):
    classic, generation = one_classic_member(stage)
    record_count = len(stage.records())

    stage.come("new")

    written = stage.records()[record_count:]
    assert written[0] == GroupWritten(GROUP, None)
    assert [r.member_id for r in written if isinstance(r, MemberWritten)] == [classic, "new"]
    epochs = [r.value for r in written if isinstance(r, EpochWritten)]
    assert [value.epoch for value in epochs] == [generation, generation + 1]
    assert epochs[0].metadata_hash == epochs[1].metadata_hash != 0  # the subscribed topics are unchanged
    (entry,) = stage.entries(GroupConverted)
    assert (entry.to, entry.epoch, entry.by.member_id) == ("consumer", generation, "new")
    stage.restart()
    assert stage.heartbeat(classic, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_conversion_answers_waiting_requests_with_rebalance_in_progress(stage):
    classic, generation = one_classic_member(stage)
    other = stage.answer(stage.join()).member_id
    waiting = stage.join(other)
    assert stage.answer(waiting) is None

    stage.come("new")

    assert stage.answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.answer(waiting).member_id == other
    assert stage.answer(stage.join(other)).error_code == ErrorCode.NONE
    assert stage.heartbeat(classic, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_conversion_answers_the_waiting_join_group_request_of_a_static_member_with_its_new_id(stage):
    one_classic_member(stage)
    waiting = stage.join(instance_id="i")
    assert stage.answer(waiting) is None

    stage.come("new")

    response = stage.answer(waiting)
    assert response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.answer(stage.join(response.member_id, instance_id="i")).error_code == ErrorCode.NONE


def test_failed_conversion_to_a_consumer_group_keeps_the_classic_group(stage):
    classic, generation = one_classic_member(stage)
    stage.refuse_with = StorageError("the disk is full")

    assert stage.come("new").error_code == ErrorCode.NOT_COORDINATOR

    stage.refuse_with = None
    assert stage.heartbeat(classic, generation) == ErrorCode.NONE
    assert not stage.entries(GroupConverted)


def test_classic_member_that_sends_a_consumer_group_heartbeat_request_becomes_a_consumer_member(stage):
    classic, generation = one_classic_member(stage)
    stage.come("new")

    answer = stage.beat(classic, generation, owned=ALL)

    assert answer.error_code == ErrorCode.NONE
    assert len(stage.assignment_in(answer)) == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "online upgrade is disabled."),
        ({"group_consumer_migration_policy": "downgrade"}, "online upgrade is disabled."),
        ({"group_consumer_max_size": 1}, None),
    ],
)
def test_migration_policy_without_upgrade_keeps_the_classic_group(options, why):
    stage = CoordinatorStage(**NEWEST, **options)
    classic, generation = one_classic_member(stage)

    answer = stage.come("new")

    if why is None:
        assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    else:
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message == f"Cannot upgrade classic group g to consumer group because {why}"
    assert stage.heartbeat(classic, generation) == ErrorCode.NONE


def test_classic_group_of_another_protocol_type_is_not_converted(stage):
    member_id, ticket = stage.enter(protocol_type="connect", protocols=[("default", b"x")])
    generation = stage.answer(ticket).generation_id
    stage.sync(member_id, generation, {member_id: b"y"}, protocol_type="connect", protocol_name="default")

    answer = stage.come("new")

    assert answer.error_message == (
        "Cannot upgrade classic group g to consumer group because "
        "the group does not use the consumer embedded protocol."
    )


def test_assignor_user_data_prevents_conversion_to_a_consumer_group(stage):
    member_id, ticket = stage.enter()
    generation = stage.answer(ticket).generation_id
    with_data = assignment(*ALL)[:-4] + b"\x00\x00\x00\x01z"
    stage.sync(member_id, generation, {member_id: with_data})

    assert "an unsupported custom assignor is in use" in stage.come("new").error_message


def test_unreadable_member_metadata_prevents_conversion_to_a_consumer_group(stage):
    member_id, ticket = stage.enter(protocols=[("range", b"\x00")])
    generation = stage.answer(ticket).generation_id
    stage.sync(member_id, generation, {member_id: b""})

    assert stage.come("new").error_message.endswith("the embedded consumer protocol is malformed.")


def test_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(stage):
    classic, generation = one_classic_member(stage)
    stage.commit({("t", 0): 7}, member_id=classic, generation=generation)
    stage.leave(classic)

    assert stage.come("new").member_epoch == 2

    assert stage.coordinator.committed(GROUP).get("t", 0).offset == 7
    assert GroupWritten(GROUP, None) in stage.records()


def test_static_classic_member_may_rejoin_with_the_consumer_protocol(stage):
    ticket = stage.join(instance_id="i", protocols=RANGE)
    old = stage.answer(ticket)
    stage.sync(old.member_id, old.generation_id, {old.member_id: assignment(*ALL)}, instance_id="i")

    new = stage.come("new", instance_id="i")

    assert (new.error_code, stage.assignment_in(new)) == (0, ALL)


def test_conversion_during_a_rebalance_computes_a_target_for_a_rejoining_static_member(stage):
    waiting = stage.join(instance_id="i0")
    stage.advance(3_000)
    joined = stage.answer(waiting)

    new = stage.come("new", instance_id="i0")

    assert (new.error_code, new.member_epoch) == (ErrorCode.NONE, joined.generation_id + 1)
    assert stage.assignment_in(new) == ALL
    assert [entry.cause.event for entry in stage.entries(EpochRaised)] == ["converted"]


def test_conversion_of_a_stable_group_by_a_static_member_keeps_the_epoch(stage):
    first = stage.join(instance_id="i0")
    stage.advance(3_000)
    joined = stage.answer(first)
    stage.sync(joined.member_id, joined.generation_id, {joined.member_id: assignment(*ALL)}, instance_id="i0")

    new = stage.come("new", instance_id="i0")

    assert (new.error_code, new.member_epoch) == (ErrorCode.NONE, joined.generation_id)
    assert stage.assignment_in(new) == ALL
    assert not stage.entries(EpochRaised)


def test_conversion_before_a_protocol_is_selected_uses_the_metadata_of_the_first_protocol():
    stage = CoordinatorStage(group_initial_rebalance_delay_ms=3_000)
    stage.join(version=3, protocols=[("range", subscription("t")), ("roundrobin", subscription("u"))])

    stage.come("new")

    classic, _ = [record for record in stage.records() if isinstance(record, MemberWritten)]
    assert classic.value.subscribed_topic_names == ["t"]

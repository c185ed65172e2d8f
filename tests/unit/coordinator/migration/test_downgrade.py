"""Conversion of a consumer group to a classic group after the last consumer-protocol member left."""

from __future__ import annotations

import pytest

from kohort.coordinator.journal import GroupConverted, RequestFenced, RoundOpened, Trigger
from kohort.coordinator.records import EpochWritten, GroupWritten, MemberWritten, RegexResolved
from kohort.errors import ErrorCode, StorageError
from kohort.wire.consumer_protocol import parse_assignment
from kohort.wire.messages.group_classic import MemberIdentity
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import GROUP, CoordinatorStage
from support.machines.written_groups import T, epochs, member, write

ALL = [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
NEWEST = {"group_consumer_assignment_interval_ms": 0}


@pytest.fixture
def stage() -> CoordinatorStage:
    return CoordinatorStage(**NEWEST)


def owning(*partitions):
    return (("range", subscription("t", owned=partitions)),)


def beside(stage, modern="new", **options):
    stage.come(modern)
    classic = stage.answer(stage.join(**options)).member_id
    joined = stage.answer(stage.join(classic, **options))
    for _ in range(4):
        epoch = stage.beat(modern, 0, [], rebalance_timeout_ms=60_000, subscribed_topic_names=["t"]).member_epoch
        joined = stage.answer(stage.join(classic, **options))
        kept = parse_assignment(stage.answer(stage.sync(classic, joined.generation_id)).assignment).partitions
        if len(kept) == 2 and joined.generation_id == epoch:
            return classic, epoch
        owned = stage.assignment_in(
            stage.beat(modern, 0, [], rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
        )
        stage.beat(modern, epoch, owned)
    raise AssertionError("the group does not stabilize")


def test_leave_of_the_last_consumer_protocol_member_rebalances_the_classic_members(stage):
    classic, epoch = beside(stage)

    stage.beat("new", -1)

    (entry,) = stage.entries(GroupConverted)
    assert (entry.to, entry.epoch, entry.by.member_id) == ("classic", epoch, "new")
    assert stage.entries(RoundOpened)[-1].trigger.event == "downgraded"
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = stage.answer(stage.join(classic))
    assert (joined.generation_id, joined.leader) == (epoch + 1, classic)


def test_expiry_of_the_last_consumer_protocol_member_makes_the_group_classic(stage):
    classic, epoch = beside(stage, session_ms=200_000)

    stage.advance(50_000)

    assert stage.entries(GroupConverted)
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS


def test_failed_conversion_to_a_classic_group_is_retried(stage):
    classic, epoch = beside(stage, session_ms=200_000)
    stage.refuse_with = StorageError("the disk is full")
    stage.advance(50_000)
    assert not stage.entries(GroupConverted)

    stage.refuse_with = None
    stage.advance(500)

    assert stage.entries(GroupConverted)
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS


def test_failover_after_conversion_to_a_classic_group_loads_a_classic_group(stage):
    classic, epoch = beside(stage)
    stage.beat("new", -1)

    stage.restart()

    assert stage.come("again").error_code == ErrorCode.NONE
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS


def test_failover_before_all_members_of_a_converted_group_rejoined_rebalances_the_group_again(stage):
    classic, epoch = beside(stage)
    stage.beat("new", -1)

    stage.restart()

    assert stage.entries(RoundOpened)[-1].trigger == Trigger(event="downgraded")
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = stage.answer(stage.join(classic))
    assert (joined.generation_id, joined.leader) == (epoch + 1, classic)
    stage.restart()
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS, (
        "the group has no persisted generation yet"
    )


def test_failover_after_all_members_of_a_converted_group_rejoined_moves_no_partitions(stage):
    classic, _ = beside(stage)
    stage.beat("new", -1)
    joined = stage.answer(stage.join(classic))
    stage.sync(classic, joined.generation_id, {classic: b"all"})

    stage.restart()

    assert stage.heartbeat(classic, joined.generation_id) == ErrorCode.NONE


def test_migration_policy_without_downgrade_keeps_a_consumer_group():
    stage = CoordinatorStage(**NEWEST, group_consumer_migration_policy="upgrade")
    classic, epoch = beside(stage)

    stage.beat("new", -1)

    assert not stage.entries(GroupConverted)
    assert stage.heartbeat(classic, epoch) == ErrorCode.NONE
    assert stage.answer(stage.join(classic)).generation_id == epoch + 1


def test_disabled_migration_policy_refuses_join_group_request_to_a_consumer_group():
    stage = CoordinatorStage(**NEWEST, group_consumer_migration_policy="disabled")
    stage.come("new")

    assert stage.answer(stage.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stage.beat("new", -1)
    assert stage.answer(stage.enter()[1]).error_code == ErrorCode.NONE  # an empty group supports no protocol


def test_repeated_protocol_in_the_record_of_a_classic_member_counts_once(stage):
    write(
        stage,
        epochs(5),
        member("m1", 5, {T: {0: 5}}, classic=True, speaks=["b"]),
        member("m2", 5, {T: {1: 5}}, classic=True, speaks=["a", "a", "b"]),
        member("m3", 5, {T: {2: 5}}, classic=True, speaks=["a", "b"]),
        member("new", 5, {T: {3: 5}}),
    )

    stage.beat("new", -1)

    (written,) = [r for r in stage.records() if isinstance(r, GroupWritten)]
    assert (written.value.protocol, len(written.value.members)) == ("b", 3)


def test_remaining_consumer_protocol_member_prevents_conversion_to_a_classic_group(stage):
    beside(stage)
    stage.come("other")

    stage.beat("new", -1)

    assert not stage.entries(GroupConverted)


def test_empty_consumer_group_becomes_classic_with_the_next_join_group_request(stage):
    stage.come("new")
    stage.commit({("t", 0): 7}, member_id="new", generation=2, version=9)
    stage.beat("new", -1)

    member_id, ticket = stage.enter()

    assert stage.answer(ticket).generation_id == 1
    assert stage.answer(ticket).leader == member_id
    assert GROUP in stage.coordinator._shards.of_group(GROUP).groups.by_id


def test_static_member_that_rejoins_with_the_classic_protocol_converts_the_group(stage):
    stage.come("new", instance_id="i")

    ticket = stage.join(instance_id="i")
    joined = stage.answer(ticket)

    assert joined.error_code == ErrorCode.NONE
    assert [entry.to for entry in stage.entries(GroupConverted)] == ["classic"]
    synced = stage.answer(stage.sync(joined.member_id, joined.generation_id, instance_id="i"))
    assert sorted(parse_assignment(synced.assignment).partitions) == ALL


def test_static_member_that_rejoins_with_unchanged_member_id_converts_the_group_to_classic(stage):
    stage.come("new", instance_id="i")

    joined = stage.answer(stage.join("new", instance_id="i"))

    assert (joined.error_code, joined.member_id, joined.generation_id) == (ErrorCode.NONE, "new", 2)
    assert [entry.to for entry in stage.entries(GroupConverted)] == ["classic"]
    synced = stage.answer(stage.sync("new", 2, instance_id="i"))
    assert sorted(parse_assignment(synced.assignment).partitions) == ALL
    stage.restart()
    assert stage.heartbeat("new", 2, instance_id="i") == ErrorCode.NONE


def test_conversion_with_an_outdated_target_makes_all_classic_members_rejoin(stage):
    stage.come("new", instance_id="i")

    joined = stage.answer(stage.join(instance_id="i", protocols=(("range", subscription("t", "u")),)))

    # The new group epoch has no target assignment yet: the member must rejoin.
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 0)
    assert [entry.to for entry in stage.entries(GroupConverted)] == ["classic"]
    assert stage.entries(RoundOpened)[-1].trigger.event == "downgraded"
    again = stage.answer(stage.join(joined.member_id, instance_id="i"))
    assert (again.error_code, again.generation_id, again.leader) == (ErrorCode.NONE, 3, joined.member_id)


def test_conversion_with_unreleased_partitions_makes_all_classic_members_rejoin(stage):
    stage.come("new", instance_id="i")
    other = stage.answer(stage.join(instance_id="j")).member_id
    joined = stage.answer(stage.join(other, instance_id="j"))
    synced = stage.answer(stage.sync(other, joined.generation_id, instance_id="j"))
    assert parse_assignment(synced.assignment).partitions == [], "the static member has not revoked the partitions yet"

    stage.join("new", instance_id="i")

    assert [entry.to for entry in stage.entries(GroupConverted)] == ["classic"]
    assert stage.entries(RoundOpened)[-1].trigger.event == "downgraded"
    assert stage.heartbeat(other, joined.generation_id, instance_id="j") == ErrorCode.REBALANCE_IN_PROGRESS


def test_dynamic_member_that_switches_to_the_classic_protocol_keeps_the_consumer_group(stage):
    stage.come("new")

    joined = stage.answer(stage.join("new", protocols=owning(*ALL)))

    assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, "new")
    assert not stage.entries(GroupConverted)
    # A static member that rejoins with the classic protocol does not convert the group either.
    first = stage.answer(stage.join(instance_id="i")).member_id
    again = stage.answer(stage.join(instance_id="i"))
    assert (again.error_code, again.member_id == first) == (ErrorCode.NONE, False)
    assert not stage.entries(GroupConverted)


def test_metadata_record_of_a_replaced_member_precedes_the_group_tombstone(stage):
    stage.come("new", instance_id="i")
    record_count = len(stage.records())

    classic = stage.answer(stage.join(instance_id="i")).member_id

    written = stage.records()[record_count:]
    members = [(r.member_id, r.value is None) for r in written if isinstance(r, MemberWritten)]
    assert members == [("new", True), (classic, False), (classic, False), (classic, True)]
    assert isinstance(written[-1], GroupWritten)
    assert written[-2] == EpochWritten(GROUP, None)


def test_refused_join_group_request_to_a_consumer_group_returns_no_member_id(stage):
    stage.come("new", instance_id="i")

    for ticket in (stage.join("me", protocol_type="connect"), stage.join("me", instance_id="i")):
        refused = stage.answer(ticket)
        assert refused.error_code in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.FENCED_INSTANCE_ID)
        assert refused.member_id == ""
    assert [entry.error for entry in stage.entries(RequestFenced)] == ["FENCED_INSTANCE_ID"]


def test_join_group_request_with_unknown_member_id_is_rejected_before_its_metadata_is_parsed(stage):
    stage.come("new", instance_id="i")
    unreadable = (("range", b"\x00"),)

    assert stage.answer(stage.join("me", instance_id="j", protocols=unreadable)).error_code == 25
    assert stage.answer(stage.join("me", protocols=unreadable)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_join_group_request_keeps_member_fields_that_the_classic_protocol_lacks(stage):
    stage.come("other")
    static = stage.answer(stage.join(instance_id="i", rebalance_ms=50_000)).member_id

    assert stage.answer(stage.join(static, rebalance_ms=-1)).error_code == ErrorCode.NONE

    values = [r.value for r in stage.records() if isinstance(r, MemberWritten) and r.member_id == static and r.value]
    assert values
    assert {(value.instance_id, value.rebalance_timeout_ms) for value in values} == {("i", 50_000)}


def test_join_group_request_to_a_consumer_group_starts_the_topic_search_for_patterns(stage):
    stage.come("one", subscribed_topic_regex="t+", subscribed_topic_names=None)
    stage.advance(1)
    stage.come("two", subscribed_topic_regex="t*", subscribed_topic_names=None)
    stage.advance(1)
    stage.beat("one", -1)
    stage.advance(1)
    assert {r.regex for r in stage.records() if isinstance(r, RegexResolved)} == {"t+"}

    stage.join()  # JoinGroup v9 without member id returns a member id first
    stage.join("classic")
    stage.advance(1)

    assert {r.regex for r in stage.records() if isinstance(r, RegexResolved)} == {"t+", "t*"}


def test_full_consumer_group_accepts_rejoining_static_classic_members():
    stage = CoordinatorStage(**NEWEST, group_consumer_max_size=2)
    stage.come("new")
    first = stage.answer(stage.join(instance_id="i")).member_id

    assert stage.answer(stage.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = stage.answer(stage.join(instance_id="i"))
    assert (again.error_code, again.member_id == first) == (ErrorCode.NONE, False)


def test_classic_member_that_sends_no_join_group_request_in_time_is_removed(stage):
    classic, epoch = beside(stage, rebalance_ms=5_000, session_ms=100_000)
    stage.come("other")
    assert stage.heartbeat(classic, epoch) == ErrorCode.REBALANCE_IN_PROGRESS

    stage.advance(5_000)

    assert stage.heartbeat(classic, epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_member_that_sends_no_sync_group_request_in_time_is_removed(stage):
    stage.come("new")
    classic = stage.answer(stage.join(rebalance_ms=5_000)).member_id
    joined = stage.answer(stage.join(classic, rebalance_ms=5_000))

    stage.advance(5_000)

    assert stage.heartbeat(classic, joined.generation_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_join_group_request_to_a_consumer_group_must_share_a_protocol_with_classic_members(stage):
    beside(stage)
    other = stage.join(protocols=(("roundrobin", subscription("t")),))

    assert stage.answer(other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_join_group_request_to_a_consumer_group_with_unreadable_subscription_is_rejected(stage):
    stage.come("new")
    ticket = stage.join("me", protocols=(("range", b"\x00"),))

    assert stage.answer(ticket).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.answer(stage.join("me", protocol_type="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_requests_of_a_consumer_protocol_member_are_refused(stage):
    stage.come("new")

    assert stage.heartbeat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.answer(stage.sync("new", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.heartbeat("stranger", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_group_request_for_members_of_both_protocols_raises_the_group_epoch_once(stage):
    classic, epoch = beside(stage)
    stage.come("other", instance_id="i")

    response = stage.answer(stage.leave(classic, MemberIdentity(member_id="", group_instance_id="i"), "stranger"))

    assert [member.error_code for member in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert stage.beat("new", epoch).error_code == ErrorCode.NONE


def test_failed_append_of_a_classic_join_keeps_the_empty_consumer_group_and_its_offsets(stage):
    stage.come("new")
    stage.commit({("t", 0): 7}, member_id="new", generation=2, version=9)
    stage.beat("new", -1)
    stage.refuse_with = StorageError("the disk is full")

    assert stage.answer(stage.join(version=3)).error_code == ErrorCode.NOT_COORDINATOR
    assert stage.answer(stage.join(version=9)).error_code == ErrorCode.NOT_COORDINATOR

    stage.refuse_with = None
    assert stage.come("again").error_code == ErrorCode.NONE
    committed = stage.coordinator._shards.of_group(GROUP).groups.offsets[GROUP].get("t", 0)
    assert committed is not None
    assert committed.offset == 7

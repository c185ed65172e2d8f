"""Classic members of a consumer group: timeouts for their JoinGroup and SyncGroup requests."""

import pytest

from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState, value_of
from kohort.coordinator.journal import EpochRaised
from kohort.coordinator.records import ConsumerGroupRecord, CurrentWritten
from kohort.errors import ErrorCode
from kohort.wire.consumer_protocol import parse_assignment
from support.machines.coordinator_stage import CoordinatorStage
from support.machines.written_groups import T, U, epochs, member, write

STABLE, UNREVOKED, UNRELEASED = ReconciliationState


def classic(epoch, state=STABLE, has=None, pending=None, target=None, **fields) -> list[ConsumerGroupRecord]:
    metadata_and_target = member("m1", epoch, has, target=target, classic=True, **fields)[:2]
    current = CurrentAssignment(epoch, epoch, state, has or {}, pending or {})
    return [*metadata_and_target, CurrentWritten("g", "m1", value_of(current))]


def waits_for(*partitions: int, topic: bytes = T) -> list[ConsumerGroupRecord]:
    target = {T: frozenset({0}), topic: frozenset({*partitions, *({0} if topic == T else ())})}
    return classic(6, UNRELEASED, {T: {0: 5}}, target=target, names=("t", "u"))


def other(epoch: int, has=None, pending=None) -> list[ConsumerGroupRecord]:
    return [*member("m2", epoch, has, pending=pending, instance_id="i")]


HEARTBEATS = {
    "assignment equals the target": (classic(6, has={T: {0: 5}}), other(6), ErrorCode.NONE),
    "member epoch below the target epoch": (classic(5, has={T: {0: 5}}), other(6), ErrorCode.REBALANCE_IN_PROGRESS),
    "member must revoke a partition": (
        classic(6, UNREVOKED, pending={T: {0: 5}}), other(6), ErrorCode.REBALANCE_IN_PROGRESS,
    ),
    "awaited partition has another owner": (waits_for(1), other(6, {T: {1: 5}}), ErrorCode.NONE),
    "awaited partition is being revoked by its owner": (waits_for(1), other(5, pending={T: {1: 5}}), ErrorCode.NONE),
    "awaited partition belongs to an absent static member": (waits_for(1), other(-2, {T: {1: 0}}), ErrorCode.NONE),
    "awaited partition belongs to a returned static member": (waits_for(1), other(0, {T: {1: 0}}), ErrorCode.NONE),
    "one of two awaited partitions has another owner": (waits_for(1, 2), other(6, {T: {2: 5}}), ErrorCode.NONE),
    "partition of another topic has another owner": (waits_for(1, topic=U), other(6, {U: {1: 5}}), ErrorCode.NONE),
    "awaited partition became unowned": (waits_for(1), other(6, {T: {2: 5}}), ErrorCode.REBALANCE_IN_PROGRESS),
    "partition of another topic became unowned": (
        waits_for(1, topic=U), other(6, {T: {1: 5}}), ErrorCode.REBALANCE_IN_PROGRESS,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("it", "beside", "code"), HEARTBEATS.values(), ids=HEARTBEATS.keys())
def test_classic_heartbeat_returns_rebalance_in_progress_only_if_a_rejoin_would_change_the_assignment(
    stage, it, beside, code
):
    write(stage, epochs(6), it, beside)
    (epoch,) = {r.value.member_epoch for r in it if isinstance(r, CurrentWritten)}

    assert stage.heartbeat("m1", epoch) == code


SYNCS = {
    "assignment equals the target": (classic(6, has={T: {0: 5, 2: 6}}), ErrorCode.NONE, [("t", 0), ("t", 2)]),
    "member epoch below the target epoch": (classic(5, has={T: {0: 5}}), ErrorCode.REBALANCE_IN_PROGRESS, None),
    "member epoch below the target epoch and pending revocation": (
        classic(5, UNREVOKED, {T: {0: 5}}, {T: {1: 5}}), ErrorCode.NONE, [("t", 0)],
    ),
    "member awaits a partition": (waits_for(1), ErrorCode.NONE, [("t", 0)]),
}  # fmt: skip


@pytest.mark.parametrize(("it", "code", "has"), SYNCS.values(), ids=SYNCS.keys())
def test_sync_group_request_in_a_consumer_group_returns_the_current_assignment_at_once(stage, it, code, has):
    write(stage, epochs(6), it, other(6, {T: {1: 5}} if has != [("t", 0)] else None))
    (epoch,) = {r.value.member_epoch for r in it if isinstance(r, CurrentWritten)}

    answer = stage.answer(stage.sync("m1", epoch))

    assert answer.error_code == code
    if has is not None:
        assert sorted(parse_assignment(answer.assignment).partitions) == has
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": None, "protocol_name": None, "version": 4}, ErrorCode.NONE),
        ({}, ErrorCode.NONE),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect", "protocol_name": None, "version": 4}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_sync_group_request_in_a_consumer_group_accepts_the_members_first_protocol_or_no_protocol(stage, fields, code):
    write(stage, epochs(6), classic(6, has={T: {0: 5}}, speaks=["range", "roundrobin"]), other(6))

    assert stage.answer(stage.sync("m1", 6, **fields)).error_code == code


@pytest.mark.parametrize("generation", [5, 7])
def test_classic_member_with_a_wrong_generation_gets_illegal_generation(stage, generation):
    write(stage, epochs(6), classic(6, has={T: {0: 5}}), other(6))

    assert stage.heartbeat("m1", generation) == ErrorCode.ILLEGAL_GENERATION
    assert stage.answer(stage.sync("m1", generation)).error_code == ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_of_a_member_without_classic_protocols_returns_unknown_member_id(stage):
    write(stage, epochs(6), classic(6, speaks=()), other(6))

    assert stage.heartbeat("m1", 6) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("sign", ["heartbeat", "sync"])
def test_journal_entry_of_a_removed_classic_member_has_its_longest_gap_between_requests(stage, sign):
    write(stage, epochs(6), classic(6, has={T: {0: 5}}), other(6))
    for silence_ms in (3_000, 7_000, 2_000):
        stage.advance(silence_ms)
        if sign == "sync":
            assert stage.answer(stage.sync("m1", 6, connection=5)).error_code == ErrorCode.NONE
        else:
            assert stage.heartbeat("m1", 6, connection=5) == ErrorCode.NONE
    last_ms = stage.now
    stage.coordinator.connection_closed(5, stage.now)

    stage.advance(10_000)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.member.member_id) == ("session_expired", "m1")
    assert (cause.vitals.last_seen_ms, cause.vitals.longest_gap_ms) == (last_ms, 7_000)
    assert cause.vitals.connection_closed_at_ms == last_ms


def removed(stage: CoordinatorStage) -> list[str]:
    timeouts = ("session_expired", "rejoin_timeout", "resync_timeout")
    return [e.cause.event for e in stage.entries(EpochRaised) if e.cause.event in timeouts]


@pytest.fixture
def rebalancing_stage() -> CoordinatorStage:
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    write(stage, epochs(6), classic(5, has={T: {0: 5}}), member("m2", 6))
    assert stage.heartbeat("m1", 5) == ErrorCode.REBALANCE_IN_PROGRESS
    return stage


def goes_on(stage: CoordinatorStage, until_ms: int) -> None:
    epoch = 6
    while stage.now < until_ms:
        stage.advance(min(5_000, until_ms - stage.now))
        epoch = stage.beat("m2", epoch).member_epoch
        stage.heartbeat("m1", 5)


def test_rejoin_timeout_of_a_classic_member_counts_from_the_first_rebalance_in_progress(rebalancing_stage):
    goes_on(rebalancing_stage, rebalancing_stage.now + 59_999)
    assert removed(rebalancing_stage) == []

    rebalancing_stage.advance(1)

    assert removed(rebalancing_stage) == ["rejoin_timeout"]


def test_join_group_request_in_time_cancels_the_rejoin_timeout_of_a_classic_member(rebalancing_stage):
    rebalancing_stage.answer(rebalancing_stage.join("m1"))
    rebalancing_stage.topics.make("t", 5)
    rebalancing_stage.beat("m2", 6, [])
    generation = next(r.value.member_epoch for r in reversed(currents(rebalancing_stage)) if r.member_id == "m1")
    assert rebalancing_stage.heartbeat("m1", generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert "rejoin" in {key.kind for key in rebalancing_stage.coordinator.timers_of("g")}

    generation = rebalancing_stage.answer(
        rebalancing_stage.join("m1")
    ).generation_id  # the metadata in the JoinGroup is unchanged

    assert "rejoin" not in {key.kind for key in rebalancing_stage.coordinator.timers_of("g")}
    assert rebalancing_stage.answer(rebalancing_stage.sync("m1", generation)).error_code == ErrorCode.NONE


def currents(stage: CoordinatorStage) -> list[CurrentWritten]:
    return [record for record in stage.records() if isinstance(record, CurrentWritten)]


def test_each_join_group_request_restarts_the_rejoin_timeout_of_a_classic_member(rebalancing_stage):
    rebalancing_stage.advance(4_000)
    joined = rebalancing_stage.answer(rebalancing_stage.join("m1"))
    generation = joined.generation_id
    assert rebalancing_stage.answer(rebalancing_stage.sync("m1", generation)).error_code == ErrorCode.NONE
    rebalancing_stage.come("m3")
    rebalancing_stage.advance(4_000)
    assert rebalancing_stage.heartbeat("m1", generation) == ErrorCode.REBALANCE_IN_PROGRESS

    epochs_of = {"m2": 6, "m3": 0}
    until_ms = rebalancing_stage.now + 59_999
    while rebalancing_stage.now < until_ms:
        for member_id in epochs_of:
            answer = rebalancing_stage.beat(member_id, 0, [], rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
            assert answer.error_code == ErrorCode.NONE
        rebalancing_stage.heartbeat("m1", generation)
        rebalancing_stage.advance(min(5_000, until_ms - rebalancing_stage.now))
    assert removed(rebalancing_stage) == []

    rebalancing_stage.advance(1)

    assert removed(rebalancing_stage) == ["rejoin_timeout"]


def test_classic_member_must_send_sync_group_request_within_the_rebalance_timeout(stage):
    write(stage, epochs(6), member("m2", 6))
    generation = stage.answer(stage.join("m1", version=3, rebalance_ms=9_000)).generation_id

    stage.advance(8_999)
    assert stage.heartbeat("m1", generation) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    stage.advance(1)

    assert removed(stage) == ["resync_timeout"]


def test_classic_member_with_negative_rebalance_timeout_expires_at_once(stage):
    write(stage, epochs(6), member("m2", 6))

    stage.join("m1", version=3, rebalance_ms=-1)

    assert removed(stage) == ["resync_timeout"]

"""Timers of consumer group members: late, cancelled and restarted timers."""

from typing import Any

import pytest

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerPresence
from kohort.coordinator.consumer.on_timer import on_timer
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.journal import EpochRaised
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import Outcome, SetTimer, TimerKey
from kohort.coordinator.records import CurrentWritten, MemberWritten
from kohort.errors import StorageError
from support.machines.coordinator_stage import CoordinatorStage, Topics
from support.machines.written_groups import T, epochs, member, resolved, write

NOW_MS = 5_000


def fired(key: TimerKey) -> Outcome:
    group = ModernGroup("g")
    records = (
        *epochs(5),
        *member("settled", 5, {T: {0: 5}}),
        *member("revoking", 5, pending={T: {1: 5}}),
        *member("classic", 5, classic=True),
    )
    for record in records:
        replay_consumer_group(group, record)
    for member_id in group.members:
        group.presence[member_id] = ConsumerPresence(expires_at_ms=NOW_MS + 1, last_seen_ms=0)
    ctx = CoordinatorStage(topics=Topics(t=4)).coordinator._at(NOW_MS)
    return on_timer(group, key, ctx)


OVER = {
    "session of a departed member": TimerKey("member_session", "g", "gone"),
    "revocation of a departed member": TimerKey("revocation", "g", "gone"),
    "revocation that is complete": TimerKey("revocation", "g", "settled"),
    "revocation of a classic member": TimerKey("revocation", "g", "classic"),
    "rejoin of a consumer-protocol member": TimerKey("rejoin", "g", "settled"),
    "SyncGroup of a consumer-protocol member": TimerKey("resync", "g", "settled"),
    "rejoin of a revoking consumer-protocol member": TimerKey("rejoin", "g", "revoking"),
    "SyncGroup of a revoking consumer-protocol member": TimerKey("resync", "g", "revoking"),
    "topic search of a group without patterns": TimerKey("regex", "g"),
}


@pytest.mark.parametrize("key", OVER.values(), ids=OVER.keys())
def test_outdated_timer_has_no_effect(key):
    out = fired(key)

    assert (out.records, out.timers, out.journal, out.otherwise) == ([], [], [], [])


def test_session_timer_that_fires_after_the_session_was_renewed_is_set_again():
    key = TimerKey("member_session", "g", "settled")

    out = fired(key)

    assert (out.records, out.timers) == ([], [SetTimer(key, NOW_MS + 1)])


@pytest.mark.parametrize(
    ("key", "event"),
    [
        (TimerKey("revocation", "g", "revoking"), "revocation_timeout"),
        (TimerKey("rejoin", "g", "classic"), "rejoin_timeout"),
        (TimerKey("resync", "g", "classic"), "resync_timeout"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_member_that_exceeds_its_rebalance_timeout_is_removed_with_a_retry_after_a_failed_append(key, event):
    out = fired(key)

    entry: Any = out.journal[0]
    assert (entry.cause.event, entry.cause.member.member_id, entry.members) == (event, key.member_id, 2)
    assert [r.member_id for r in out.records if isinstance(r, MemberWritten)] == [key.member_id]
    assert out.otherwise == [SetTimer(key, NOW_MS + 500)]


@pytest.mark.parametrize("what", ["session", "revocation", "expressions", "rejoin and resync"])
def test_unloading_a_partition_removes_the_timers_of_its_consumer_groups(what):
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0, topics=Topics(t=4, **many(3_000)))
    stage.come("m1")
    if what == "revocation":
        stage.come("m2")
        stage.beat("m1", 2)
        assert "revocation" in waiting(stage)
    elif what == "expressions":
        stage.come("m2", subscribed_topic_regex="m.*")
        assert "regex" in waiting(stage)
    elif what == "rejoin and resync":
        classic = stage.answer(stage.join()).member_id
        joined = stage.answer(stage.join(classic))
        stage.come("m2")
        stage.heartbeat(classic, joined.generation_id)
        assert {"rejoin", "resync"} <= waiting(stage)
    assert "member_session" in waiting(stage)

    stage.unload()

    assert waiting(stage) == set()
    assert stage.coordinator.wake_at_ms is None


def many(count: int) -> dict[str, int]:
    return {f"m{number}": 1 for number in range(count)}


def waiting(stage: CoordinatorStage) -> set[str]:
    return {key.kind for key in stage.coordinator.timers_of("g")}


def test_member_that_leaves_a_consumer_group_has_no_timers():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    stage.come("m2")
    stage.beat("m1", 2)  # the member must revoke two partitions

    stage.beat("m1", -1)

    assert stage.coordinator.timers_of("g") == [TimerKey("member_session", "g", "m2")]


def test_absent_static_member_expires_with_its_session():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", instance_id="i")
    stage.come("m2")
    stage.beat("m1", 2, instance_id="i")  # the member must revoke two partitions

    stage.beat("m1", -2, instance_id="i")

    assert sorted(stage.coordinator.timers_of("g")) == [
        TimerKey("member_session", "g", "m1"),
        TimerKey("member_session", "g", "m2"),
    ]


def test_static_member_that_rejoins_with_a_new_member_id_has_timers_of_that_id():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", instance_id="i")
    stage.beat("m1", -2, instance_id="i")

    stage.come("m2", instance_id="i")

    assert stage.coordinator.timers_of("g") == [TimerKey("member_session", "g", "m2")]


def test_classic_member_that_switches_to_the_consumer_protocol_has_no_classic_timers():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    classic = stage.answer(stage.join()).member_id
    joined = stage.answer(stage.join(classic))
    assert waiting(stage) == {"member_session", "resync"}

    answer = stage.beat(classic, joined.generation_id)

    assert answer.error_code == 0
    assert waiting(stage) == {"member_session"}


def test_failover_restarts_the_revocation_timeout_of_members(stage):
    write(stage, epochs(6), member("m1", 5, {T: {0: 5}}, pending={T: {1: 5}}), member("m2", 6))
    for _ in range(2):
        stage.advance(29_999)
        assert stage.beat("m1", 5).error_code == 0
        stage.beat("m2", 6)
    stage.advance(1)
    assert len(stage.coordinator.groups_in_partition_of("g").consumer["g"].members) == 2

    stage.advance(1)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.member.member_id) == ("revocation_timeout", "m1")


def test_removal_of_an_expired_member_is_retried_half_a_second_after_a_failed_append(stage):
    stage.come("m1")
    stage.refuse_with = StorageError("the disk is full")
    stage.advance(45_000)
    stage.refuse_with = None

    stage.advance(499)
    assert len(stage.coordinator.groups_in_partition_of("g").consumer["g"].members) == 1
    stage.advance(1)

    assert len(stage.coordinator.groups_in_partition_of("g").consumer["g"].members) == 0


class TestLoadedSessions:
    def test_member_without_request_since_the_failover_has_no_connection_closing_time_in_the_journal(self, stage):
        stage.come("m1", connection=0)
        stage.advance(1_000)
        stage.coordinator.connection_closed(0, stage.now)
        stage.unload()
        stage.reload()

        stage.advance(45_000)

        vitals = stage.entries(EpochRaised)[-1].cause.vitals
        assert (vitals.connection_closed_at_ms, vitals.longest_gap_ms) == (None, 0)

    def test_journal_entry_of_a_removed_member_has_the_closing_time_of_its_last_connection(self, stage):
        stage.come("m1", connection=0)
        stage.advance(1_000)
        stage.coordinator.connection_closed(0, stage.now)
        closed_ms = stage.now

        stage.advance(44_000)

        assert stage.entries(EpochRaised)[-1].cause.vitals.connection_closed_at_ms == closed_ms


def test_pending_revocations_end_when_the_member_leaves_the_consumer_group():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    stage.come("m2")
    stage.beat("m1", 2)  # the member must revoke two partitions
    soft = stage.coordinator.groups_in_partition_of("g").consumer["g"].volatile
    assert soft.revoking_since_ms.keys() == {"m1"}

    stage.beat("m1", -1)
    assert soft.revoking_since_ms == {}
    assert soft.released_ms.keys() == {(T, number) for number in range(4)}
    stage.beat("m2", -1)

    assert (soft.released_ms, soft.topics) == ({}, None)


def test_member_without_assignment_record_has_no_previous_epoch(stage):
    write(stage, epochs(5), [member("m1", 5, instance_id="i")[0]])

    assert stage.beat("m1", -2, instance_id="i").error_code == 0

    (written,) = [record for record in stage.records() if isinstance(record, CurrentWritten)]
    assert (written.value.member_epoch, written.value.previous_member_epoch) == (-2, 0)


@pytest.mark.parametrize(
    ("remaining_records", "stays"),
    [
        ([], False),
        (epochs(2, 1)[:1], True),
        (epochs(1, 2)[1:], True),
        (member("m1", 5)[:1], True),
        (resolved({"t.*": ["t"]}), True),
        ([member("m1", 5)[0], MemberWritten("g", "m1", None)], False),
    ],
    ids=["no record", "group epoch", "target epoch", "member", "pattern with matches", "departed member"],
)
def test_consumer_group_without_state_is_dropped(remaining_records, stays):
    groups = Groups()
    groups.ensure_consumer("g")
    for record in remaining_records:
        replay_consumer_group(groups.consumer["g"], record)

    groups.maybe_forget("g")

    assert ("g" in groups.consumer) is stays

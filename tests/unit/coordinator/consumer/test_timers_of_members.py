"""What waits for members of consumer groups: timers that fire late, that are given up, and sessions that begin anew."""

import random
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from kohort.config import BrokerConfig
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerPresence, new_member_id
from kohort.coordinator.consumer.on_timer import on_timer
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochRaised
from kohort.coordinator.journal_evidence import JournalEvidence
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import Outcome, SetTimer, TimerKey
from kohort.coordinator.records import CurrentWritten, MemberWritten
from kohort.errors import StorageError
from support.machines.coordinator_stage import CoordinatorStage, Topics
from support.machines.written_groups import T, epochs, member, resolved, write

NOW_MS = 5_000


def fired(key: TimerKey) -> Outcome:
    """What a timer brings about in a group of three: one that has all it is to have, one that is to give something up,
    and one of the classic protocol; their sessions end in the future."""
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
    ctx = Context(NOW_MS, BrokerConfig(), random.Random(1), Topics(t=4), JournalEvidence())
    return on_timer(group, key, ctx)


OVER = {
    "the session of one that is gone": TimerKey("member_session", "g", "gone"),
    "what one that is gone was to give up": TimerKey("revocation", "g", "gone"),
    "what was given up": TimerKey("revocation", "g", "settled"),
    "what a classic member gives up": TimerKey("revocation", "g", "classic"),
    "the join of a member of the new protocol": TimerKey("rejoin", "g", "settled"),
    "the sync of a member of the new protocol": TimerKey("resync", "g", "settled"),
    "the join of one that is to give something up": TimerKey("rejoin", "g", "revoking"),
    "the sync of one that is to give something up": TimerKey("resync", "g", "revoking"),
    "expressions that nobody uses": TimerKey("regex", "g"),
}


@pytest.mark.parametrize("key", OVER.values(), ids=OVER.keys())
def test_a_timer_of_what_is_over_does_nothing(key):
    out = fired(key)

    assert (out.records, out.timers, out.journal, out.otherwise) == ([], [], [], [])


def test_a_session_that_was_renewed_is_looked_at_when_it_would_end():
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
def test_who_was_waited_for_in_vain_is_removed_and_looked_at_again_if_that_cannot_be_written(key, event):
    out = fired(key)

    entry: Any = out.journal[0]
    assert (entry.cause.event, entry.cause.who.member_id, entry.members) == (event, key.member_id, 2)
    assert [r.member_id for r in out.records if isinstance(r, MemberWritten)] == [key.member_id]
    assert out.otherwise == [SetTimer(key, NOW_MS + 500)]


@pytest.mark.parametrize("what", ["session", "revocation", "expressions", "rejoin and resync"])
def test_a_group_that_another_broker_takes_over_is_not_waited_for(what):
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
    """What kinds of timers are set for the group."""
    return {key.kind for key in stage.coordinator.timers_of("g")}


def test_who_leaves_is_not_waited_for():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    stage.come("m2")
    stage.beat("m1", 2)  # told to give up two

    stage.beat("m1", -1)

    assert stage.coordinator.timers_of("g") == [TimerKey("member_session", "g", "m2")]


def test_a_static_member_that_goes_for_a_while_is_waited_for_as_long_as_its_session_lasts():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", instance_id="i")
    stage.come("m2")
    stage.beat("m1", 2, instance_id="i")  # told to give up two

    stage.beat("m1", -2, instance_id="i")

    assert sorted(stage.coordinator.timers_of("g")) == [
        TimerKey("member_session", "g", "m1"),
        TimerKey("member_session", "g", "m2"),
    ]


def test_a_static_member_under_a_new_id_is_waited_for_under_that_one():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1", instance_id="i")
    stage.beat("m1", -2, instance_id="i")

    stage.come("m2", instance_id="i")

    assert stage.coordinator.timers_of("g") == [TimerKey("member_session", "g", "m2")]


def test_who_turns_to_the_new_protocol_is_not_waited_for_as_a_classic_member():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    classic = stage.answer(stage.join()).member_id
    joined = stage.answer(stage.join(classic))
    assert waiting(stage) == {"member_session", "resync"}

    answer = stage.beat(classic, joined.generation_id)

    assert answer.error_code == 0
    assert waiting(stage) == {"member_session"}


def test_after_a_failover_a_revocation_is_given_its_whole_time_again(stage):
    write(stage, epochs(6), member("m1", 5, {T: {0: 5}}, pending={T: {1: 5}}), member("m2", 6))
    for _ in range(2):
        stage.advance(29_999)
        assert stage.beat("m1", 5).error_code == 0
        stage.beat("m2", 6)
    stage.advance(1)
    assert len(stage.coordinator.groups_in_partition_of("g").consumer["g"].members) == 2

    stage.advance(1)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.who.member_id) == ("revocation_timeout", "m1")


def test_who_could_not_be_removed_is_after_half_a_second(stage):
    stage.come("m1")
    stage.refuse_with = StorageError("the disk is full")
    stage.advance(45_000)
    stage.refuse_with = None

    stage.advance(499)
    assert len(stage.coordinator.groups_in_partition_of("g").consumer["g"].members) == 1
    stage.advance(1)

    assert len(stage.coordinator.groups_in_partition_of("g").consumer["g"].members) == 0


class TestSessionsThatBeginWithoutARequest:
    def test_no_connection_is_told_to_have_been_closed(self, stage):
        stage.come("m1", connection=0)
        stage.advance(1_000)
        stage.coordinator.connection_closed(0, stage.now)
        stage.unload()
        stage.reload()

        stage.advance(45_000)

        vitals = stage.entries(EpochRaised)[-1].cause.vitals
        assert (vitals.connection_closed_at_ms, vitals.longest_gap_ms) == (None, 0)

    def test_the_connection_of_the_last_request_is_told_of(self, stage):
        stage.come("m1", connection=0)
        stage.advance(1_000)
        stage.coordinator.connection_closed(0, stage.now)
        closed_ms = stage.now

        stage.advance(44_000)

        assert stage.entries(EpochRaised)[-1].cause.vitals.connection_closed_at_ms == closed_ms


def test_what_a_member_was_to_give_up_is_forgotten_with_it():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("m1")
    stage.come("m2")
    stage.beat("m1", 2)  # told to give up two
    soft = stage.coordinator.groups_in_partition_of("g").consumer["g"].volatile
    assert soft.revoking_since_ms.keys() == {"m1"}

    stage.beat("m1", -1)
    assert soft.revoking_since_ms == {}
    assert soft.released_ms.keys() == {(T, number) for number in range(4)}
    stage.beat("m2", -1)

    assert (soft.released_ms, soft.topics) == ({}, None)


def test_of_a_member_that_said_something_and_has_nothing_yet_the_epoch_before_is_none(stage):
    """A log that was compacted can hold what a member said without what it has."""
    write(stage, epochs(5), [member("m1", 5, instance_id="i")[0]])

    assert stage.beat("m1", -2, instance_id="i").error_code == 0

    (written,) = [record for record in stage.records() if isinstance(record, CurrentWritten)]
    assert (written.value.member_epoch, written.value.previous_member_epoch) == (-2, 0)


@pytest.mark.parametrize(
    ("left", "stays"),
    [
        ([], False),
        (epochs(2, 1)[:1], True),
        (epochs(1, 2)[1:], True),
        (member("m1", 5)[:1], True),
        (resolved({"t.*": ["t"]}), True),
        ([member("m1", 5)[0], MemberWritten("g", "m1", None)], False),
    ],
    ids=["nothing", "an epoch", "the epoch of a target", "a member", "what an expression matches", "who left"],
)
def test_of_a_group_of_which_nothing_is_left_nothing_is_kept(left, stays):
    """A log that was compacted can hold the ends of a group alone, and what came just before them."""
    groups = Groups()
    groups.ensure_consumer("g")
    for record in left:
        replay_consumer_group(groups.consumer["g"], record)

    groups.maybe_forget("g")

    assert ("g" in groups.consumer) is stays


class TestIdsThatTheCoordinatorMakes:
    IDS = 2_000

    def test_none_begins_with_a_dash_which_tools_would_take_for_an_option(self):
        rng = random.Random(1)

        assert {new_member_id(rng)[0] == "-" for _ in range(self.IDS)} == {False}

    def test_all_bits_but_those_of_version_and_variant_are_by_chance(self):
        rng = random.Random(1)
        made = [int.from_bytes(urlsafe_b64decode(new_member_id(rng) + "==")) for _ in range(self.IDS)]

        ever, always = 0, made[0]
        for number in made:
            ever |= number
            always &= number
        fixed = (0xF << 76) | (0b11 << 62)
        assert ever | fixed == (1 << 128) - 1
        assert always & ~fixed == 0

"""Watched consumer groups (KIP-848): from a real coordinator's records, the watcher makes nearly the same entries."""

from typing import Any

import msgspec
import pytest

from kohort.coordinator.journal import (
    EpochRaised,
    GroupConverted,
    GroupDeleted,
    GroupLoaded,
    MemberReconciled,
    StaticAway,
    StaticReplaced,
    TargetComputed,
)
from kohort.coordinator.records import EpochWritten, build_record
from kohort.insight.observed.watching import ObservedGroups
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import Topics
from support.machines.watched_stage import WatchedStage


@pytest.fixture
def stage():
    stage = WatchedStage()
    stage.come("m1", client_id="one")
    stage.advance(2_000)
    return stage


def parts(topic, *numbers):
    return [(topic, number) for number in numbers]


def second_comes(stage):
    stage.come("m2", client_id="two")
    stage.beat("m1", 2, client_id="one")
    stage.advance(1_000)
    stage.beat("m1", 2, parts("t", 0, 1), client_id="one")
    stage.beat("m2", 3, client_id="two")
    stage.advance(2_000)


def plain(entries, *kinds):
    found = []
    for entry in entries:
        if not isinstance(entry, kinds):
            continue
        changes: dict[str, Any] = {"observed": False}
        if isinstance(entry, TargetComputed):
            changes["assignor"] = "?"
        if isinstance(entry, EpochRaised):
            changes["cause"] = msgspec.structs.replace(entry.cause, vitals=None, signs=None, reason=None)
        found.append(msgspec.structs.replace(entry, **changes))
    return found


def test_watcher_writes_the_same_entries_as_the_coordinator_of_a_consumer_group(stage):
    second_comes(stage)

    compared_kinds = EpochRaised, TargetComputed, MemberReconciled
    assert plain(stage.observed, *compared_kinds) == plain(stage.journal, *compared_kinds)


def test_watched_join_to_consumer_group_has_high_confidence_but_no_proof(stage):
    second_comes(stage)

    forming, joined = stage.findings()

    assert (forming.cause, forming.confidence) == ("GROUP_FORMING", "high")
    assert (joined.cause, joined.confidence, joined.end) == ("NEW_MEMBER", "high", "stable")
    assert joined.blocker.member.member_id == "m1"
    assert joined.blocker.waited_ms == 1_000


class TestDepartedMember:
    def find(self, stage, session_ms=45_000):
        if session_ms is not None:
            stage.watcher.learn_session_timeout("g", session_ms)
        return stage

    def test_watched_departure_from_consumer_group_before_session_end_is_member_left(self, stage):
        self.find(stage)
        second_comes(stage)
        stage.beat("m2", -1)

        finding = stage.findings()[-1]

        assert (finding.cause, finding.confidence) == ("MEMBER_LEFT", "high")
        assert "not_expired" in {fact.kind for fact in finding.evidence}

    def test_immediate_return_to_consumer_group_lowers_the_confidence_of_member_left(self, stage):
        self.find(stage)
        second_comes(stage)
        stage.beat("m2", -1, client_id="two")
        stage.advance(1_000)
        stage.come("m2", client_id="two")

        finding = stage.findings()[-1]

        assert (finding.cause, finding.confidence) == ("MEMBER_LEFT", "medium")
        assert "joined from the same client" in finding.sentence

    def test_watched_departure_from_consumer_group_at_session_end_is_session_timeout(self, stage):
        self.find(stage)
        second_comes(stage)
        assert stage.commit({("t", 2): 7}, member_id="m2", generation=3, version=9) == [0]
        for _ in range(50):
            stage.advance(1_000)
            stage.beat("m1", 3)

        finding = stage.findings()[-1]

        assert (finding.cause, finding.confidence) == ("SESSION_TIMEOUT", "medium")

    @pytest.mark.parametrize(("silent_s", "also", "confidence"), [(3, (), "high"), (6, ("SESSION_TIMEOUT",), "low")])
    def test_watched_departure_after_a_commit_within_the_last_heartbeat_interval_of_a_session_names_both_causes(
        self, stage, silent_s, also, confidence
    ):
        self.find(stage, 10_000)
        second_comes(stage)
        for offset in range(7, 20):
            stage.advance(1_000)
            stage.beat("m1", 3)
            stage.beat("m2", 3)
            assert stage.commit({("t", 2): offset}, member_id="m2", generation=3, version=9) == [0]
        for _ in range(silent_s):
            stage.advance(1_000)
            stage.beat("m1", 3)
        stage.beat("m2", -1)

        finding = stage.findings()[-1]

        assert (finding.cause, finding.also, finding.confidence) == ("MEMBER_LEFT", also, confidence)

    def test_watched_departure_with_unknown_session_timeout_is_member_departed(self, stage):
        self.find(stage, None)
        second_comes(stage)
        stage.beat("m2", -1)

        finding = stage.findings()[-1]

        assert (finding.cause, finding.confidence) == ("MEMBER_DEPARTED", "low")

    def test_watched_departure_at_the_end_of_the_revocation_timeout_is_revocation_timeout(self):
        stage = WatchedStage()
        stage.come("m1", client_id="one", rebalance_timeout_ms=5_000)
        stage.advance(2_000)
        stage.watcher.learn_session_timeout("g", 45_000)
        stage.come("m2", client_id="two")
        stage.beat("m1", 2, client_id="one")
        for _ in range(6):
            stage.advance(1_000)
            if any(isinstance(e, EpochRaised) and e.cause.event == "member_departed" for e in stage.observed):
                break
            stage.beat("m1", 2, parts("t", 0, 1, 2, 3), client_id="one")

        finding = stage.findings()[-1]

        assert (finding.cause, finding.confidence) == ("REVOCATION_TIMEOUT", "medium")


class TestRestartedCoordinator:
    def expire(self, stage, *, commits_after=False, outage=False):
        stage.watcher.learn_session_timeout("g", 45_000)
        second_comes(stage)
        stage.commit({("t", 2): 7}, member_id="m2", generation=3, version=9)
        stage.advance(1_000)
        if outage:
            stage.watcher.note_outage(stage.now)
        else:
            stage.leader_epoch += 1
        if commits_after:
            stage.commit({("t", 2): 8}, member_id="m2", generation=3, version=9)
        for i in range(50):
            stage.advance(1_000)
            stage.beat("m1", 3)
            if i == 1:
                stage.commit({("t", 0): 7}, member_id="m1", generation=3, version=9)
        return stage.findings()[-1]

    def test_expired_member_without_requests_to_the_new_coordinator_has_the_failover_as_cause(self, stage):
        finding = self.expire(stage)

        assert (finding.cause, finding.also, finding.confidence) == (
            "COORDINATOR_FAILOVER", ("SESSION_TIMEOUT",), "medium",
        )  # fmt: skip
        assert "the group's coordinator moved or restarted 4" in finding.sentence

    def test_expired_member_after_an_outage_of_the_broker_has_the_failover_as_cause(self, stage):
        assert self.expire(stage, outage=True).cause == "COORDINATOR_FAILOVER"

    def test_expired_member_with_commits_to_the_new_coordinator_has_session_timeout_as_cause(self, stage):
        assert self.expire(stage, commits_after=True).cause == "SESSION_TIMEOUT"


def test_watched_epochs_show_changes_of_subscription_assignor_and_topics(stage):
    stage.beat("m1", 2, subscribed_topic_names=["t", "u"])
    assert stage.findings()[-1].cause == "SUBSCRIPTION_CHANGED"
    assert "added u" in stage.findings()[-1].sentence

    stage.advance(2_000)
    stage.beat("m1", 3, server_assignor="range")
    assert stage.findings()[-1].cause == "ASSIGNOR_CHANGED"

    stage.topics.make("t", 7)
    for owned in (None, [], None):
        stage.advance(2_000)
        stage.beat("m1", stage.answers[stage.tickets].member_epoch, owned)
    assert stage.findings()[-1].cause == "PARTITIONS_CHANGED"


def test_temporary_leave_of_static_member_causes_no_rebalance_of_consumer_group():
    stage = WatchedStage()
    stage.come("m1", instance_id="i", rebalance_timeout_ms=5_000)
    stage.advance(2_000)
    stage.beat("m1", -2, instance_id="i")
    stage.advance(1_000)
    stage.come("m9", instance_id="i", rebalance_timeout_ms=5_000)

    kinds = StaticAway, StaticReplaced
    assert plain(stage.observed, *kinds) == plain(stage.journal, *kinds) != []
    assert [one.cause for one in stage.findings()][-1] == "STATIC_RESTART"


def test_watcher_reports_conversions_from_and_to_a_classic_group():
    stage = WatchedStage(group_consumer_migration_policy="bidirectional")
    (old,), _ = stage.stable(1, client_id="old")
    stage.come("m2", client_id="new")
    first = [entry for entry in stage.observed if isinstance(entry, GroupConverted)]
    assert [entry.to for entry in first] == ["consumer"]
    assert "PROTOCOL_MIGRATION" in {one.cause for one in stage.findings()}

    stage.advance(1_000)
    stage.beat("m2", -1)
    converted = [entry for entry in stage.observed if isinstance(entry, GroupConverted)]
    assert [entry.to for entry in converted] == ["consumer", "classic"]
    joined = stage.answer(stage.join(old, client_id="old"))
    stage.sync(old, joined.generation_id, {old: assignment(("t", 0))})
    assert stage.findings()[-1].cause == "PROTOCOL_MIGRATION"


@pytest.mark.heavy
def test_watcher_repeats_the_state_of_a_quiet_consumer_group_before_its_next_epoch(stage):
    second_comes(stage)
    for _ in range(720):
        stage.advance(5_000)
        stage.beat("m1", 3, client_id="one")
        stage.beat("m2", 3, client_id="two")
    before = len(stage.observed)
    stage.come("m3", client_id="three")
    stage.advance(2_000)
    stands, raised, *_ = stage.observed[before:]
    del stage.observed[:before]

    assert (type(stands), type(raised)) == (GroupLoaded, EpochRaised)
    assert (stands.generation, raised.epoch) == (3, 4)
    assert stands.partitions == {"m1": {"t": (0, 1)}, "m2": {"t": (2, 3)}, "m3": {}}
    finding = stage.findings()[-1]
    assert finding.cause == "NEW_MEMBER"
    assert {one.member.member_id: one.assignment for one in finding.standing}["m1"] == ("t-0", "t-1")


def test_watcher_writes_the_whole_state_of_a_consumer_group_after_compaction_of_its_records(stage):
    second_comes(stage)
    kept = {}
    for at, (key, value, at_ms) in enumerate(stage.written):
        kept[key] = (at, key, value, at_ms)
    watcher = ObservedGroups()
    watcher.learn_topics({topic_id: name for name, topic_id in stage.topics.ids.items()})
    entries = [e for _, key, value, at_ms in sorted(kept.values()) for e in watcher.take(key, value, at_ms)]
    assert entries == []

    (stands,) = watcher.caught_up(stage.now)

    assert isinstance(stands, GroupLoaded)
    assert stands.partitions == {"m1": {"t": (0, 1)}, "m2": {"t": (2, 3)}}
    assert watcher.caught_up(stage.now) == []
    stage.watcher, stage.observed = watcher, [stands]
    stage.beat("m2", -1)
    assert stage.findings()[-1].cause in ("MEMBER_LEFT", "MEMBER_DEPARTED")
    assert [type(entry) for entry in stage.observed][1] is EpochRaised


def test_watched_topics_without_a_name_are_shown_with_their_ids():
    stage = WatchedStage(topics=Topics(t=2))
    stage.watcher.learn_topics = lambda names: None
    stage.come("m1")
    stage.advance(2_000)

    (target,) = [entry for entry in stage.observed if isinstance(entry, TargetComputed)]

    assert {move.topic for move in target.moves} == {stage.topics.ids["t"].hex()}


def test_watcher_removes_the_state_of_a_deleted_consumer_group(stage):
    stage.beat("m1", -1)
    assert stage.watcher.sizes == (1, 0)
    (entry,) = stage.watcher.take(*build_record(EpochWritten("g", None)), stage.now)

    assert isinstance(entry, GroupDeleted)
    assert stage.watcher.sizes == (0, 0)

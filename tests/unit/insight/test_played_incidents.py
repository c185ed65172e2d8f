"""Incidents on a real coordinator: delayed rebalances and their main cause, rejected joins, missed polls."""

from __future__ import annotations

import pytest

from kohort.coordinator.journal import build_entry, parse_entry
from kohort.coordinator.journal_events import JoinRejected
from kohort.errors import ErrorCode
from kohort.insight.findings.doctor import examine
from kohort.insight.findings.fenced import find_fenced
from kohort.insight.findings.groups import find_group
from kohort.insight.findings.rebalances import find_rebalances
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import CoordinatorStage, Topics
from support.machines.group_looks import look, member

STICKY = (("cooperative-sticky", subscription("t")),)
BOTH = (("cooperative-sticky", subscription("t")), ("range", subscription("t")))


@pytest.fixture
def stage():
    return CoordinatorStage(topics=Topics(t=6))


def journal(stage):
    return [parse_entry(build_entry(entry)) for entry in stage.journal]


def found(stage):
    return find_rebalances(journal(stage))


def rebalance(stage):
    return [this for this in found(stage) if this.end != "no_rebalance"][-1]


def settled_pair(stage, **options):
    ids, generation = [], 0
    for i in range(2):
        member_id, ticket = stage.enter(client_id=f"app-{i}", connection=i, **options)
        ids.append(member_id)
    stage.join(ids[0], client_id="app-0", connection=0, **options)
    generation = stage.answer(ticket).generation_id
    assignments = {member_id: assignment(*(("t", 3 * i + p) for p in range(3))) for i, member_id in enumerate(ids)}
    for i, member_id in enumerate(ids):
        stage.sync(member_id, generation, assignments if i == 0 else None, client_id=f"app-{i}", connection=i)
    stage.journal.clear()
    return ids, generation


class TestDelayedRound:
    def test_killed_member_is_the_main_cause_of_a_rebalance_that_it_delays(self, stage):
        ids, _ = settled_pair(stage, session_ms=8_000)
        stage.coordinator.connection_closed(1, stage.now)
        stage.advance(1_000)
        stage.enter(client_id="app-2", connection=2, session_ms=8_000)
        stage.join(ids[0], client_id="app-0", connection=0, session_ms=8_000)
        stage.advance(7_000)

        this = rebalance(stage)

        assert (this.cause, this.also) == ("SESSION_TIMEOUT.process_died", ("NEW_MEMBER",))
        assert (this.trigger.client_id, this.blocker.member.client_id) == ("app-2", "app-1")
        assert this.advice == "find the reason why the process ended; a closed consumer leaves at once instead"

    def test_member_that_misses_the_rejoin_deadline_is_the_main_cause_of_the_rebalance(self, stage):
        ids, generation = settled_pair(stage, session_ms=60_000, rebalance_ms=9_000)
        stage.enter(client_id="app-2", connection=2, session_ms=60_000, rebalance_ms=9_000)
        stage.join(ids[0], client_id="app-0", connection=0, session_ms=60_000, rebalance_ms=9_000)
        stage.advance(4_000)
        stage.heartbeat(ids[1], generation, client_id="app-1", connection=1)
        stage.advance(5_000)

        this = rebalance(stage)

        assert (this.cause, this.also, this.blocker.because) == ("JOIN_TIMEOUT", ("NEW_MEMBER",), "not_polling")
        assert "shorten the work between polls" in this.advice

    def test_member_that_leaves_at_its_poll_limit_is_the_main_cause_of_the_rebalance(self, stage):
        ids, _ = settled_pair(stage)
        stage.enter(client_id="app-2", connection=2)
        stage.join(ids[0], client_id="app-0", connection=0)
        stage.advance(5_000)
        stage.leave(ids[1], reason="consumer poll timeout has expired.", client_id="app-1", connection=1)

        this = rebalance(stage)

        assert (this.cause, this.also) == ("MAX_POLL_EXCEEDED", ("NEW_MEMBER",))
        assert "raise max.poll.interval.ms" in this.advice

    def test_late_rejoin_is_not_the_cause_but_the_finding_has_advice_for_the_late_member(self, stage):
        ids, generation = settled_pair(stage)
        stage.enter(client_id="app-2", connection=2)
        stage.join(ids[0], client_id="app-0", connection=0)
        stage.advance(5_000)
        stage.heartbeat(ids[1], generation, client_id="app-1", connection=1)
        stage.join(ids[1], client_id="app-1", connection=1)

        this = rebalance(stage)

        assert (this.cause, this.also, this.blocker.because) == ("NEW_MEMBER", (), "not_polling")
        assert "shorten the work between polls" in this.advice

    def test_rebalance_of_new_member_without_late_rejoin_has_no_advice(self, stage):
        ids, _ = settled_pair(stage)
        stage.enter(client_id="app-2", connection=2)
        for i in range(2):
            stage.join(ids[i], client_id=f"app-{i}", connection=i)

        assert (rebalance(stage).cause, rebalance(stage).advice) == ("NEW_MEMBER", None)


class TestRefusedJoin:
    def refusal(self, stage):
        (event,) = [this for this in found(stage) if this.end == "no_rebalance"]
        return event

    def test_join_with_unsupported_assignor_is_journaled_one_time_with_offered_and_accepted_assignors(self, stage):
        settled_pair(stage)
        for _ in range(12):
            ticket = stage.join(client_id="late", client_host="/10.0.0.7", protocols=STICKY)
            assert stage.answer(ticket).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

        (entry,) = stage.entries(JoinRejected)
        assert (entry.offered, entry.accepted, entry.types) == (("cooperative-sticky",), ("range",), None)

    def test_join_with_unsupported_assignor_is_an_event_that_names_offered_and_accepted_assignors(self, stage):
        settled_pair(stage)
        stage.join(client_id="late", client_host="/10.0.0.7", protocols=STICKY)

        this = self.refusal(stage)

        assert (this.cause, this.confidence) == ("INCOMPATIBLE_ASSIGNORS", "proof")
        assert this.sentence == (
            "Client late at /10.0.0.7 was rejected (INCONSISTENT_GROUP_PROTOCOL): it supports cooperative-sticky, "
            "and all members of the group support range."
        )
        assert "add the new one to all members first" in this.advice

    def test_join_with_unsupported_assignor_is_a_fenced_finding_with_verdict_refused(self, stage):
        settled_pair(stage)
        stage.join(client_id="late", client_host="/10.0.0.7", protocols=STICKY)

        (this,) = find_fenced(journal(stage))

        assert (this.verdict, this.error, this.by_api) == (
            "refused", "INCONSISTENT_GROUP_PROTOCOL", {"JoinGroup": 1},
        )  # fmt: skip
        assert "late could not join: it supports cooperative-sticky" in this.sentence

    def test_join_with_unsupported_assignor_is_a_doctor_error_until_the_client_is_a_member(self, stage):
        settled_pair(stage)
        stage.join(client_id="late", client_host="/h", protocols=STICKY)
        rebalances = found(stage)

        def examined(*members):
            shown = look((stage.now - 1_000_000_000_000) / 1000, members, {0: (9, 9)})
            return [one for one in examine(find_group([shown], rebalances), rebalances) if one.rule == "refused"]

        (this,) = examined(member("a", 0))
        assert (this.severity, this.member.client_id) == ("error", "late")
        assert examined(member("a", 0), member("late")) == []

    def test_join_with_unsupported_assignor_is_logged_with_offered_and_accepted_assignors(self, stage):
        settled_pair(stage)
        stage.coordinator.take_notes()
        stage.join(client_id="late", client_host="/10.0.0.7", protocols=STICKY)

        (note,) = stage.coordinator.take_notes()

        assert note.text == (
            "group 'g' refused client 'late' at /10.0.0.7 (INCONSISTENT_GROUP_PROTOCOL): "
            "the client supports cooperative-sticky; all members support range"
        )

    def test_rejected_join_of_another_protocol_type_names_both_types(self, stage):
        settled_pair(stage)
        stage.join(client_id="worker", protocol_type="connect", protocols=(("sessioned", b""),))

        assert "its protocol type is connect, the group's is consumer" in self.refusal(stage).sentence

    def test_join_with_unsupported_assignor_in_a_group_of_both_protocols_is_an_event(self):
        stage = CoordinatorStage(group_consumer_migration_policy="bidirectional")
        stage.come("m1")
        stage.enter(client_id="old", protocols=(("range", subscription("t")),))
        stage.journal.clear()

        ticket = stage.join(client_id="late", client_host="/10.0.0.7", protocols=STICKY)

        assert stage.answer(ticket).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert "it supports cooperative-sticky, and all members of the group support range" in (
            self.refusal(stage).sentence
        )

    def test_journal_entry_of_rejected_join_has_ten_shortened_assignor_names(self, stage):
        settled_pair(stage)
        stage.join(protocols=[(f"{i:03}" + "x" * 30_000, b"") for i in range(100)])

        (entry,) = stage.entries(JoinRejected)
        assert (len(entry.offered), {len(name) for name in entry.offered}) == (10, {300})


class TestSilenceAtPollLimit:
    """librdkafka with the consumer protocol: after max.poll.interval.ms it sends no heartbeat, and does not leave."""

    def silence(self, stage, *, lag, heartbeats=20):
        stage.topics.ends["t", 0] = 5 + lag
        answer = stage.come("m1", client_id="worker", connection=1)
        stage.beat("m1", answer.member_epoch, [("t", p) for p in range(6)], client_id="worker", connection=1)
        stage.commit({("t", 0): 5}, member_id="m1", generation=answer.member_epoch, version=9, client_id="worker")
        for _ in range(heartbeats):
            stage.advance(3_000)
            stage.beat("m1", answer.member_epoch, client_id="worker", connection=1)
        stage.advance(45_000)

    def test_member_with_lag_that_stops_heartbeats_at_its_poll_limit_has_max_poll_exceeded_as_cause(self, stage):
        self.silence(stage, lag=40)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("MAX_POLL_EXCEEDED", "high")
        assert "stopped heartbeats 60.0 s after its last commit progress, while 40 records waited" in this.sentence

    def test_member_that_rejoins_after_silence_at_its_poll_limit_has_max_poll_exceeded_as_cause(self, stage):
        self.silence(stage, lag=40)
        stage.come("m1", client_id="worker", connection=1)

        departure = next(this for this in found(stage) if this.end == "empty" or this.cause == "MAX_POLL_EXCEEDED")

        assert departure.cause == "MAX_POLL_EXCEEDED"

    def first_batch(self, stage, end, *, lag=40, ms=60_000):
        """Play a member that gets partitions with lag, handles its first batch for ``ms``, and then ends."""
        for p in range(6 if lag is not None else 0):
            stage.topics.ends["t", p] = 5 + lag
            stage.commit({("t", p): 5}, member_id="", generation=-1)
        epoch = stage.come("m1", client_id="worker", connection=1).member_epoch
        stage.beat("m1", epoch, [("t", p) for p in range(6)], client_id="worker", connection=1)
        for _ in range(ms // 3_000):
            stage.advance(3_000)
            stage.beat("m1", epoch, client_id="worker", connection=1)
        end()

    def test_leave_at_the_poll_limit_without_any_commit_has_max_poll_exceeded_as_cause(self, stage):
        """Clients with the consumer protocol send no reason of a leave."""
        self.first_batch(stage, lambda: stage.beat("m1", -1, client_id="worker", connection=1))

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("MAX_POLL_EXCEEDED", "medium")
        assert "after 60.0 s without commit progress, while 240 records waited" in this.sentence

    def test_return_after_a_leave_at_the_poll_limit_confirms_the_missed_poll(self, stage):
        self.first_batch(stage, lambda: stage.beat("m1", -1, client_id="worker", connection=1))
        stage.advance(20_000)
        stage.come("m1", client_id="worker", connection=1)

        departure, back = [this for this in found(stage) if this.end != "no_rebalance"][-2:]

        assert (departure.cause, departure.confidence, back.cause) == ("MAX_POLL_EXCEEDED", "high", "CLIENT_RESET")

    @pytest.mark.parametrize(("lag", "ms"), [(40, 30_000), (40, 90_000), (0, 60_000)])
    def test_leave_without_any_commit_at_another_time_or_without_lag_is_member_left(self, stage, lag, ms):
        self.first_batch(stage, lambda: stage.beat("m1", -1, client_id="worker", connection=1), lag=lag, ms=ms)

        assert rebalance(stage).cause == "MEMBER_LEFT"

    def test_leave_at_the_poll_limit_of_a_group_without_any_commit_names_leave_and_missed_poll(self, stage):
        self.first_batch(stage, lambda: stage.beat("m1", -1, client_id="worker", connection=1), lag=None)

        this = rebalance(stage)

        assert (this.cause, this.also, this.confidence) == ("MEMBER_LEFT", ("MAX_POLL_EXCEEDED",), "low")
        assert "raise max.poll.interval.ms" in this.advice

    def test_leave_at_another_time_of_a_group_without_any_commit_is_member_left(self, stage):
        self.first_batch(stage, lambda: stage.beat("m1", -1, client_id="worker", connection=1), lag=None, ms=30_000)

        assert (rebalance(stage).cause, rebalance(stage).confidence) == ("MEMBER_LEFT", "proof")

    def test_silence_at_the_poll_limit_without_any_commit_has_max_poll_exceeded_as_cause(self, stage):
        self.first_batch(stage, lambda: stage.advance(45_000))

        assert (rebalance(stage).cause, rebalance(stage).confidence) == ("MAX_POLL_EXCEEDED", "medium")

    def test_expired_member_with_recent_commits_has_session_timeout_unreachable_as_cause(self, stage):
        self.silence(stage, lag=40, heartbeats=2)

        assert rebalance(stage).cause == "SESSION_TIMEOUT.unreachable"

    def test_expired_member_without_lag_has_session_timeout_unreachable_as_cause(self, stage):
        self.silence(stage, lag=0)

        assert rebalance(stage).cause == "SESSION_TIMEOUT.unreachable"

    def test_expired_member_with_closed_connection_has_process_died_as_cause(self, stage):
        stage.topics.ends["t", 0] = 45
        answer = stage.come("m1", client_id="worker", connection=1)
        stage.beat("m1", answer.member_epoch, [("t", p) for p in range(6)], client_id="worker", connection=1)
        stage.commit({("t", 0): 5}, member_id="m1", generation=answer.member_epoch, version=9, client_id="worker")
        for _ in range(20):
            stage.advance(3_000)
            stage.beat("m1", answer.member_epoch, client_id="worker", connection=1)
        stage.coordinator.connection_closed(1, stage.now)
        stage.advance(45_000)

        assert rebalance(stage).cause == "SESSION_TIMEOUT.process_died"


class TestDuplicateInstanceId:
    """Two processes with one ``group.instance.id``."""

    def consumer_pair(self, stage, **second):
        stage.come("m1", client_id="pay-a", client_host="/10.0.0.1", instance_id="pay-0", connection=1)
        stage.advance(1_000)
        second = {"client_id": "pay-b", "client_host": "/10.0.0.2"} | second
        return stage.come("m2", instance_id="pay-0", connection=2, **second)

    def events(self, stage):
        return [this for this in found(stage) if this.end == "no_rebalance"]

    def examined(self, stage):
        shown = look((stage.now - 1_000_000_000_000) / 1000, [member("a", 0)], {0: (9, 9)})
        rebalances = found(stage)
        return [one for one in examine(find_group([shown], rebalances), rebalances) if one.rule == "duplicate"]

    def test_rejected_join_of_a_second_process_to_a_consumer_group_has_static_duplicate_as_cause(self, stage):
        assert self.consumer_pair(stage).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        self.consumer_pair(stage)

        (this,) = self.events(stage)

        assert (this.cause, this.confidence, this.trigger.client_id) == ("STATIC_DUPLICATE", "high", "pay-b")
        assert this.sentence == (
            "Member m2 (static pay-0, client pay-b at /10.0.0.2) could not join (UNRELEASED_INSTANCE_ID): member m1 "
            "(static pay-0, client pay-a at /10.0.0.1) has the group.instance.id pay-0. Two processes have the same "
            "group.instance.id."
        )

    def test_rejected_join_of_the_same_client_may_be_a_restart_after_a_crash(self, stage):
        self.consumer_pair(stage, client_id="pay-a", client_host="/10.0.0.1")

        (this,) = self.events(stage)

        assert (this.cause, this.confidence) == ("STATIC_DUPLICATE", "medium")
        assert "or the earlier process was killed and its session has not expired" in this.sentence

    def test_expiry_of_the_earlier_process_disproves_the_duplicate(self, stage):
        self.consumer_pair(stage, client_id="pay-a", client_host="/10.0.0.1")
        stage.advance(45_000)

        assert self.events(stage) == []
        assert rebalance(stage).cause == "STATIC_EXPIRED"

    def test_duplicate_instance_id_in_a_consumer_group_is_a_doctor_error(self, stage):
        self.consumer_pair(stage)
        stage.advance(5_000)

        (this,) = self.examined(stage)

        assert (this.severity, this.member.instance_id) == ("error", "pay-0")
        assert this.sentence.endswith("Two processes have the same group.instance.id, 5.0 s ago")
        assert "its own group.instance.id" in this.advice

    def classic_pair(self, stage):
        first, ticket = stage.enter(client_id="pay-a", instance_id="pay-0", connection=1)
        generation = stage.answer(ticket).generation_id
        stage.sync(first, generation, {first: assignment(("t", 0))}, instance_id="pay-0")
        stage.advance(1_000)
        stage.join("", client_id="pay-b", instance_id="pay-0", connection=2)
        assert stage.heartbeat(first, generation, instance_id="pay-0") == ErrorCode.FENCED_INSTANCE_ID

    def test_duplicate_instance_id_in_a_classic_group_is_one_doctor_error(self, stage):
        for _ in range(2):
            self.classic_pair(stage)

        (this,) = self.examined(stage)

        assert (this.severity, this.confidence) == ("error", "proof")
        assert "Two processes have the same group.instance.id" in this.sentence

    def test_duplicate_instance_id_is_no_doctor_finding_an_hour_later(self, stage):
        self.classic_pair(stage)
        stage.advance(3_700_000)

        assert self.examined(stage) == []

    def test_replacement_of_a_static_member_during_a_rebalance_has_static_duplicate_as_cause(self, stage):
        first, ticket = stage.enter(client_id="pay-a", instance_id="pay-0", connection=1)
        generation = stage.answer(ticket).generation_id
        stage.sync(first, generation, {first: assignment(("t", 0))}, instance_id="pay-0")
        stage.enter(client_id="other", connection=3)
        stage.join("", client_id="pay-b", instance_id="pay-0", connection=2)
        stage.heartbeat(first, generation, instance_id="pay-0")

        (this,) = self.events(stage)

        assert (this.cause, this.confidence, len(self.examined(stage))) == ("STATIC_DUPLICATE", "proof", 1)

"""Causes that the triggering request alone does not show: broker stalls, topics, connections, admin clients."""

import pytest

from kohort.coordinator.journal import ClientIdentity, MemberRemoved, RoundOpened, Trigger, build_entry, parse_entry
from kohort.coordinator.journal_events import MemberMetrics
from kohort.errors import ErrorCode
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.names import short_id
from kohort.wire.messages.group_classic import MemberIdentity
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import CoordinatorStage, Topics


@pytest.fixture
def stage():
    return CoordinatorStage(topics=Topics(t=6, u=2))


def group_of(stage, size=2, **options):
    ids, tickets = [], []
    for i in range(size):
        member_id, ticket = stage.enter(client_id=f"app-{i}", connection=i, **options)
        ids.append(member_id)
        tickets.append(ticket)
    for i in range(size):
        if stage.answer(tickets[i]) is None or size > 1:
            tickets[i] = stage.join(ids[i], client_id=f"app-{i}", connection=i, **options)
    generation = stage.answer(tickets[-1]).generation_id
    share(stage, ids, generation)
    stage.journal.clear()
    return ids, generation


def share(stage, ids, generation):
    each = 6 // len(ids)
    assignments = {
        member_id: assignment(*(("t", p) for p in range(i * each, (i + 1) * each))) for i, member_id in enumerate(ids)
    }
    for i, member_id in enumerate(ids):
        ticket = stage.sync(member_id, generation, assignments if i == 0 else None, client_id=f"app-{i}", connection=i)
        assert stage.answer(ticket).error_code == ErrorCode.NONE


def found(stage):
    return find_rebalances([parse_entry(build_entry(entry)) for entry in stage.journal])


def rebalance(stage):
    return [this for this in found(stage) if this.end != "no_rebalance"][-1]


def kinds(this):
    return {fact.kind for fact in this.evidence}


class TestBrokerStall:
    def silence(self, stage, stalled_ms, silent_ms=10_000):
        group_of(stage, session_ms=10_000)
        now = stage.now
        stage.coordinator.note_stall(now + silent_ms - stalled_ms, now + silent_ms)
        stage.advance(silent_ms)

    def test_session_expiry_during_a_long_broker_stall_has_the_stall_as_cause(self, stage):
        self.silence(stage, 8_000)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("BROKER_STALL", "proof")
        assert "the broker stalled for 8.0 s, and then expired the session of member" in this.sentence
        assert this.advice.startswith("the members are not the cause")
        assert "broker_stalled" in kinds(this)

    def test_broker_stall_as_cause_has_lower_confidence_if_heartbeats_were_late_before_the_stall(self, stage):
        self.silence(stage, 4_000)

        assert (rebalance(stage).cause, rebalance(stage).confidence) == ("BROKER_STALL", "high")

    def test_broker_stall_shorter_than_heartbeat_interval_is_evidence_but_not_the_cause(self, stage):
        self.silence(stage, 500)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("SESSION_TIMEOUT.unreachable", "medium")
        assert "broker_stalled" in kinds(this)

    def test_broker_stall_is_not_the_cause_of_expiry_if_the_member_disconnected_before_the_stall(self, stage):
        ids, generation = group_of(stage, session_ms=10_000)
        stage.advance(500)
        stage.coordinator.connection_closed(1, stage.now)
        stage.coordinator.note_stall(stage.now + 1_000, stage.now + 9_000)
        stage.advance(9_000)
        stage.heartbeat(ids[0], generation, client_id="app-0", connection=0)
        stage.advance(1_000)

        assert rebalance(stage).cause == "SESSION_TIMEOUT.process_died"

    def test_removal_at_join_timeout_during_a_broker_stall_has_the_stall_as_cause(self, stage):
        ids, _ = group_of(stage, session_ms=60_000, rebalance_ms=8_000)
        stage.join(ids[0], client_id="app-0", connection=0, session_ms=60_000, rebalance_ms=8_000)
        now = stage.now
        stage.coordinator.note_stall(now + 100, now + 8_000)
        stage.advance(8_000)

        this = rebalance(stage)

        assert (this.cause, this.also) == ("BROKER_STALL", ("LEADER_REJOIN",))
        assert this.blocker.because == "broker_stalled"
        assert "not the cause" in this.advice

    def test_session_expiry_in_consumer_group_during_a_broker_stall_has_the_stall_as_cause(self, stage):
        stage.come("m1", client_id="m", connection=1)
        now = stage.now
        stage.coordinator.note_stall(now + 3_000, now + 45_000)
        stage.advance(45_000)

        assert (rebalance(stage).cause, rebalance(stage).confidence) == ("BROKER_STALL", "proof")


class TestLeaveWithoutReason:
    def idle(self, stage, lag=None, metrics=None, **options):
        ids, generation = group_of(stage, **{"session_ms": 10_000, "rebalance_ms": 60_000, **options})
        stage.commit({("t", 3): 5}, member_id=ids[1], generation=generation, client_id="app-1", connection=1)
        if lag is not None:
            stage.topics.ends["t", 3] = 5 + lag
        for _ in range(20):
            stage.advance(3_000)
            for i, member_id in enumerate(ids):
                stage.heartbeat(member_id, generation, client_id=f"app-{i}", connection=i)
        if metrics is not None:
            sender = ClientIdentity(ids[1], "app-1", "/127.0.0.1")
            stage.coordinator.add_client_metrics("app-1", sender, metrics(stage.now))
        stage.leave(ids[1], version=1, client_id="app-1", connection=1)
        return ids

    def test_leave_of_member_with_lag_and_without_commits_is_explained_as_missed_poll(self, stage):
        self.idle(stage, lag=40)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("MAX_POLL_EXCEEDED", "high")
        assert "after 60.0 s without commit progress, while 40 records waited (its limit is 60 s" in this.sentence

    @pytest.mark.parametrize(
        ("lag", "polled_ms_ago", "cause", "confidence"),
        [
            (None, 55_000, "MAX_POLL_EXCEEDED", "high"),
            (0, 55_000, "MAX_POLL_EXCEEDED", "high"),
            (40, 400, "MEMBER_LEFT", "proof"),
        ],
    )
    def test_pushed_time_of_the_last_poll_decides_between_missed_poll_and_leave(
        self, stage, lag, polled_ms_ago, cause, confidence
    ):
        self.idle(stage, lag=lag, metrics=lambda now_ms: MemberMetrics(at_ms=now_ms, last_poll_ms_ago=polled_ms_ago))

        this = rebalance(stage)

        assert (this.cause, this.confidence) == (cause, confidence)

    def test_pushed_time_of_a_poll_long_ago_decides_nothing(self, stage):
        self.idle(stage, lag=40, metrics=lambda now_ms: MemberMetrics(at_ms=now_ms - 50_000, last_poll_ms_ago=400))

        assert rebalance(stage).cause == "MAX_POLL_EXCEEDED"

    def test_leave_of_member_without_lag_is_explained_as_member_left(self, stage):
        self.idle(stage, lag=0)

        assert rebalance(stage).cause == "MEMBER_LEFT"

    def test_leave_of_member_that_disconnects_at_once_is_explained_as_member_left(self, stage):
        self.idle(stage, lag=40)
        stage.advance(20)
        stage.coordinator.connection_closed(1, stage.now)
        stage.check()

        this = rebalance(stage)

        assert this.cause == "MEMBER_LEFT"
        assert [f.value for f in this.evidence if f.kind == "connection_closed"] == ["20 ms after it left"]

    def test_leave_of_member_that_disconnects_late_is_explained_as_missed_poll(self, stage):
        self.idle(stage, lag=40)
        stage.advance(60_000)
        stage.coordinator.connection_closed(1, stage.now)
        stage.check()

        assert rebalance(stage).cause == "MAX_POLL_EXCEEDED"

    def test_leave_of_member_with_equal_timeouts_and_lag_is_a_missed_poll_with_medium_confidence(self, stage):
        """aiokafka: its poll interval is in no request, and it sends its session timeout twice."""
        self.idle(stage, lag=40, session_ms=60_000, rebalance_ms=60_000)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("MAX_POLL_EXCEEDED", "medium")
        assert "while 40 records waited (its limit between polls is unknown" in this.sentence
        assert set(this.departures.values()) == {"max_poll_exceeded"}

    def test_return_of_a_client_with_equal_timeouts_confirms_its_missed_poll(self, stage):
        options = {"session_ms": 60_000, "rebalance_ms": 60_000}
        ids = self.idle(stage, lag=40, **options)
        ticket = stage.join(ids[0], client_id="app-0", connection=0, **options)
        share(stage, ids[:1], stage.answer(ticket).generation_id)
        stage.advance(20_000)
        stage.enter(client_id="app-1", connection=1, session_ms=60_000, rebalance_ms=60_000)

        departure, back = [this for this in found(stage) if this.end != "no_rebalance"][-2:]

        assert (departure.cause, departure.confidence, back.cause) == ("MAX_POLL_EXCEEDED", "high", "CLIENT_RESET")
        assert "came_back" in kinds(departure)

    @pytest.mark.parametrize("lag", [0, None])
    def test_leave_of_member_with_equal_timeouts_and_without_known_lag_is_member_left(self, stage, lag):
        self.idle(stage, lag=lag, session_ms=60_000, rebalance_ms=60_000)

        assert rebalance(stage).cause == "MEMBER_LEFT"

    def test_leave_of_member_with_equal_timeouts_that_disconnects_at_once_is_member_left(self, stage):
        self.idle(stage, lag=40, session_ms=60_000, rebalance_ms=60_000)
        stage.coordinator.connection_closed(1, stage.now)
        stage.check()

        assert rebalance(stage).cause == "MEMBER_LEFT"

    @pytest.mark.parametrize(
        ("reason", "cause"),
        [
            ("consumer poll timeout has expired.", "MAX_POLL_EXCEEDED"),
            ("Application maximum poll interval (max.poll.interval.ms) exceeded", "MAX_POLL_EXCEEDED"),
            ("client leaving group per normal operation", "MEMBER_LEFT"),
            ("\x1b[2J" * 90_000, "MEMBER_LEFT"),
        ],
    )
    def test_reason_in_leave_request_decides_between_missed_poll_and_member_left(self, stage, reason, cause):
        ids, _ = group_of(stage)
        stage.leave(ids[1], reason=reason, client_id="app-1", connection=1)

        this = rebalance(stage)

        assert this.cause == cause
        assert this.sentence.isprintable()
        assert len(this.sentence) < 2_000


class TestStaticRejoin:
    def test_static_member_that_returns_with_other_assignors_has_assignor_changed_as_cause(self, stage):
        both = (("range", subscription("t")), ("roundrobin", subscription("t")))
        first = stage.answer(stage.join(client_id="a", instance_id="ia", protocols=both)).member_id
        other = stage.join(client_id="b", instance_id="ib", protocols=both)
        joined = stage.answer(stage.join(first, client_id="a", instance_id="ia", protocols=both))
        second = stage.answer(other).member_id
        for member_id, instance_id in ((first, "ia"), (second, "ib")):
            assignments = {first: assignment(("t", 0))} if member_id == joined.leader else None
            stage.sync(member_id, joined.generation_id, assignments, instance_id=instance_id, protocol_name="range")

        stage.join(client_id="b", instance_id="ib", protocols=both[1:])
        this = rebalance(stage)

        assert (this.cause, this.also, this.confidence) == ("ASSIGNOR_CHANGED", ("STATIC_REJOIN",), "proof")
        assert "returned with its instance id and other assignors: range, roundrobin became roundrobin" in this.sentence


class TestAdminRemoval:
    def test_removal_of_static_member_by_admin_names_the_admin_client(self, stage):
        stage_with_static(stage)
        entry = MemberIdentity(member_id="", group_instance_id="i-9", reason="member was removed by an admin: drained")
        stage.leave(entry, client_id="ops-1", client_host="/10.1.1.1", connection=77, principal="User:olga")

        this = rebalance(stage)

        assert this.cause == "ADMIN_REMOVED"
        assert this.sentence.count("ops-1") == 1
        assert "at /10.1.1.1 as User:olga" in this.sentence
        assert [f.kind for f in this.evidence].count("removed_by") == 1

    def test_removal_from_consumer_group_by_admin_names_the_admin_client(self, stage):
        stage.come("m1", client_id="m", connection=1, instance_id="i-1")
        epochs = {"m1": 0, "m2": stage.come("m2", client_id="m", connection=2).member_epoch}
        epochs["m1"] = epochs["m2"] - 1
        for _ in range(4):
            stage.advance(2_000)
            for member_id, count in (("m1", 2), ("m2", 2)):
                instance_id = "i-1" if member_id == "m1" else None
                owned = [("t", p) for p in range(count)] if member_id == "m1" else None
                answer = stage.beat(member_id, epochs[member_id], owned, instance_id=instance_id)
                epochs[member_id] = answer.member_epoch
        stage.leave(MemberIdentity(member_id="", group_instance_id="i-1"), client_id="ops", principal="User:olga")

        this = rebalance(stage)

        assert this.cause == "ADMIN_REMOVED"
        assert "as User:olga" in this.sentence


def stage_with_static(stage):
    stage.coordinator.take_journal()
    member_id, ticket = stage.enter(client_id="st", instance_id="i-9", connection=9, group="h")
    generation = stage.answer(ticket).generation_id
    stage.sync(member_id, generation, {member_id: assignment(("t", 0))}, instance_id="i-9", group="h", connection=9)
    stage.journal.clear()
    original = stage.leave
    stage.leave = lambda *members, **options: original(*members, **({"group": "h"} | options))
    return [member_id], generation


class TestTopics:
    def rejoin(self, stage, ids, *topics, member=0, **fields):
        protocols = (("range", subscription(*topics, **fields)),)
        stage.join(ids[member], client_id=f"app-{member}", connection=member, protocols=protocols)
        return rebalance(stage)

    def test_rejoin_that_adds_a_created_topic_has_topic_created_as_cause(self, stage):
        ids, _ = group_of(stage)
        stage.advance(5)
        stage.topics.make("new", 3)
        stage.topics.made["new"] = stage.now

        this = self.rejoin(stage, ids, "t", "new", member=1)

        assert (this.cause, this.confidence) == ("TOPIC_CREATED", "proof")
        assert f"subscribed topics were created (new), and member {short_id(ids[1])} (" in this.sentence

    def test_rejoin_of_second_member_that_adds_a_created_topic_has_topic_created_as_cause(self, stage):
        ids, generation = group_of(stage)
        stage.advance(5)
        stage.topics.make("new", 3)
        stage.topics.made["new"] = stage.now
        self.rejoin(stage, ids, "t", "new", member=0)
        stage.advance(10)
        stage.join(ids[1], client_id="app-1", connection=1)
        share(stage, ids, generation + 1)
        stage.topics.made.clear()

        this = self.rejoin(stage, ids, "t", "new", member=1)

        assert (this.cause, this.confidence) == ("TOPIC_CREATED", "high")
        assert "after another member" in this.sentence

    def test_rejoin_that_adds_an_existing_topic_has_subscription_changed_as_cause(self, stage):
        ids, _ = group_of(stage)

        assert self.rejoin(stage, ids, "t", "u", member=1).cause == "SUBSCRIPTION_CHANGED"

    def test_rejoin_that_drops_a_deleted_topic_has_topic_deleted_as_cause(self, stage):
        wide = (("range", subscription("t", "u")),)
        ids, _ = group_of(stage, protocols=wide)
        stage.topics.delete("u")

        this = self.rejoin(stage, ids, "t")

        assert (this.cause, this.confidence) == ("TOPIC_DELETED", "proof")

    def test_rejoin_that_drops_an_existing_topic_has_subscription_changed_as_cause(self, stage):
        wide = (("range", subscription("t", "u")),)
        ids, _ = group_of(stage, protocols=wide)

        assert self.rejoin(stage, ids, "t").cause == "SUBSCRIPTION_CHANGED"

    def test_epoch_that_a_created_topic_raises_has_topic_created_as_cause(self, stage):
        epoch = stage.come("m1", "t", "later", connection=1).member_epoch
        stage.topics.make("later", 2)
        for _ in range(3):
            stage.advance(2_000)
            epoch = stage.beat("m1", epoch).member_epoch

        assert rebalance(stage).cause == "TOPIC_CREATED"

    def test_rejoin_from_another_rack_has_rack_changed_as_cause(self, stage):
        ids, _ = group_of(stage, protocols=(("range", subscription("t", rack="a")),))

        this = self.rejoin(stage, ids, "t", rack="b")

        assert (this.cause, this.confidence) == ("RACK_CHANGED", "proof")
        assert "moved from rack a to rack b" in this.sentence


class TestCoordinatorFailover:
    def test_rebalance_that_a_failover_restarts_has_the_failover_as_cause(self, stage):
        group_of(stage)
        stage.enter(client_id="app-2", connection=2)
        stage.unload()
        stage.advance(700)
        stage.reload()
        stage.advance(100)
        stage.enter(client_id="app-2", connection=12)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("COORDINATOR_FAILOVER", "proof")
        assert "the coordinator was lost during a rebalance (member app-2" in this.sentence
        assert found(stage)[0].end == "interrupted"

    def test_failover_of_stable_group_is_an_event_without_a_rebalance(self, stage):
        group_of(stage)
        stage.unload()
        stage.advance(700)
        stage.reload()

        (this,) = found(stage)

        assert (this.cause, this.end) == ("COORDINATOR_FAILOVER", "no_rebalance")
        assert this.sentence == "The group of 2 members moved to another coordinator within 0.7 s, without a rebalance."

    def test_join_of_new_member_after_a_failover_has_new_member_as_cause(self, stage):
        group_of(stage)
        stage.unload()
        stage.reload()
        stage.enter(client_id="other", connection=8)

        assert rebalance(stage).cause == "NEW_MEMBER"

    @pytest.mark.parametrize("reason", [None, "rejoining after we previously errored and backed off"])
    def test_rejoin_with_unchanged_metadata_after_a_failover_has_the_failover_as_cause(self, stage, reason):
        ids, _ = group_of(stage)
        stage.unload()
        stage.reload()
        stage.advance(2_000)
        stage.join(ids[0], client_id="app-0", connection=10, reason=reason)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("COORDINATOR_FAILOVER", "high")
        assert "rejoined 2.0 s after the coordinator loaded the group" in this.sentence

    def test_rejoin_by_user_request_or_long_after_a_failover_has_another_cause(self, stage):
        ids, _ = group_of(stage, session_ms=120_000)
        stage.unload()
        stage.reload()
        stage.join(ids[0], client_id="app-0", connection=10, reason="rebalance enforced by user")
        assert rebalance(stage).cause == "USER_ENFORCED"

        stage = CoordinatorStage(topics=Topics(t=6))
        ids, _ = group_of(stage, session_ms=120_000)
        stage.unload()
        stage.reload()
        stage.advance(61_000)
        stage.join(ids[0], client_id="app-0", connection=10)
        assert rebalance(stage).cause == "LEADER_REJOIN"

    def test_join_of_known_client_with_new_member_id_after_a_failover_has_the_failover_as_cause(self, stage):
        group_of(stage)
        stage.unload()
        stage.reload()
        stage.enter(client_id="app-1", connection=11)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("COORDINATOR_FAILOVER", "medium")

    def test_expiry_of_member_without_requests_after_a_failover_is_session_timeout_at_low_confidence(self, stage):
        ids, generation = group_of(stage, session_ms=10_000)
        stage.unload()
        stage.reload()
        for _ in range(4):
            stage.advance(2_500)
            stage.heartbeat(ids[0], generation, client_id="app-0", connection=10)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("SESSION_TIMEOUT", "low")
        assert "sent no heartbeat in the 10.0 s since its coordinator loaded the group" in this.sentence

    def test_rebalance_has_generation_lost_as_cause_if_a_member_has_a_later_generation(self, stage):
        ids, generation = group_of(stage)
        stage.unload()
        stage.reload()
        assert stage.heartbeat(ids[1], generation + 3, client_id="app-1", connection=1) == ErrorCode.ILLEGAL_GENERATION
        stage.join(ids[0], client_id="app-0", connection=0)

        this = rebalance(stage)

        assert (this.cause, this.confidence) == ("GENERATION_LOST", "proof")
        assert f"members have generation {generation + 3}" in this.sentence


def test_explanation_of_rejoin_after_expiry_names_the_rebalance_that_removed_the_member(stage):
    ids, generation = group_of(stage, session_ms=10_000)
    for _ in range(4):
        stage.advance(2_500)
        stage.heartbeat(ids[0], generation, client_id="app-0", connection=0)
    stage.join(ids[0], client_id="app-0", connection=0)
    share(stage, ids[:1], generation + 1)
    stage.enter(client_id="app-1", connection=1)

    expired, reset = found(stage)

    assert (expired.cause, reset.cause) == ("SESSION_TIMEOUT.frozen", "CLIENT_RESET")
    assert expired.confidence == "medium"
    assert reset.follows == expired.id
    (chain,) = [fact.value for fact in reset.evidence if fact.kind == "chained_to"]
    assert chain == f"generation {generation + 1}: SESSION_TIMEOUT.frozen"


class TestLateMember:
    def late(self, stage, act=lambda ids, generation: None, closes=False):
        ids, generation = group_of(stage, session_ms=30_000)
        stage.join(ids[0], client_id="app-0", connection=0)
        stage.advance(2_000)
        act(ids, generation)
        stage.advance(2_000)
        stage.join(ids[1], client_id="app-1", connection=1)
        this = rebalance(stage)
        assert (this.blocker.member.client_id, this.blocker.waited_ms) == ("app-1", 4_000)
        return this.blocker.because

    def test_late_join_of_member_that_sent_heartbeats_is_explained_as_not_polling(self, stage):
        assert self.late(
            stage, lambda ids, g: stage.heartbeat(ids[1], g, client_id="app-1", connection=1)
        ) == "not_polling"  # fmt: skip

    def test_late_join_of_member_that_committed_is_explained_as_slow_to_revoke(self, stage):
        def commits(ids, generation):
            stage.commit({("t", 3): 9}, member_id=ids[1], generation=generation, client_id="app-1", connection=1)

        assert self.late(stage, commits) == "slow_to_revoke"

    def test_late_join_of_member_without_requests_is_explained_as_silent(self, stage):
        assert self.late(stage) == "silent"

    def test_missing_join_of_member_with_closed_connection_is_explained_as_dead(self, stage):
        ids, _ = group_of(stage, session_ms=60_000, rebalance_ms=8_000)
        stage.join(ids[0], client_id="app-0", connection=0, session_ms=60_000, rebalance_ms=8_000)
        stage.coordinator.connection_closed(1, stage.now)
        stage.advance(8_000)

        this = rebalance(stage)

        assert (this.cause, this.blocker.because, this.also) == ("JOIN_TIMEOUT", "dead", ("LEADER_REJOIN",))
        assert "find the reason why the process ended" in this.advice
        assert f"not_rejoined {short_id(ids[1])} did not" in " ".join(f"{f.kind} {f.value}" for f in this.evidence)


@pytest.mark.heavy
def test_thousands_of_client_resets_are_explained_quickly():
    entries = []
    for turn in range(3000):
        member = ClientIdentity(f"m{turn}", "worker", "/10.0.0.1")
        joined = Trigger(event="member_joined", member=member)
        at_ms = turn * 60_000
        entries += [
            RoundOpened(at_ms=at_ms, group="g", trigger=joined, from_generation=turn, members=(), timeout_ms=60_000),
            MemberRemoved(at_ms=at_ms + 10_000, group="g", member=member, why="session_expired"),
        ]

    last = find_rebalances(entries)[-1]

    assert (last.cause, last.follows) == ("CLIENT_RESET", "g/after-2998")
    assert "generation open: CLIENT_RESET" in [fact.value for fact in last.evidence]

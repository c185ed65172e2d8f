"""Watched classic groups: a real coordinator writes records, and the watcher reads only these records."""

import pytest

from kohort.coordinator.records import GroupWritten, build_record
from kohort.insight.findings.events import find_events
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.names import short_id
from kohort.insight.patterns import find_patterns
from kohort.wire.messages.group_classic import MemberIdentity
from support.consumer_protocol import assignment, subscription
from support.machines.watched_stage import WatchedStage

SESSION_MS = 10_000


@pytest.fixture
def stage():
    stage = WatchedStage()
    stage.advance(1_000_000)
    return stage


class Group:
    """Classic group whose members have different hosts. A rebalance ends after all members have rejoined."""

    def __init__(self, stage, clients, **options):
        self.stage, self.options = stage, {"session_ms": SESSION_MS, "rebalance_ms": 60_000} | options
        self.ids, self.tickets, self.generation, self.position = {}, {}, 0, 0
        for client in clients:
            self.ids[client], self.tickets[client] = self.enter(client)
        self.round()

    def enter(self, client, **options):
        return self.stage.enter(client_id=client, client_host=f"/{client}", **(self.options | options))

    def round(self, assignments=None, **options):
        for client in self.ids:
            if client not in self.tickets:
                self.join(client, **options)
        for _ in range(4):
            answered = {client: self.stage.answer(ticket) for client, ticket in self.tickets.items()}
            if len({answer and answer.generation_id for answer in answered.values()}) == 1:
                break
            for client, answer in answered.items():
                if answer is not None:
                    self.join(client, **options)
        joined = {client: self.stage.answer(ticket) for client, ticket in self.tickets.items()}
        (self.generation,) = {answer.generation_id for answer in joined.values()}
        protocol = joined[next(iter(joined))].protocol_name
        assignments = assignments or {client: [("t", i)] for i, client in enumerate(self.ids)}
        leader = joined[next(iter(joined))].leader
        blobs = {self.ids[client]: assignment(*of) for client, of in assignments.items()}
        for client in sorted(self.ids, key=lambda client: self.ids[client] != leader):
            own = blobs if self.ids[client] == leader else None
            self.stage.sync(self.ids[client], self.generation, own, protocol_name=protocol)
        self.tickets = {}

    def join(self, client, **options):
        settings = self.options | options.get(client, {})
        self.tickets[client] = self.stage.join(self.ids[client], client_id=client, client_host=f"/{client}", **settings)

    def beat(self, ms, *silent, commits=()):
        """Send heartbeats each second, except for clients ``silent``. Commit each 5 s for clients ``commits``."""
        for second in range(0, ms, 1_000):
            self.stage.advance(min(1_000, ms - second))
            for client, member_id in self.ids.items():
                if client not in silent:
                    self.stage.heartbeat(member_id, self.generation)
            if second % 5_000 == 4_000:
                for client in commits:
                    self.commit(client)

    def commit(self, client):
        self.position += 1
        places = [("t", list(self.ids).index(client))]
        where = {"member_id": self.ids[client], "generation": self.generation}
        assert self.stage.commit(dict.fromkeys(places, self.position), **where) == [0]

    def leave(self, client):
        member_id = self.ids.pop(client)
        self.stage.leave(member_id)
        return member_id


def latest(stage):
    return stage.findings()[-1]


def kinds(finding):
    return {fact.kind for fact in finding.evidence}


def test_watched_first_join_has_group_forming_as_cause(stage):
    Group(stage, ["a", "b"])

    finding = stage.findings()[0]

    assert (finding.cause, finding.confidence) == ("GROUP_FORMING", "high")


def test_watched_join_of_new_member_names_the_member_and_the_moved_partitions(stage):
    group = Group(stage, ["a", "b"])
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(500)
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("NEW_MEMBER", "high")
    assert finding.trigger.client_id == "c"
    assert [(m.topic, m.partition, m.before, m.after) for m in finding.moves] == [("t", 2, None, group.ids["c"])]
    assert "the duration of the rebalance is unknown" in finding.sentence
    assert finding.took_ms is None


def test_watched_departure_before_session_end_is_member_left(stage):
    group = Group(stage, ["a", "b", "c"])
    group.beat(30_000, commits=["a", "b", "c"])
    member_id = group.leave("c")
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("MEMBER_LEFT", "high")
    assert short_id(member_id) in finding.sentence
    assert {"not_expired", "unknown", "last_commit"} <= kinds(finding)


def test_watched_departure_at_session_end_is_session_timeout(stage):
    group = Group(stage, ["a", "b", "c"])
    group.beat(30_000, commits=["a", "b", "c"])
    group.beat(SESSION_MS, "c", commits=["a", "b"])
    del group.ids["c"]
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("SESSION_TIMEOUT", "medium")
    assert "session timeout 10 s" in finding.sentence
    assert {"fits_session_timeout", "unknown"} <= kinds(finding)


def test_watched_departure_of_member_without_commits_is_member_departed(stage):
    group = Group(stage, ["a", "b"])
    group.beat(300_000)
    group.leave("b")
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("MEMBER_DEPARTED", "low")
    assert "indistinguishable" in finding.sentence


def test_watched_static_member_has_cause_static_restart_on_return_and_static_expired_after_silence():
    stage = WatchedStage()
    stage.advance(1_000_000)
    group = Group(stage, ["a"])
    options = {"instance_id": "i-1"} | group.options
    ticket = stage.join(client_id="s", client_host="/s", **options)
    group.join("a")
    answer = stage.answer(ticket)
    stage.sync(group.ids["a"], 2, {group.ids["a"]: assignment(("t", 0)), answer.member_id: assignment(("t", 1))})
    stage.sync(answer.member_id, 2, instance_id="i-1")
    stage.advance(2_000)
    stage.heartbeat(group.ids["a"], 2)
    stage.join(client_id="s", client_host="/s", **options)

    finding = latest(stage)
    assert (finding.cause, finding.end, finding.origin) == ("STATIC_RESTART", "no_rebalance", "inferred")
    assert "sent no more requests" not in finding.sentence

    for _ in range(SESSION_MS // 1_000):
        stage.advance(1_000)
        stage.heartbeat(group.ids["a"], 2)
    group.tickets = {}
    group.round()
    assert latest(stage).cause == "STATIC_EXPIRED"
    assert latest(stage).confidence in ("medium", "low")


def test_watched_departure_after_poll_interval_is_missed_poll_if_the_member_returns_later(stage):
    group = Group(stage, ["a", "b"], rebalance_ms=30_000)
    group.beat(20_000, commits=["a", "b"])
    group.beat(30_000, commits=["a"])
    old = group.leave("b")
    group.round()
    alone = latest(stage)
    group.ids["b"], group.tickets["b"] = group.enter("b")
    group.round()

    departure, back = stage.findings()[-2:]

    # without a return of the departed member, MEMBER_LEFT is possible, too
    assert (alone.cause, alone.confidence) == ("MEMBER_DEPARTED", "low")
    assert (departure.cause, departure.confidence) == ("MAX_POLL_EXCEEDED", "medium")
    assert (back.cause, back.confidence) == ("CLIENT_RESET", "medium")
    assert short_id(old) in departure.sentence


def test_watched_departure_after_poll_interval_is_missed_poll_if_the_member_returns_at_once(stage):
    group = Group(stage, ["a", "b"], rebalance_ms=30_000)
    group.beat(20_000, commits=["a", "b"])
    group.beat(30_000, commits=["a"])
    group.leave("b")
    group.ids["b"], group.tickets["b"] = group.enter("b")
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("MAX_POLL_EXCEEDED", "medium")
    assert {"came_back", "last_commit"} <= kinds(finding)


def test_watched_departure_soon_after_a_commit_is_member_left_if_the_member_returns_at_once(stage):
    group = Group(stage, ["a", "b"])
    group.beat(10_000, commits=["a", "b"])
    group.leave("b")
    group.ids["b"], group.tickets["b"] = group.enter("b")
    group.round()

    finding = latest(stage)

    assert finding.cause == "MEMBER_LEFT"
    assert "a restart, or a rejoin" in finding.sentence
    assert finding.also == ()


def test_watched_return_of_expired_member_has_client_reset_as_cause(stage):
    group = Group(stage, ["a", "b"])
    group.beat(10_000, commits=["a", "b"])
    group.beat(SESSION_MS, "b", commits=["a"])
    del group.ids["b"]
    group.round()
    group.ids["b"], group.tickets["b"] = group.enter("b")
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("CLIENT_RESET", "medium")
    assert "departed_before" in kinds(finding)


def test_watched_rebalance_has_join_timeout_as_cause_if_a_member_does_not_rejoin(stage):
    group = Group(stage, ["a", "b"], session_ms=60_000, rebalance_ms=20_000)
    stage.advance(1_000)
    stage.watcher.take_states({"g": "Stable"}, stage.now, stage.now)
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(500)
    assert stage.watcher.take_states({"g": "PreparingRebalance", "other": "Stable"}, stage.now, stage.now) == ["g"]
    stage.watcher.take_members("g", "PreparingRebalance", list(group.ids.values()), stage.now)
    group.join("a")
    stage.advance(20_000)
    del group.ids["b"]
    group.round()

    finding = latest(stage)

    assert finding.cause == "JOIN_TIMEOUT"
    assert finding.also == ("NEW_MEMBER",)
    assert finding.confidence == "medium"
    assert "the join phase took between 19.5 s and 20.0 s" in finding.sentence
    assert finding.opened_at_ms == stage.observed[-1].rebalancing_seen_ms


def test_duration_of_rebalance_is_not_bounded_by_state_poll_before_the_rebalance_record_is_read(stage):
    group = Group(stage, ["a", "b"])
    stage.advance(1)
    stage.watcher.take_states({"g": "Stable"}, stage.now, stage.now)
    stage.advance(3_000)
    unread = stage.watcher.take
    later = []
    stage.watcher.take = lambda *record, **options: later.append((record, options)) or []
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(1_000)
    group.round()
    stage.advance(10)
    stage.watcher.take_states({"g": "Stable"}, stage.now, stage.now)
    stage.watcher.take = unread
    for record, options in later:
        stage.observed += unread(*record, **options)

    assert "the join phase took 4.0 s or less" in latest(stage).sentence


def test_state_poll_during_a_later_rebalance_bounds_only_the_duration_of_that_rebalance(stage):
    group = Group(stage, ["a", "b"])
    stage.watcher.take_states({"g": "PreparingRebalance"}, stage.now + 500, stage.now + 500)
    stage.advance(100)
    group.leave("b")
    group.round()
    assert latest(stage).opened_at_ms == stage.observed[-1].joined_ms
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(1_400)
    group.round()
    assert "1.0 s or longer" in latest(stage).sentence


def test_state_poll_of_an_aborted_rebalance_does_not_bound_the_duration_of_the_next_rebalance(stage):
    group = Group(stage, ["a", "b"])
    for state in ("PreparingRebalance", "Stable"):  # the coordinator moves to another broker between the two polls
        stage.advance(1_000)
        stage.watcher.take_states({"g": state}, stage.now, stage.now)
    group.beat(60_000)
    stage.watcher.take_states({"g": "Stable"}, stage.now, stage.now)
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(2_000)
    group.round()

    assert "the join phase took 2.0 s or less" in latest(stage).sentence


def test_state_polls_on_a_fast_clock_are_corrected_by_the_lateness_of_records(stage):
    group = Group(stage, ["a", "b"])
    ahead, take = 60_000, stage.watcher.take
    stage.watcher.take = lambda *record, **_: take(*record, late_ms=ahead)
    stage.advance(1)
    stage.watcher.take_states({"g": "Stable"}, stage.now + ahead, stage.now + ahead)
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(1_000)
    stage.watcher.take_states({"g": "PreparingRebalance"}, stage.now + ahead, stage.now + ahead)
    stage.advance(2_000)
    group.round()

    assert "the join phase took between 2.0 s and 3.0 s" in latest(stage).sentence


HOUR_MS = 3_600_000


@pytest.mark.heavy
def test_rebalance_after_a_quiet_hour_is_explained_from_a_single_journal_entry(stage):
    group = Group(stage, ["a", "b"])
    group.beat(HOUR_MS)
    group.ids["c"], group.tickets["c"] = group.enter("c")
    group.round()
    del stage.observed[:-1]

    (finding,) = stage.findings()

    assert (finding.cause, finding.confidence, finding.from_generation) == ("NEW_MEMBER", "high", group.generation - 1)
    assert [m.after for m in finding.moves] == [group.ids["c"]]


def test_deletion_of_watched_group_is_an_event_without_expired_members(stage):
    group = Group(stage, ["a"])
    group.leave("a")
    stage.observed += stage.watcher.take(*build_record(GroupWritten("g", None)), stage.now)

    assert find_events(stage.observed)[-1].sentence == "the group was deleted, or expired with its last offset"


def test_join_phase_is_bounded_by_state_polls_and_assign_phase_is_known_from_the_record(stage):
    group = Group(stage, ["a", "b"])
    stage.watcher.take_states({"g": "Stable"}, stage.now + 1, stage.now + 1)
    stage.advance(2_000)
    group.ids["c"], group.tickets["c"] = group.enter("c")
    stage.advance(1_500)
    stage.watcher.take_states({"g": "PreparingRebalance"}, stage.now, stage.now)
    group.round()

    finding = latest(stage)

    assert "the join phase took 3.5 s or less" in finding.sentence
    assert finding.phases_ms == {"assign": 0}


class TestSameMembers:
    def again(self, stage, assignments=None, **options):
        group = Group(stage, ["a", "b"])
        stage.advance(1_000)
        group.join("a", **options)
        group.round(assignments, **options)
        return latest(stage)

    def test_watched_rebalance_with_other_subscription_has_subscription_changed_as_cause(self, stage):
        settings = {"protocols": (("range", subscription("t", "u")),)}
        finding = self.again(stage, a=settings)
        assert (finding.cause, finding.confidence) == ("SUBSCRIPTION_CHANGED", "medium")
        assert "unknown" in kinds(finding)  # the subscription may be a pattern that matches a created topic
        assert "added u" in finding.sentence

    def test_watched_rebalance_with_other_assignor_has_assignor_changed_as_cause(self, stage):
        both = (("range", subscription("t")), ("roundrobin", subscription("t")))
        group = Group(stage, ["a", "b"], protocols=both)
        for client in group.ids:
            group.join(client, **{client: {"protocols": both[::-1]}})
        group.round()

        assert (latest(stage).cause, latest(stage).confidence) == ("ASSIGNOR_CHANGED", "high")
        assert "range became roundrobin" in latest(stage).sentence

    def test_watched_rebalance_with_more_assigned_partitions_has_partitions_changed_as_cause(self, stage):
        finding = self.again(stage, {"a": [("t", 0), ("t", 2)], "b": [("t", 1)]})
        assert (finding.cause, finding.confidence) == ("PARTITIONS_CHANGED", "high")
        assert "t from 2 to 3 partitions" in finding.sentence

    def test_watched_rebalance_without_any_change_is_unexplained(self, stage):
        finding = self.again(stage)
        assert (finding.cause, finding.confidence) == ("UNEXPLAINED", "low")
        assert "unknown" in kinds(finding)


def test_watched_assignment_of_withheld_partitions_is_cooperative_followup(stage):
    group = Group(stage, ["a", "b"])
    group.ids["c"], group.tickets["c"] = group.enter("c")
    group.round({"a": [("t", 0)], "b": [], "c": []})
    keeps = {"protocols": (("range", subscription("t", owned=[("t", 0)])),)}
    group.round({"a": [("t", 0)], "b": [], "c": [("t", 1)]}, a=keeps)

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("COOPERATIVE_FOLLOWUP", "high")
    assert finding.parent == finding.from_generation


def test_watched_rebalance_of_eager_members_is_no_cooperative_followup(stage):
    group = Group(stage, ["a", "b"])
    group.ids["c"], group.tickets["c"] = group.enter("c")
    group.round({"a": [("t", 0)], "b": [("u", 0)], "c": []})
    group.round({"a": [("t", 0)], "b": [], "c": [("u", 1)]})
    group.join("b")
    group.join("a")
    group.round({"a": [("t", 0)], "b": [("u", 0)], "c": [("u", 1)]})

    assert (latest(stage).cause, latest(stage).confidence) == ("UNEXPLAINED", "low")


def test_watched_rebalance_without_an_earlier_generation_is_unexplained(stage):
    group = Group(stage, ["a", "b"])
    group.beat(5_000)
    group.leave("b")
    group.round()

    (finding,) = find_rebalances([stage.observed[-1]])

    assert (finding.cause, finding.confidence, finding.from_generation) == ("UNEXPLAINED", "low", None)
    assert [m.client_id for m in finding.members] == ["a"]


def test_missing_generations_lower_the_confidence_of_a_watched_cause(stage):
    group = Group(stage, ["a", "b", "c"])
    kept = list(stage.observed)
    for client in ("c", "b"):
        group.leave(client)
        group.round()

    found = find_rebalances([*kept, stage.observed[-1]])[-1]

    assert found.confidence in ("medium", "low")
    assert "not_written" in kinds(found)


def test_watcher_with_restored_state_explains_the_next_rebalance(stage):
    group = Group(stage, ["a", "b", "c"])
    group.beat(30_000, commits=["a", "b", "c"])
    kept = stage.watcher.take_changed()
    whole = WatchedStage()
    stage.watcher = whole.watcher
    stage.watcher.restore([blob for blob in kept.groups.values() if blob is not None], kept.commits)
    group.leave("c")
    group.round()

    finding = latest(stage)

    assert (finding.cause, finding.confidence) == ("MEMBER_LEFT", "high")
    assert stage.watcher.take_changed().groups.keys() == {"g"}
    with pytest.raises(ValueError, match="invalid state"):
        stage.watcher.restore([b"\xc1"])


class TestRestartedCoordinator:
    def put_out(self, stage, commits_after=()):
        group = Group(stage, ["a", "b"])
        group.beat(10_000, commits=["a", "b"])
        stage.leader_epoch += 1
        group.beat(10_000, commits=["a", *commits_after])
        group.beat(SESSION_MS, "b", commits=["a"])
        del group.ids["b"]
        group.round()
        return latest(stage)

    def test_expired_member_without_requests_to_the_new_coordinator_has_the_failover_as_cause(self, stage):
        finding = self.put_out(stage)

        assert (finding.cause, finding.confidence) == ("COORDINATOR_FAILOVER", "medium")
        assert finding.also == ("MEMBER_DEPARTED",)
        assert "coordinator_moved" in kinds(finding)

    def test_expired_member_with_commits_to_the_new_coordinator_has_session_timeout_as_cause(self, stage):
        assert self.put_out(stage, commits_after=["b"]).cause == "SESSION_TIMEOUT"

    def test_new_member_after_a_failover_has_new_member_as_cause_of_the_watched_rebalance(self, stage):
        group = Group(stage, ["a", "b"])
        group.beat(5_000, commits=["a", "b"])
        stage.leader_epoch += 1
        group.beat(5_000, commits=["a", "b"])
        group.ids["c"], group.tickets["c"] = group.enter("c")
        group.round()

        assert latest(stage).cause == "NEW_MEMBER"

    def test_expired_member_after_an_outage_without_new_leader_epoch_has_the_failover_as_cause(self, stage):
        group = Group(stage, ["a", "b"])
        group.beat(10_000, commits=["a", "b"])
        stage.advance(8_000)
        stage.watcher.note_outage(stage.now)
        group.beat(SESSION_MS, "b", commits=["a"])
        del group.ids["b"]
        group.round()

        finding = latest(stage)

        assert (finding.cause, finding.confidence) == ("COORDINATOR_FAILOVER", "medium")
        assert "the watcher reached no broker until then" in {fact.value for fact in finding.evidence}

    def test_expired_member_with_commits_after_an_outage_has_session_timeout_as_cause(self, stage):
        group = Group(stage, ["a", "b"])
        stage.advance(8_000)
        stage.watcher.note_outage(stage.now)
        group.beat(10_000, commits=["a", "b"])
        group.beat(SESSION_MS, "b", commits=["a"])
        del group.ids["b"]
        group.round()

        assert latest(stage).cause == "SESSION_TIMEOUT"


class TestTwoCauses:
    """Silences that fit an expired session as well as a missed poll, or a leave."""

    def silent(self, stage, silent_ms, **options):
        group = Group(stage, ["a", "b"], **options)
        group.beat(20_000, commits=["a", "b"])
        group.beat(silent_ms, "b", commits=["a"])
        del group.ids["b"]
        group.round()
        group.ids["b"], group.tickets["b"] = group.enter("b")
        group.round()
        return stage.findings()[-2]

    def test_silence_of_session_timeout_near_the_poll_interval_names_both_causes_with_low_confidence(self, stage):
        finding = self.silent(stage, SESSION_MS, rebalance_ms=12_000)

        assert (finding.cause, finding.also, finding.confidence) == (
            "SESSION_TIMEOUT", ("MAX_POLL_EXCEEDED",), "low",
        )  # fmt: skip
        assert "or it did not poll within max.poll.interval.ms (12 s)" in finding.sentence
        assert "raise max.poll.interval.ms" in finding.advice
        assert "check that the member's process" in finding.advice

    def test_silence_of_poll_interval_near_the_session_timeout_names_both_causes_with_low_confidence(self, stage):
        finding = self.silent(stage, 16_000, rebalance_ms=16_000)

        assert (finding.cause, finding.also, finding.confidence) == (
            "MAX_POLL_EXCEEDED", ("SESSION_TIMEOUT",), "low",
        )  # fmt: skip
        assert "or its session expired (session timeout 10 s)" in finding.sentence

    def test_silence_of_a_poll_interval_far_above_the_session_timeout_is_a_missed_poll(self, stage):
        finding = self.silent(stage, 30_000, rebalance_ms=30_000)

        assert (finding.cause, finding.also, finding.confidence) == ("MAX_POLL_EXCEEDED", (), "medium")

    def test_silence_of_a_poll_interval_far_below_the_session_timeout_names_missed_poll_and_leave(self, stage):
        group = Group(stage, ["a", "b"], session_ms=60_000, rebalance_ms=20_000)
        group.beat(20_000, commits=["a", "b"])
        group.beat(20_000, commits=["a"])
        group.leave("b")
        group.round()
        group.ids["b"], group.tickets["b"] = group.enter("b")
        group.round()

        finding = stage.findings()[-2]

        assert (finding.cause, finding.also, finding.confidence) == ("MAX_POLL_EXCEEDED", ("MEMBER_LEFT",), "low")

    def test_leave_after_commits_without_progress_names_leave_and_missed_poll_if_the_client_returns(self, stage):
        """aiokafka: its poll interval is in no record, and it commits the same offset again and again."""
        group = Group(stage, ["a", "b"], rebalance_ms=SESSION_MS)
        group.beat(20_000, commits=["a", "b"])
        for _ in range(7):
            group.beat(4_000)
            group.position -= 1
            group.commit("b")
        group.leave("b")
        group.round()
        alone = latest(stage)
        group.ids["b"], group.tickets["b"] = group.enter("b")
        group.round()

        finding = stage.findings()[-2]

        assert (alone.cause, alone.also, alone.confidence) == ("MEMBER_LEFT", (), "medium")
        assert (finding.cause, finding.also, finding.confidence) == ("MEMBER_LEFT", ("MAX_POLL_EXCEEDED",), "low")
        assert finding.departures[finding.trigger.member_id] == "left"

    def test_silence_of_a_static_member_is_a_missed_poll_only_after_poll_interval_and_session_timeout(self):
        def cause(silent_ms):
            stage = WatchedStage()
            stage.advance(1_000_000)
            group = Group(stage, ["a"], rebalance_ms=28_000)
            options = {"instance_id": "i"} | group.options | {"session_ms": 25_000}
            ticket = stage.join(client_id="b", client_host="/b", **options)
            group.join("a")
            group.ids["b"] = stage.answer(ticket).member_id
            group.round(b={"instance_id": "i", "session_ms": 25_000})
            group.beat(20_000, commits=["a"])
            places = {("t", list(group.ids).index("b")): 7}
            where = {"member_id": group.ids["b"], "generation": group.generation, "instance_id": "i"}
            assert stage.commit(places, **where) == [0]
            member_id = group.ids.pop("b")
            for ms in range(0, silent_ms, 1_000):
                stage.advance(1_000)
                stage.heartbeat(group.ids["a"], group.generation)
                if ms < silent_ms - 25_000:
                    stage.heartbeat(member_id, group.generation, instance_id="i")
            group.round()
            group.ids["b"], group.tickets["b"] = stage.enter(client_id="b", client_host="/b", **group.options)
            group.round()
            return stage.findings()[-2].cause

        assert (cause(25_000), cause(53_000)) == ("STATIC_EXPIRED", "MAX_POLL_EXCEEDED")


def test_client_that_crashes_repeatedly_before_its_first_commit_has_crash_loop_pattern(stage):
    group = Group(stage, ["a", "b"])
    for _ in range(3):
        group.beat(3_000, commits=["a"])
        stage.watcher.take_states({"g": "Stable"}, stage.now, stage.now)
        stage.advance(1_000)
        old = group.ids["b"]
        group.ids["b"], group.tickets["b"] = group.enter("b")
        stage.advance(500)
        stage.watcher.take_states({"g": "PreparingRebalance"}, stage.now, stage.now)
        stage.watcher.take_members("g", "PreparingRebalance", [*group.ids.values(), old], stage.now)
        group.join("a")
        stage.advance(SESSION_MS - 1_500)
        group.round()

    found = stage.findings()

    assert [(one.cause, one.confidence) for one in found[-3:]] == [("SESSION_TIMEOUT", "medium")] * 3
    (pattern,) = find_patterns(found)
    assert (pattern.pattern, pattern.sentence[:34]) == ("CRASH_LOOP", "Client b at /b joined and failed 3")


def test_finding_of_watched_rebalance_lists_departed_member_ids(stage):
    group = Group(stage, ["a", "b", "c"])
    group.beat(10_000, commits=["a", "b", "c"])
    departed = group.leave("c")
    group.round()
    silent = group.ids["b"]
    group.beat(SESSION_MS, "b", commits=["a"])
    del group.ids["b"]
    group.round()

    assert [one.departures for one in stage.findings()[-2:]] == [{departed: "left"}, {silent: "session_expired"}]


def test_watched_departure_of_static_member_before_its_session_end_is_admin_removed(stage):
    group = Group(stage, ["a"])
    options = {"instance_id": "i"} | group.options
    ticket = stage.join(client_id="b", client_host="/b", **options)
    group.join("a")
    group.ids["b"] = stage.answer(ticket).member_id
    group.round(b={"instance_id": "i"})
    group.beat(3_000, commits=["a"])
    stage.leave(MemberIdentity(member_id="", group_instance_id="i"), client_id="ops", client_host="/ops")
    del group.ids["b"]
    group.round()

    assert (latest(stage).cause, latest(stage).confidence) == ("ADMIN_REMOVED", "medium")

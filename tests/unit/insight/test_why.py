"""Explanations of rebalances of classic groups, on a real coordinator."""

import pytest

from kohort.coordinator.journal import GroupLoaded, MemberArrived, RoundOpened, Trigger, build_entry, parse_entry
from kohort.errors import ApiError, ErrorCode
from kohort.insight.names import name_of, short_id
from kohort.insight.rebalances import rebalances
from kohort.insight.why import explain
from kohort.wire.messages.group_classic import MemberIdentity
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import RANGE, CoordinatorStage, Topics

SLOW = {"session_ms": 60_000, "rebalance_ms": 20_000}


@pytest.fixture
def stage():
    return CoordinatorStage()


def trio(stage, **options):
    ids, tickets = {}, {}
    for i in range(3):
        member_id, tickets[f"demo-{i}"] = stage.enter(client_id=f"demo-{i}", connection=i, **options)
        ids[f"demo-{i}"] = member_id
    for i in (0, 1):
        tickets[f"demo-{i}"] = stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", connection=i, **options)
    for i in (0,):
        if stage.answer(tickets["demo-0"]) is None:
            tickets["demo-0"] = stage.join(ids["demo-0"], client_id="demo-0", connection=i, **options)
    generation = stage.answer(tickets["demo-0"]).generation_id
    settle(stage, ids, generation)
    stage.journal.clear()
    return ids, generation


def settle(stage, ids, generation):
    share = 6 // len(ids)
    assignments = {
        member_id: assignment(*(("t", p) for p in range(i * share, (i + 1) * share)))
        for i, member_id in enumerate(ids.values())
    }
    for i, (client, member_id) in enumerate(ids.items()):
        ticket = stage.sync(member_id, generation, assignments if i == 0 else None, client_id=client, connection=i)
        assert stage.answer(ticket).error_code == ErrorCode.NONE


def last_rebalance(stage):
    entries = [parse_entry(build_entry(entry)) for entry in stage.journal]
    rebalance = rebalances(entries)[-1]
    explanation = explain(rebalance)
    assert explanation.evidence
    return rebalance, explanation


def test_explanation_of_killed_member_has_detection_time_and_moved_partitions(stage):
    ids, generation = trio(stage)
    stage.advance(100)
    stage.coordinator.connection_closed(2, stage.now)
    for _ in range(3):
        stage.advance(3000)
        for i in (0, 1):
            stage.heartbeat(ids[f"demo-{i}"], generation, connection=i)
    stage.advance(900)
    killed = ids.pop("demo-2")
    stage.advance(50)
    stage.join(ids["demo-0"], client_id="demo-0", connection=0)
    stage.advance(3000)
    stage.join(ids["demo-1"], client_id="demo-1", connection=1)
    settle(stage, ids, generation + 1)

    rebalance, explanation = last_rebalance(stage)

    assert explanation.sentence == (
        f"Generation {generation + 1} (2 members, 3 partitions moved): "
        f"member {short_id(killed)} (client demo-2 at /127.0.0.1) was silent and expired after 10.0 s "
        f"(session timeout 10 s; its connection had closed 9.9 s before); "
        f"the rebalance took 3.0 s, of which 3.0 s waiting for {short_id(ids['demo-1'])}."
    )
    assert (explanation.cause, explanation.confidence) == ("SESSION_TIMEOUT.process_died", "high")
    assert rebalance.phases_ms == {"join": 3050, "assign": 0, "sync": 0}
    assert {m.before for m in rebalance.moves} >= {killed}
    assert [w.client_id for w in rebalance.members_before] == ["demo-0", "demo-1", "demo-2"]
    assert [e.kind for e in explanation.evidence][:4] == [
        "last_request",
        "session_timeout",
        "longest_gap",
        "connection_closed",
    ]


def expire_third(stage, gap_ms=3000):
    ids, generation = trio(stage)
    waited = 0
    while waited < 10_000:
        stage.advance(min(gap_ms, 10_000 - waited))
        waited += gap_ms
        for i in (0, 1):
            stage.heartbeat(ids[f"demo-{i}"], generation, connection=i)
    return ids, generation


class TestSessionTimeout:
    def test_expired_member_that_returns_has_session_timeout_frozen_as_cause(self, stage):
        ids, generation = expire_third(stage)
        stage.advance(2000)
        stage.heartbeat(ids["demo-2"], generation, client_id="demo-2", connection=2)

        _, explanation = last_rebalance(stage)

        assert explanation.cause == "SESSION_TIMEOUT.frozen"
        assert "returned 2.0 s later" in explanation.sentence

    def test_expired_member_without_return_has_session_timeout_unreachable_as_cause(self, stage):
        expire_third(stage)

        _, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.confidence) == ("SESSION_TIMEOUT.unreachable", "medium")
        assert "Generation" not in explanation.sentence.split(":")[0].replace("After generation", "")
        assert "open for up to 60 s" in explanation.sentence

    def test_expired_member_with_earlier_late_heartbeats_has_cause_session_timeout_starved(self, stage):
        ids, generation = trio(stage)
        stage.advance(7000)
        for i in range(3):
            stage.heartbeat(ids[f"demo-{i}"], generation, connection=i)
        stage.advance(10_000)

        _, explanation = last_rebalance(stage)

        assert explanation.cause == "SESSION_TIMEOUT.starved"
        assert "longest silence before was 7.0 s" in explanation.sentence

    def test_rebalance_that_an_expiry_delayed_has_the_expiry_as_main_cause(self, stage):
        ids, generation = trio(stage)
        stage.coordinator.connection_closed(2, stage.now)
        stage.advance(4000)
        newcomer, _ = stage.enter(client_id="demo-3", connection=3)
        for i in (0, 1):
            stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", connection=i)
        stage.advance(6000)
        killed = ids.pop("demo-2")
        settle(stage, ids | {"demo-3": newcomer}, generation + 1)

        rebalance, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.also) == ("SESSION_TIMEOUT.process_died", ("NEW_MEMBER",))
        assert explanation.advice == "find the reason why the process ended; a closed consumer leaves at once instead"
        assert f"meanwhile member {short_id(killed)} (client demo-2 at /127.0.0.1) was silent" in explanation.sentence
        assert f"of which 6.0 s waiting for {short_id(killed)} until its removal" in explanation.sentence
        assert rebalance.took_ms == 6000


class TestJoin:
    def test_join_of_first_member_has_group_forming_as_cause(self):
        stage = CoordinatorStage(group_initial_rebalance_delay_ms=3000)
        _, ticket = stage.enter(client_id="a")
        b, _ = stage.enter(client_id="b")
        stage.advance(6000)
        a = stage.answer(ticket).leader
        settle(stage, {"a": a, "b": b}, 1)

        _, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.confidence) == ("GROUP_FORMING", "proof")
        assert explanation.sentence == (
            f"Generation 1 (2 members, 6 partitions moved): the group was empty and member {short_id(a)} "
            "(client a at /127.0.0.1) joined, then 1 more; "
            "the rebalance took 6.0 s, of which 6.0 s waiting for more members."
        )
        waited = [e.value for e in explanation.evidence if e.kind == "initial_delay"]
        assert waited == ["waited 6.0 s for more members (3 s, extended because more members joined)"]

    def test_join_of_later_member_has_new_member_as_cause(self, stage):
        ids, generation = trio(stage)
        stage.enter(client_id="demo-3", reason="need to re-join with the given member-id: x")
        for client, member_id in ids.items():
            stage.join(member_id, client_id=client)

        rebalance, explanation = last_rebalance(stage)

        assert (explanation.cause, rebalance.end, rebalance.generation) == ("NEW_MEMBER", "assigning", generation + 1)
        assert explanation.sentence.endswith("so far, without the leader's assignment.")

    def test_join_of_expired_client_has_client_reset_as_cause(self, stage):
        ids, generation = expire_third(stage)
        for i in (0, 1):
            stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", connection=i)
        settle(stage, {c: m for c, m in ids.items() if c != "demo-2"}, generation + 1)
        stage.enter(client_id="demo-2", connection=2)

        _, explanation = last_rebalance(stage)

        assert explanation.cause == "CLIENT_RESET"
        assert short_id(ids["demo-2"]) in explanation.sentence

    @pytest.mark.parametrize(
        ("reason", "cause", "words"),
        [
            ("consumer poll timeout has expired.", "CLIENT_RESET", "(it did not poll within max.poll.interval.ms)"),
            ("the consumer is being closed", "NEW_MEMBER", "joined the group"),
        ],
    )
    def test_join_after_missed_poll_is_client_reset_and_join_after_orderly_leave_is_not(
        self, stage, reason, cause, words
    ):
        ids, generation = trio(stage)
        member_id = ids.pop("demo-2")
        stage.leave(member_id, reason=reason, client_id="demo-2", connection=2)
        for i in (0, 1):
            stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", connection=i)
        settle(stage, ids, generation + 1)
        stage.advance(9000)
        stage.enter(client_id="demo-2", connection=2)

        _, explanation = last_rebalance(stage)

        assert explanation.cause == cause
        assert words in explanation.sentence
        assert (f"rejoined as a new member, 9.0 s after {short_id(member_id)}" in explanation.sentence) == (
            cause == "CLIENT_RESET"
        )

    def test_join_of_client_that_expired_then_returned_and_left_has_new_member_as_cause(self, stage):
        ids, generation = expire_third(stage)
        for has_returned in (True, False):
            for i in (0, 1):
                stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", connection=i)
            settle(stage, {c: m for c, m in ids.items() if c != "demo-2"}, generation := generation + 1)
            if has_returned:
                back, _ = stage.enter(client_id="demo-2", connection=2)
                stage.advance(100)
                stage.leave(back, reason="the consumer is being closed", client_id="demo-2", connection=2)
        stage.enter(client_id="demo-2", connection=2)

        _, explanation = last_rebalance(stage)

        assert explanation.cause == "NEW_MEMBER"

    def test_members_before_a_rebalance_exclude_client_that_only_requested_a_member_id(self, stage):
        trio(stage)
        stage.enter(client_id="demo-9", connection=9)

        rebalance, _ = last_rebalance(stage)

        assert {member.client_id for member in rebalance.members_before} == {"demo-0", "demo-1", "demo-2"}


class TestLeave:
    @pytest.mark.parametrize(
        ("reason", "cause"),
        [
            ("the consumer is being closed", "MEMBER_LEFT"),
            (None, "MEMBER_LEFT"),
            ("consumer poll timeout has expired.", "MAX_POLL_EXCEEDED"),
        ],
    )
    def test_explanation_of_leave_quotes_the_client_reason(self, stage, reason, cause):
        ids, _ = trio(stage)
        stage.leave(ids["demo-2"], reason=reason, client_id="demo-2")

        assert last_rebalance(stage)[1].cause == cause

    def test_leave_without_reason_of_member_without_progress_is_missed_poll(self, stage):
        ids, generation = trio(stage, **SLOW)
        stage.commit({("t", 0): 5}, member_id=ids["demo-2"], generation=generation, connection=2)
        for _ in range(3):
            stage.advance(8000)
            for i in range(3):
                stage.heartbeat(ids[f"demo-{i}"], generation, connection=i)
        stage.leave(ids["demo-2"], version=1, client_id="demo-2", connection=2)

        _, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.confidence) == ("MAX_POLL_EXCEEDED", "medium")
        assert "after 24.0 s without commit progress (its limit is 20 s between polls)" in explanation.sentence

    def test_rejoin_with_other_member_id_after_missed_poll_has_client_reset_as_cause(self, stage):
        ids, generation = trio(stage, **SLOW)
        stage.commit({("t", 0): 5}, member_id=ids["demo-2"], generation=generation, connection=2)
        for _ in range(3):
            stage.advance(8000)
            for i in range(3):
                stage.heartbeat(ids[f"demo-{i}"], generation, connection=i)
        stage.leave(ids.pop("demo-2"), version=1, client_id="demo-2", connection=2)
        for i in (0, 1):
            stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", connection=i)
        settle(stage, ids, generation + 1)
        stage.enter(client_id="demo-2", connection=2)

        _, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.confidence) == ("CLIENT_RESET", "high")
        assert "was removed (MAX_POLL_EXCEEDED)" in explanation.sentence

    @pytest.mark.parametrize(("commit_after_poll_ms", "cause"), [(4_900, "MAX_POLL_EXCEEDED"), (5_100, "MEMBER_LEFT")])
    def test_leave_without_reason_one_poll_interval_after_the_last_auto_commit_is_missed_poll(
        self, stage, commit_after_poll_ms, cause
    ):
        ids, generation = trio(stage, **SLOW)
        stage.advance(commit_after_poll_ms)
        stage.commit({("t", 0): 5}, member_id=ids["demo-2"], generation=generation, connection=2)
        stage.advance(20_000 - commit_after_poll_ms)
        stage.leave(ids["demo-2"], version=1, client_id="demo-2", connection=2)

        assert last_rebalance(stage)[1].cause == cause

    def test_leave_requested_by_admin_client_has_admin_removed_as_cause(self, stage):
        first = stage.answer(stage.join(instance_id="i-1")).member_id
        stage.sync(first, 1, {first: b""}, instance_id="i-1")
        stage.leave(MemberIdentity(group_instance_id="i-1", reason="maintenance"), client_id="ops")

        rebalance, explanation = last_rebalance(stage)

        assert (explanation.cause, rebalance.end) == ("ADMIN_REMOVED", "empty")
        assert "was removed by ops at /127.0.0.1;" in explanation.sentence
        assert explanation.sentence.startswith("Generation 2 (no members left)")


class TestRejoin:
    def rejoin(self, stage, protocols=RANGE, member="demo-1", reason=None):
        ids, _ = trio(stage)
        stage.join(ids[member], client_id=member, protocols=protocols, reason=reason)
        return last_rebalance(stage)

    def test_rejoin_with_other_subscription_has_subscription_changed_as_cause(self, stage):
        _, explanation = self.rejoin(stage, (("range", subscription("t", "u")),))

        assert explanation.cause == "SUBSCRIPTION_CHANGED"
        assert "changed its subscription: added u" in explanation.sentence

    def test_rejoin_with_other_assignors_has_assignor_changed_as_cause(self, stage):
        _, explanation = self.rejoin(stage, (*RANGE, ("sticky", b"")))

        assert explanation.cause == "ASSIGNOR_CHANGED"
        assert "range became range, sticky" in explanation.sentence

    def test_rejoin_after_new_partitions_has_partitions_changed_as_cause(self):
        stage = CoordinatorStage(topics=Topics(t=6))
        ids, _ = trio(stage)
        stage.topics.partitions["t"] = 12
        stage.join(ids["demo-0"], client_id="demo-0")

        _, explanation = last_rebalance(stage)

        assert explanation.cause == "PARTITIONS_CHANGED"
        assert "t from 6 to 12 partitions" in explanation.sentence

    @pytest.mark.parametrize(
        ("reason", "cause", "confidence"),
        [
            (None, "LEADER_REJOIN", "low"),
            ("rebalance enforced by user", "USER_ENFORCED", "high"),
            ("cached metadata has changed from (version1) to (version2)", "LEADER_REJOIN", "medium"),
            ("received assignment does not match the current subscription", "ASSIGNMENT_MISMATCH", "high"),
            ("something\nelse", "USER_ENFORCED", "medium"),
            ("rejoining from normal rebalance", "LEADER_REJOIN", "low"),
            ("from ForceRebalance", "USER_ENFORCED", "high"),
        ],
    )
    def test_rejoin_reason_of_leader_decides_the_cause_of_the_rebalance(self, stage, reason, cause, confidence):
        _, explanation = self.rejoin(stage, member="demo-0", reason=reason)

        assert (explanation.cause, explanation.confidence) == (cause, confidence)
        assert "\n" not in explanation.sentence

    def test_rejoin_after_revocation_has_cooperative_followup_as_cause(self, stage):
        owned = {i: (("range", subscription("t", owned=[("t", i), ("t", i + 3)])),) for i in range(3)}
        ids, generation = trio(stage)
        stage.join(ids["demo-0"], client_id="demo-0", protocols=owned[0])
        for i in (1, 2):
            stage.join(ids[f"demo-{i}"], client_id=f"demo-{i}", protocols=owned[i])
        assignments = {ids["demo-0"]: assignment(("t", 0)), ids["demo-1"]: assignment(("t", 2), ("t", 3))}
        for i, (client, member_id) in enumerate(ids.items()):
            stage.sync(member_id, generation + 1, assignments if i == 0 else None, client_id=client)
        less = (("range", subscription("t", owned=[("t", 0)])),)
        stage.join(ids["demo-0"], client_id="demo-0", protocols=less, reason="need to revoke partitions and re-join")

        rebalance, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.confidence) == ("COOPERATIVE_FOLLOWUP", "proof")
        assert rebalance.parent == generation + 1

    def test_rejoin_with_other_owned_partitions_has_metadata_changed_as_cause(self, stage):
        ids, _ = trio(stage)
        other = (("range", subscription("t", owned=[("t", 1)])),)
        stage.join(ids["demo-1"], client_id="demo-1", protocols=other)

        _, explanation = last_rebalance(stage)

        assert (explanation.cause, explanation.confidence) == ("METADATA_CHANGED", "medium")
        assert "other owned partitions" in explanation.sentence


class TestWaitingRound:
    def test_explanation_names_member_that_did_not_rejoin_before_the_rebalance_timeout(self, stage):
        ids, generation = trio(stage, **SLOW)
        stage.join(ids["demo-0"], client_id="demo-0", **SLOW)
        stage.join(ids["demo-1"], client_id="demo-1", **SLOW)
        stage.advance(20_000)
        late = ids.pop("demo-2")
        settle(stage, ids, generation + 1)

        rebalance, explanation = last_rebalance(stage)

        assert explanation.sentence.endswith(
            f"the rebalance took 20.0 s, of which 20.0 s waiting for {short_id(late)}, which did not rejoin in time."
        )
        assert [name_of(r.member) for r in rebalance.not_rejoined] == [short_id(late)]
        assert "max.poll.interval.ms" in explanation.advice

    def test_explanation_names_members_that_sent_no_sync_group_before_the_timeout(self, stage):
        ids, generation = trio(stage, **SLOW)
        for client, member_id in ids.items():
            stage.join(member_id, client_id=client, **SLOW)
        stage.sync(ids["demo-1"], generation + 1, client_id="demo-1")
        stage.advance(20_000)

        _, explanation = last_rebalance(stage)

        assert explanation.cause == "LEADER_LOST"
        assert short_id(ids["demo-0"]) in explanation.sentence
        assert "and 1 other" in explanation.sentence


class TestFailedRound:
    def test_rebalance_that_could_not_be_persisted_ends_as_dropped(self, stage):
        ids, generation = trio(stage)
        for client, member_id in ids.items():
            stage.join(member_id, client_id=client)
        stage.refuse_with = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        stage.sync(ids["demo-0"], generation + 1, {})
        before, after = rebalances(stage.journal)

        assert (before.end, before.error) == ("dropped", "COORDINATOR_NOT_AVAILABLE")
        assert "could not be persisted" in explain(before).sentence
        assert explain(after).cause == "ASSIGNMENT_STORE_FAILED"

    def test_rebalance_interrupted_by_a_leave_ends_as_superseded(self, stage):
        ids, generation = trio(stage)
        for client, member_id in ids.items():
            stage.join(member_id, client_id=client)
        stage.leave(ids["demo-2"], client_id="demo-2")

        before, _ = rebalances(stage.journal)
        assert (before.generation, before.end) == (generation + 1, "superseded")
        assert "another rebalance began" in explain(before).sentence

    def test_rebalance_that_lost_its_coordinator_ends_as_interrupted(self, stage):
        ids, _ = trio(stage)
        stage.join(ids["demo-0"], client_id="demo-0")
        stage.restart()

        (rebalance,) = rebalances(stage.journal)
        assert stage.entries(GroupLoaded)
        assert rebalance.end == "interrupted"
        assert "the coordinator was lost" in explain(rebalance).sentence

    def test_removal_of_member_by_group_max_size_has_over_capacity_as_cause(self, stage):
        trio(stage)
        stage.config = CoordinatorStage(group_max_size=2).config
        stage.restart()

        assert last_rebalance(stage)[1].cause == "OVER_CAPACITY"


def test_explanation_of_expired_static_member_names_its_instance_id(stage):
    member_id = stage.answer(stage.join(instance_id="node-7", client_id="app")).member_id
    stage.sync(member_id, 1, {member_id: b""}, instance_id="node-7")
    stage.journal.clear()
    stage.advance(10_000)

    _, explanation = last_rebalance(stage)

    assert explanation.cause == "STATIC_EXPIRED"
    assert f"member {short_id(member_id)} (static node-7, client app at /127.0.0.1)" in explanation.sentence


def test_rebalances_of_several_groups_in_one_journal_are_separate(stage):
    stage.enter(group="a")
    stage.advance(10)
    stage.enter(group="b")

    assert [(r.group, r.generation) for r in rebalances(stage.journal)] == [("a", 1), ("b", 1)]


def test_rebalance_without_its_first_journal_entry_is_not_reported(stage):
    trio(stage)
    (ids, _) = stage.stable(2, group="h")
    middle = [e for e in stage.journal if isinstance(e, MemberArrived)]
    stage.leave(ids[1], group="h")
    opened = [e for e in stage.journal if isinstance(e, RoundOpened)]

    assert rebalances(middle) == []
    assert len(rebalances(stage.journal)) == len(opened)


def test_rebalance_with_missing_journal_entries_is_explained_as_far_as_known():
    expired = Trigger(event="session_expired")
    opened = RoundOpened(
        at_ms=1, group="g", trigger=expired, from_generation=3, members=(), timeout_ms=1, initial=False
    )

    (this,) = rebalances([opened])

    assert explain(this).cause == "SESSION_TIMEOUT"
    assert "a member sent no heartbeat until its session expired" in explain(this).sentence

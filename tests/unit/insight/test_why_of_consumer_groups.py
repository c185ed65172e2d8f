"""Explanations of rebalances of consumer groups, on a real coordinator."""

import pytest
from msgspec import to_builtins

from kohort.cli.terminal.wording import moves_table, spans, standing_row
from kohort.coordinator.journal import EpochRaised, GroupConverted, build_entry, parse_entry
from kohort.errors import ErrorCode
from kohort.insight.epochs import epoch_rebalances
from kohort.insight.findings.rebalances import consumer_finding
from kohort.insight.rebalances import rebalances
from kohort.insight.why import RAISE_FINDERS, explain
from support.machines.coordinator_stage import CoordinatorStage


def parts(topic, *numbers):
    return [(topic, number) for number in numbers]


@pytest.fixture
def stage():
    stage = CoordinatorStage()
    stage.come("m1", client_id="one")
    stage.advance(2_000)
    return stage


def second_comes(stage):
    stage.come("m2", client_id="two")
    stage.beat("m1", 2, client_id="one")


def both_settle(stage):
    second_comes(stage)
    stage.beat("m1", 2, parts("t", 0, 1), client_id="one")
    stage.beat("m2", 3, client_id="two")
    stage.advance(2_000)


def last_rebalance(stage):
    found = epoch_rebalances([parse_entry(build_entry(entry)) for entry in stage.journal])
    explained = [explain(rebalance) for rebalance in found]
    assert all(explanation.evidence for explanation in explained)
    return found[-1], explained[-1]


def member_rows(rebalance):
    found = consumer_finding(rebalance)
    return [standing_row(found, row) for row in found.standing]


def kinds(explanation):
    return [fact.kind for fact in explanation.evidence]


def test_first_join_to_consumer_group_has_group_forming_as_cause(stage):
    rebalance, explanation = last_rebalance(stage)

    assert explanation.sentence == (
        "Epoch 2 (1 member, 4 partitions to move): the group was empty and member one/m1 (client one at /127.0.0.1) "
        "joined; the group was stable after 0 ms."
    )
    assert (explanation.cause, explanation.confidence, rebalance.end) == ("GROUP_FORMING", "proof", "stable")


@pytest.mark.parametrize(("revoked_s", "is_advised"), [(5, False), (12, True)])
def test_rebalance_that_waits_for_a_slow_revocation_has_advice_for_the_revoking_member(stage, revoked_s, is_advised):
    second_comes(stage)
    for _ in range(revoked_s):
        stage.advance(1_000)
        stage.beat("m1", 2, client_id="one")
    stage.beat("m1", 2, parts("t", 0, 1), client_id="one")
    stage.beat("m2", 3, client_id="two")

    _, explanation = last_rebalance(stage)

    assert explanation.cause == "NEW_MEMBER"
    assert ("keep the member's revoke callback" in (explanation.advice or "")) is is_advised


def test_unfinished_rebalance_names_revoking_member_and_waiting_member(stage):
    second_comes(stage)
    notified_at_ms = stage.now
    stage.advance(3_000)
    stage.beat("m1", 2, client_id="one")

    rebalance, explanation = last_rebalance(stage)

    assert (rebalance.end, explanation.cause) == ("reconciling", "NEW_MEMBER")
    assert explanation.sentence == (
        "Epoch 3 (2 members, 2 partitions to move): member two/m2 (client two at /127.0.0.1) joined the group; "
        "0 of 2 members reached the epoch: one/m1 has not revoked t-2, t-3."
    )
    (row,) = rebalance.unrevoked
    assert (row.member.member_id, row.revoking, row.revoking_since_ms) == ("m1", (("t", 2), ("t", 3)), notified_at_ms)
    (waits,) = [fact for fact in explanation.evidence if fact.kind == "waits"]
    assert waits.value == "two/m2 waits for t-2, t-3, owned by one/m1 at its last heartbeat"
    one, two = member_rows(rebalance)
    assert one[:5] == ("one/m1", 2, "t-0..1", "t-0..1", "t-2..3")
    assert two[:5] == ("two/m2", 3, "", "t-2..3", "")
    assert two[6] == ["t-2 (one/m1)", "t-3 (one/m1)"]


def test_explanation_names_the_longest_revocation_and_the_time_without_owner(stage):
    second_comes(stage)
    stage.advance(3_000)
    stage.beat("m1", 2, parts("t", 0, 1), client_id="one")
    stage.advance(500)
    stage.beat("m2", 3, client_id="two")

    rebalance, explanation = last_rebalance(stage)

    assert explanation.sentence.endswith(
        "the group was stable after 3.5 s, of which 3.0 s waiting for one/m1 to revoke t-2, t-3; "
        "t-2 had no owner for 0.5 s, the longest of 2 (1.0 partition-seconds)."
    )
    assert rebalance.phases_ms == {"target": 0, "revoke": 3000, "give": 500, "settle": 0}
    assert [(m.partition, m.before, m.after) for m in rebalance.moves] == [(2, "m1", "m2"), (3, "m1", "m2")]
    found = consumer_finding(rebalance)
    columns, rows = moves_table(found)
    assert columns == ("PARTITION", "FROM", "TO", "NO-OWNER-FOR")
    assert rows[0] == ("t-2", "one/m1", "two/m2", "0.5 s")
    as_json = to_builtins(found)
    assert as_json["unowned_partition_ms"] == 1000
    assert [m["assignment"] for m in as_json["standing"]] == [("t-0", "t-1"), ("t-2", "t-3")]
    assert [(m["from"], m["to"], m["unowned_ms"]) for m in as_json["moves"]] == [("m1", "m2", 500)] * 2


def test_explanation_of_revocation_timeout_names_partitions_that_were_not_revoked(stage):
    second_comes(stage)
    for _ in range(6):
        stage.advance(10_000)
        stage.beat("m1", 2, client_id="one")
        stage.beat("m2", 3, client_id="two")

    _, explanation = last_rebalance(stage)

    assert (explanation.cause, explanation.confidence) == ("REVOCATION_TIMEOUT", "proof")
    assert "one/m1 (client one at /127.0.0.1) did not revoke t-2, t-3 within its rebalance timeout of 60 s" in (
        explanation.sentence
    )
    assert "must_revoke" in kinds(explanation)
    assert explanation.advice is not None

    stage.advance(1_000)
    stage.come("m1", client_id="one")
    _, explanation = last_rebalance(stage)
    assert (explanation.cause, explanation.confidence) == ("CLIENT_RESET", "proof")
    assert "rejoined as a new member, 1.0 s after its removal (revocation_timeout)" in explanation.sentence


def test_partitions_of_departed_member_count_as_unowned_until_assigned(stage):
    both_settle(stage)
    stage.beat("m2", -1, client_id="two")
    rebalance, explanation = last_rebalance(stage)
    assert (rebalance.end, explanation.cause) == ("assigning", "MEMBER_LEFT")
    assert explanation.sentence.endswith("the target assignment is not computed yet; t-2, t-3 have no owner yet.")

    stage.advance(1_500)
    stage.beat("m1", 3, client_id="one")

    rebalance, explanation = last_rebalance(stage)
    assert rebalance.end == "stable"
    assert {(m.before, m.after) for m in rebalance.moves} == {("m2", "m1")}
    assert [gap.took_ms for gap in rebalance.unowned] == [1500, 1500]


def test_explanation_of_expired_member_has_its_last_heartbeat_and_connection_state(stage):
    both_settle(stage)
    for _ in range(9):
        stage.advance(5_000)
        stage.beat("m1", 3, client_id="one")

    rebalance, explanation = last_rebalance(stage)

    assert explanation.cause == "SESSION_TIMEOUT.unreachable"
    assert "member two/m2 (client two at /127.0.0.1) was silent" in explanation.sentence
    assert kinds(explanation)[:3] == ["last_request", "session_timeout", "longest_gap"]
    assert rebalance.members[0].target is not None


def test_explanation_names_members_with_unchanged_assignment(stage):
    both_settle(stage)
    stage.topics.make("u", 2)
    stage.come("m3", "u", client_id="three")
    for member_id in ("m1", "m2"):
        stage.beat(member_id, 3)

    rebalance, explanation = last_rebalance(stage)

    assert rebalance.end == "stable"
    assert [row.member.member_id for row in rebalance.undisturbed] == ["m1", "m2"]
    assert "undisturbed" in kinds(explanation)


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        (lambda topics: topics.make("t", 6), "PARTITIONS_CHANGED", "(t from 4 to 6 partitions)"),
        (lambda topics: topics.delete("t"), "TOPIC_DELETED", "(t was deleted with 4 partitions)"),
    ],
)
def test_topic_changes_that_raise_the_epoch_are_named_in_the_explanation(stage, change, cause, words):
    both_settle(stage)
    change(stage.topics)
    for owned in (None, [], None):
        for member_id in ("m1", "m2"):
            stage.beat(member_id, stage.answers[stage.tickets].member_epoch, owned)

    _, explanation = last_rebalance(stage)

    assert explanation.cause == cause
    assert words in explanation.sentence


def test_rebalance_with_new_epoch_during_reconciliation_ends_as_superseded(stage):
    second_comes(stage)
    stage.advance(2_000)
    stage.come("m3", client_id="three")

    found = epoch_rebalances(stage.journal)

    assert [rebalance.end for rebalance in found] == ["stable", "superseded", "reconciling"]
    assert explain(found[1]).sentence.endswith(
        "the epoch was raised again before all members reached the epoch: one/m1 has not revoked t-2, t-3."
    )
    assert [row.member.member_id for row in found[2].unrevoked] == ["m1"]


def test_several_epochs_with_one_target_assignment_are_one_rebalance(stage):
    second_comes(stage)
    stage.come("m3", client_id="three")
    stage.come("m4", client_id="four")
    stage.beat("m3", 3)

    rebalance, explanation = last_rebalance(stage)

    assert (rebalance.from_epoch, rebalance.epoch, len(rebalance.raises)) == (3, 5, 2)
    assert "; then member four/m4" in explanation.sentence


def test_conversion_from_and_to_a_classic_group_has_protocol_migration_as_cause():
    stage = CoordinatorStage()
    (classic,), _ = stage.stable(1)
    stage.come("new", client_id="modern")

    rebalance, explanation = last_rebalance(stage)
    assert stage.entries(GroupConverted)
    assert (explanation.cause, rebalance.end) == ("PROTOCOL_MIGRATION", "reconciling")
    assert "member modern/new" in explanation.sentence
    assert "the classic group of 1 member became a consumer group" in explanation.sentence
    assert [row.assignment_before for row in rebalance.members if row.member.member_id == classic] == [(("t", 0),)]

    stage.beat("new", -1, client_id="modern")

    assert last_rebalance(stage)[0].end == "converted"
    back = explain(rebalances(stage.journal)[-1])
    assert (back.cause, back.confidence) == ("PROTOCOL_MIGRATION", "proof")


def test_rebalance_without_oldest_journal_entries_has_unknown_assignments(stage):
    both_settle(stage)
    stage.come("m3", client_id="three")
    at = max(i for i, entry in enumerate(stage.journal) if isinstance(entry, EpochRaised))

    (rebalance,) = epoch_rebalances(stage.journal[at:])
    assert explain(rebalance).cause == "NEW_MEMBER"
    stage.beat("m1", 3, client_id="one")
    (rebalance,) = epoch_rebalances(stage.journal[at:])
    assert [row.known for row in rebalance.members] == [True, False]
    assert member_rows(rebalance)[1][2].endswith("?")


def test_rebalance_that_lost_its_coordinator_during_reconciliation_ends_as_interrupted(stage):
    second_comes(stage)
    stage.unload()
    stage.check()

    rebalance, explanation = last_rebalance(stage)

    assert rebalance.end == "interrupted"
    assert "the coordinator was lost before all members reached the epoch" in explanation.sentence


def test_replacement_of_static_member_causes_no_rebalance_of_consumer_group():
    stage = CoordinatorStage()
    stage.come("m1", instance_id="i1")
    stage.advance(2_000)
    stage.beat("m1", -2, instance_id="i1")
    stage.come("m1b", instance_id="i1")
    stage.come("m2")

    found = epoch_rebalances(stage.journal)

    assert [rebalance.end for rebalance in found] == ["stable", "reconciling"]
    assert {move.before for move in found[1].moves} == {"m1b"}
    assert [row.assignment_before for row in found[1].members if row.member.member_id == "m1b"] == [
        tuple(parts("t", 0, 1, 2, 3))
    ]


def test_pattern_that_matches_new_topics_has_regex_resolved_as_cause():
    stage = CoordinatorStage()
    stage.come("m1", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    stage.advance(1_000)
    stage.beat("m1", 0, [], rebalance_timeout_ms=60_000, subscribed_topic_regex="t.*")

    _, explanation = last_rebalance(stage)

    assert (
        explanation.cause == "GROUP_FORMING"
    )  # the group was empty before the join; the pattern of its member matched topics later
    assert "which now matches topics: added t;" in explanation.sentence

    stage.topics.make("t2", 2)
    epoch = 2
    while len(epoch_rebalances(stage.journal)) == 1:
        stage.advance(2_000)
        epoch = stage.beat("m1", epoch).member_epoch
    _, explanation = last_rebalance(stage)

    assert explanation.cause == "REGEX_RESOLVED"
    assert "matches other topics: added t2;" in explanation.sentence


def test_every_event_that_raises_the_epoch_has_a_cause_with_evidence(stage):
    second_comes(stage)
    rebalance, _ = last_rebalance(stage)
    raised = rebalance.raises[0]
    for find in RAISE_FINDERS.values():
        finding = find(rebalance, raised)
        assert finding.cause
        assert finding.evidence


def test_partition_numbers_of_a_topic_are_shown_as_ranges():
    assert spans(("t-5", "t-0", "t-1", "u-3")) == "t-0..1,5 u-3"


def test_created_grown_deleted_and_recreated_topics_are_named_in_the_explanation(stage):
    stage.come("m1", "t", "u", "made", "same", client_id="one")
    stage.topics.make("same", 2)
    stage.advance(2_000)
    stage.beat("m1", 3, client_id="one")
    stage.advance(2_000)
    epoch = stage.beat("m1", 4, client_id="one").member_epoch

    stage.topics.make("t", 6)
    stage.topics.make("made", 3)
    stage.topics.delete("u")
    stage.topics.delete("same")
    stage.topics.make("same", 2)
    stage.topics.ids["same"] = b"anew".ljust(16)
    stage.beat("m1", epoch, client_id="one")

    cause = stage.entries(EpochRaised)[-1].cause
    assert cause.event == "topics_changed"
    assert cause.partitions_changed == {"made": (0, 3), "same": (2, 2), "t": (4, 6), "u": (2, 0)}
    _, explanation = last_rebalance(stage)
    assert explanation.cause == "PARTITIONS_CHANGED"
    assert (
        "(made was created with 3 partitions, same was recreated with 2 partitions, "
        "t from 4 to 6 partitions, u was deleted with 2 partitions)" in explanation.sentence
    )


def test_topics_unknown_to_a_new_coordinator_are_not_named_as_changed(stage):
    stage.unload()
    stage.topics.make("t", 6)
    stage.check()
    stage.restart()
    stage.beat("m1", 2, client_id="one")

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.partitions_changed) == ("topics_changed", {})


def test_vitals_of_member_have_the_time_of_its_last_commit_with_progress(stage):
    stage.advance(3_000)
    stage.beat("m1", 2, client_id="one")
    stage.commit({("t", 0): 5}, member_id="m1", generation=2, version=9)
    moved_at_ms = stage.now
    stage.advance(1_000)
    stage.beat("m1", 2, client_id="one")
    stage.commit({("t", 0): 5}, member_id="m1", generation=2, version=9)
    stage.advance(60_000)

    vitals = stage.entries(EpochRaised)[-1].cause.vitals
    assert (vitals.commits, vitals.last_progress_ms) == (2, moved_at_ms)


class TestGroupOfBothProtocols:
    """Consumer group of a classic-protocol member, which owns all partitions, and a new consumer-protocol member."""

    @pytest.fixture
    def mixed(self):
        stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
        (classic,), generation = stage.stable(1)
        stage.come("new", client_id="modern")
        return stage, classic, generation

    def test_journal_marks_classic_protocol_members_of_a_consumer_group(self, mixed):
        stage, classic, generation = mixed
        (converted,) = stage.entries(GroupConverted)
        assert [(member.member_id, member.classic) for member in converted.members] == [(classic, True)]

        stage.heartbeat(classic, generation)
        stage.advance(60_000)

        causes = [entry.cause for entry in stage.entries(EpochRaised)]
        classic_by_member = {
            cause.member.member_id: cause.member.classic for cause in causes if cause.vitals is not None
        }
        assert classic_by_member.get(classic) is True
        assert all(not is_classic for member_id, is_classic in classic_by_member.items() if member_id != classic)

    def test_explanation_of_expired_member_mentions_its_classic_protocol(self, mixed):
        stage, classic, _ = mixed
        stage.advance(10_000)
        stage.beat("new", 2, client_id="modern")

        rebalance, explanation = last_rebalance(stage)

        assert (explanation.cause, rebalance.end) == ("SESSION_TIMEOUT.unreachable", "stable")
        assert f"member {classic[:12]}" in explanation.sentence
        assert "(client app, of the classic protocol at /127.0.0.1) was silent" in explanation.sentence

    def test_rebalance_after_conversion_lists_earlier_partitions_of_classic_protocol_member(self, mixed):
        stage, classic, generation = mixed
        assert stage.heartbeat(classic, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        stage.beat("new", 2, client_id="modern")

        rebalance, explanation = last_rebalance(stage)

        assert (explanation.cause, rebalance.end) == ("PROTOCOL_MIGRATION", "reconciling")
        (row,) = [row for row in rebalance.members if row.member.member_id == classic]
        assert row.member.classic

"""Group events without a rebalance, on a real coordinator."""

import pytest

from kohort.coordinator.journal import (
    ClientIdentity,
    build_entry,
    parse_entry,
)
from kohort.coordinator.journal_events import OptionsChanged
from kohort.errors import ErrorCode
from kohort.insight.events import events
from kohort.insight.findings.rebalances import find_rebalances
from support.consumer_protocol import assignment
from support.machines.coordinator_stage import CoordinatorStage


@pytest.fixture
def stage():
    return CoordinatorStage()


def events_of(stage):
    return events([parse_entry(build_entry(entry)) for entry in stage.journal])


def alone(stage, **options):
    member_id, ticket = stage.enter(client_id="app", **options)
    generation = stage.answer(ticket).generation_id
    stage.sync(member_id, generation, {member_id: assignment(("t", 0))}, client_id="app")
    stage.journal.clear()
    return member_id, generation


class TestCommitsOfNonMembers:
    def test_lower_offsets_committed_by_non_member_are_an_offsets_reset(self, stage):
        stage.commit({("t", 0): 90, ("t", 1): 80}, client_id="tool")
        stage.journal.clear()
        stage.advance(5_000)
        stage.commit({("t", 0): 10, ("t", 1): 99}, client_id="tool", client_host="/10.0.0.9", principal="User:olga")

        (event,) = events_of(stage)

        assert (event.cause, event.confidence) == ("OFFSETS_RESET", "proof")
        assert event.sentence == (
            "Client tool at /10.0.0.9 as User:olga, which is no member, set 2 committed offsets, 1 of them back."
        )
        assert event.evidence[0].value == "t-0 from 90 to 10, t-1 from 80 to 99"

    def test_higher_offsets_committed_by_admin_client_are_an_offsets_reset(self, stage):
        stage.commit({("t", 0): 90}, client_id="adminclient-1")

        assert [(e.cause, e.confidence) for e in events_of(stage)] == [("OFFSETS_RESET", "high")]

    def test_commits_of_standalone_client_at_rising_offsets_are_reported_once_an_hour(self, stage):
        for offset in range(50):
            stage.commit({("t", 0): offset}, client_id="standalone")
            stage.advance(100_000)

        assert [e.cause for e in events_of(stage)] == ["UNFENCED_COMMIT"] * 2

    @pytest.mark.heavy
    def test_commits_at_alternating_offsets_do_not_fill_the_journal(self, stage):
        for offset in range(500):
            stage.commit({("t", 0): offset % 2}, client_id="mad")
            stage.advance(1)

        assert len(events_of(stage)) <= 2

    def test_event_of_commits_to_many_partitions_lists_only_some_partitions(self, stage):
        stage.topics.make("wide", 3_000)
        stage.commit({("wide", p): 7 for p in range(3_000)}, client_id="x" * 60_000)

        (event,) = events_of(stage)

        assert event.evidence[0].value.endswith("and 2995 more")
        assert len(build_entry(stage.journal[-1])) < 70_000
        assert len(event.sentence) < 500

    def test_commits_of_group_members_cause_no_event(self, stage):
        member_id, generation = alone(stage)
        stage.commit({("t", 0): 5}, member_id=member_id, generation=generation)
        stage.commit({("t", 0): 2}, member_id=member_id, generation=generation)

        assert events_of(stage) == []


class TestZombies:
    def test_zombie_commits_of_one_generation_are_reported_one_time_with_the_offsets(self, stage):
        member_id, generation = alone(stage)
        stage.commit({("t", 0): 5}, member_id=member_id, generation=generation)
        for _ in range(3):
            codes = stage.commit({("t", 0): 99}, member_id="app-gone", generation=generation, client_id="app")
            assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]

        (event,) = events_of(stage)

        assert event.cause == "ZOMBIE_COMMIT"
        assert event.evidence[1].value == "t-0 to 99 (5 is committed)"
        assert "no longer a member but continued to work" in event.sentence

    def test_event_of_commits_with_an_older_generation_calls_the_member_outdated(self, stage):
        member_id, generation = alone(stage)
        stage.commit({("t", 0): 5}, member_id=member_id, generation=generation - 1)

        (event,) = events_of(stage)

        assert "an outdated member" in event.sentence

    def test_commit_of_removed_consumer_group_member_is_reported_as_zombie_commit(self, stage):
        stage.come("m1", client_id="app")
        stage.come("m2", client_id="gone")
        stage.beat("m2", -1)
        assert stage.commit({("t", 0): 3}, member_id="m2", generation=2, version=9) == [ErrorCode.UNKNOWN_MEMBER_ID]

        event = events_of(stage)[-1]

        assert (event.cause, event.evidence[1].value) == ("ZOMBIE_COMMIT", "t-0 to 3")

    def test_commit_with_earlier_epoch_of_consumer_group_member_is_no_event(self, stage):
        stage.come("m1", client_id="app")
        assert stage.commit({("t", 0): 3}, member_id="m1", generation=0, version=9) == [ErrorCode.STALE_MEMBER_EPOCH]

        assert events_of(stage) == []

    def test_rejected_heartbeats_cause_no_event(self, stage):
        _, generation = alone(stage)
        stage.heartbeat("app-gone", generation)

        assert events_of(stage) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_join_rejected_by_group_max_size_is_an_event_that_names_the_client(protocol):
    stage = CoordinatorStage(group_max_size=1, group_consumer_max_size=1)
    if protocol == "classic":
        alone(stage)
        for i in range(3):
            ticket = stage.join(client_id=f"late-{i}")
            assert stage.answer(ticket).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            stage.join(client_id=f"late-{i}")
    else:
        stage.come("m1")
        for i in range(3):
            for _ in range(2):
                assert stage.come(f"m{i + 2}", client_id=f"late-{i}").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    (event,) = events_of(stage)

    assert event.cause == "GROUP_FULL"
    assert "was rejected: the group is full with 1 member." in event.sentence
    assert len(event.evidence) == 3


def test_change_of_group_options_is_an_event_that_names_the_client():
    by = ClientIdentity("", "ops", "/10.0.0.9", principal="User:olga")
    options = {"consumer.session.timeout.ms": (None, 9_500), "consumer.heartbeat.interval.ms": (3_000, None)}

    (event,) = events([OptionsChanged(at_ms=5, group="g", options=options, by=by)])

    assert event.cause == "CONFIG_CHANGED"
    assert event.sentence == (
        "Options of the group were changed by ops at /10.0.0.9 as User:olga: "
        "consumer.heartbeat.interval.ms from 3 s to the broker's value, "
        "consumer.session.timeout.ms from the broker's value to 9.5 s."
    )


def test_events_without_a_rebalance_are_among_the_findings(stage):
    stage.commit({("t", 0): 90}, client_id="adminclient-1")

    (this,) = find_rebalances(stage.journal)

    assert (this.end, this.cause, this.trigger.client_id) == ("no_rebalance", "OFFSETS_RESET", "adminclient-1")
    assert this.advice.startswith("records between")

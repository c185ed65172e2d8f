"""Calls from the broker to its coordinator: lags, waiting requests, timers, broker stalls, loaded partitions."""

import pytest

from kohort.coordinator.journal import ClientIdentity, GroupUnloaded, MemberRemoved, RoundDropped
from kohort.coordinator.journal_events import MemberDisconnected, MemberMetrics
from kohort.coordinator.outcome import TimerKey
from kohort.notes import Level
from kohort.wire.messages.group_admin import DeleteGroupsRequest
from kohort.wire.messages.group_classic import JoinGroupRequest, SyncGroupRequest
from kohort_lab.sim.checks.parked import waiting_requests
from support.machines.coordinator_stage import GROUP, CoordinatorStage, Topics


class TestGroupLag:
    @pytest.fixture
    def stage(self, stage):
        stage.commit({("t", 0): 60, ("t", 1): 10, ("u", 0): 7})
        stage.topics.ends = {("t", 0): 100, ("t", 1): 9, ("t", 2): 50}
        return stage

    @pytest.mark.parametrize(
        ("places", "lag"),
        [
            ([("t", 0)], 40),
            ([("t", 1)], 0),  # the committed offset is beyond the log end
            ([("t", 0), ("t", 1)], 40),
            ([("t", 2)], None),  # the group has no committed offset
            ([("u", 0)], None),  # the log end of the partition is unknown
            ([("t", 0), ("t", 2), ("u", 0)], 40),
            ([], None),
        ],
    )
    def test_group_lag_counts_committed_partitions_with_known_log_end(self, stage, places, lag):
        assert stage.coordinator.lag_of(GROUP, places) == lag

    def test_lag_of_a_group_without_committed_offsets_is_unknown(self, stage):
        assert stage.coordinator.lag_of("other", [("t", 0)]) is None

    def test_lag_of_a_group_coordinated_elsewhere_is_unknown(self, stage):
        stage.unload()

        assert stage.coordinator.lag_of(GROUP, [("t", 0)]) is None
        assert stage.coordinator.committed(GROUP) is None
        assert stage.coordinator.groups_in_partition_of(GROUP) is None


def test_waiting_requests_of_the_coordinator_are_those_without_a_response(stage):
    (a, b), generation = stage.stable(2)
    assert list(waiting_requests(stage.coordinator)) == []
    stage.join(a)
    assert [type(request.message) for request in waiting_requests(stage.coordinator)] == [JoinGroupRequest]
    stage.join(b)

    stage.sync(b, generation + 1)

    (waiting,) = waiting_requests(stage.coordinator)
    assert isinstance(waiting.message, SyncGroupRequest)
    assert waiting.message.member_id == b


def test_timers_of_a_group_do_not_include_those_of_other_groups_in_its_partition():
    stage = CoordinatorStage(offsets_topic_num_partitions=1)
    (a,), _ = stage.stable(1, group="a")
    (b,), _ = stage.stable(1, group="b")

    assert stage.coordinator.timers_of("a") == [TimerKey("session", "a", a)]
    assert stage.coordinator.timers_of("b") == [TimerKey("session", "b", b)]
    assert stage.coordinator.timers_of("none") == []


def test_coordinator_is_active_for_a_consumer_offsets_partition_from_loading_until_unloading(stage):
    coordinator, partition = stage.coordinator, stage.coordinator.partition_of(GROUP)
    stage.unload()
    assert not coordinator.coordinates(partition)

    coordinator.start_loading(partition)
    assert coordinator.coordinates(partition)
    assert list(coordinator.all_groups()) == []
    coordinator.finish_loading(partition, stage.now)
    assert [at for at, _ in coordinator.all_groups()] == [partition]

    assert coordinator.unload(partition, stage.now) == []
    assert coordinator.unload(partition, stage.now) == [], "the partition was unloaded before"
    assert not coordinator.coordinates(partition)


def test_unloading_a_partition_during_its_loading_adds_no_journal_entry(stage):
    stage.stable(1)
    partition = stage.coordinator.partition_of(GROUP)
    stage.unload()
    assert [entry.group for entry in stage.coordinator.take_journal() if isinstance(entry, GroupUnloaded)] == [GROUP]
    stage.coordinator.start_loading(partition)

    assert stage.coordinator.unload(partition, stage.now) == []

    assert stage.coordinator.take_journal() == []
    assert stage.coordinator.wake_at_ms is None


def test_broker_stall_is_in_the_journal_entries_of_removed_silent_members(stage):
    (a,), _ = stage.stable(1)
    began_ms = stage.now + 1_000
    stage.clock.advance(9_500)
    stage.coordinator.note_stall(began_ms, stage.now)

    (note,) = stage.coordinator.take_notes()
    assert note.level is Level.WARNING
    assert note.text == "this broker stalled for 8.5 s: member sessions may have expired meanwhile"
    assert stage.coordinator.take_notes() == [], "the stall is logged once"
    stage.leave(a)
    vitals = stage.entries(MemberRemoved)[-1].vitals
    assert (vitals.stalled_ms, vitals.stalled_at_ms) == (8_500, began_ms)


def test_pushed_client_metrics_are_in_the_journal_entry_of_the_removed_member(stage):
    (a,), _ = stage.stable(1)
    words = MemberMetrics(at_ms=stage.now, longest_poll_gap_ms=400_000)
    stage.coordinator.add_client_metrics("c", ClientIdentity(a, "app", "/127.0.0.1"), words)

    stage.leave(a)

    assert stage.entries(MemberRemoved)[-1].vitals.client_metrics == words


def test_closed_connection_of_a_departed_member_is_journaled(stage):
    (a,), _ = stage.stable(1)
    stage.leave(a, connection=6)
    stage.advance(70)

    for connection in (5, 6, 6):
        stage.coordinator.connection_closed(connection, stage.now)
    stage.check()

    (entry,) = stage.entries(MemberDisconnected)
    assert (entry.member.member_id, entry.after_ms, entry.at_ms) == (a, 70, stage.now)


def test_journal_entry_from_the_broker_is_added_to_the_coordinators_journal(stage):
    entry = RoundDropped(at_ms=1, group=GROUP, error="X", generation=1)

    stage.coordinator.note(entry)

    assert stage.coordinator.take_journal() == [entry]
    assert stage.coordinator.take_journal() == []


def test_deleted_consumer_group_has_no_topic_search_timer():
    stage = CoordinatorStage(topics=Topics(**{f"t{number}": 1 for number in range(3_000)}))
    stage.come("m", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    stage.beat("m", -1)
    assert stage.coordinator.timers_of(GROUP) == [TimerKey("regex", GROUP)]

    stage.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)

    assert stage.coordinator.timers_of(GROUP) == []

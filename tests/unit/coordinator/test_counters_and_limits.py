"""Counters of the coordinator and limits: fenced requests, skipped records, topic searches, memory."""

import pytest

from kohort.coordinator.context import SearchTurns
from kohort.coordinator.journal import RoundOpened, parse_entry
from kohort.coordinator.journal_evidence import FencedCounters
from kohort.coordinator.memory_budget import Added, MemoryBudget, added_by_join, added_by_sync
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.replay import Skipped
from kohort.wire.messages.group_classic import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort_lab.sim.checks.group_invariants import InvariantBroken, check_state
from support.machines.coordinator_stage import GROUP

KIND = ("Heartbeat", "UNKNOWN_MEMBER_ID")


class TestRefusalsByGroup:
    def test_counters_of_fenced_requests_are_kept_for_10000_groups(self):
        counters = FencedCounters()
        for number in range(10_001):
            counters.refused(f"g{number}", *KIND)

        assert len(counters.by_group) == 10_000
        assert "g0" not in counters.by_group
        assert counters.by_group["g10000"] == {KIND: 1}
        assert counters.by_kind == {KIND: 10_001}

    def test_counters_of_fenced_requests_are_kept_for_4_mib_of_group_names(self):
        counters = FencedCounters()
        names = [f"{number:0>32768}" for number in range(130)]

        for name in names[:128]:
            counters.refused(name, *KIND)
        assert list(counters.by_group) == names[:128]
        for name in names[128:]:
            counters.refused(name, *KIND)

        assert list(counters.by_group) == names[2:]

    def test_deletion_of_a_group_removes_its_counter_of_fenced_requests(self):
        counters = FencedCounters()
        names = [f"{number:0>32768}" for number in range(256)]
        for name in names[:128]:
            counters.refused(name, *KIND)
        counters.keep(())
        assert counters.by_group == {}

        for name in names[128:]:
            counters.refused(name, *KIND)

        assert list(counters.by_group) == names[128:]

    def test_counters_of_fenced_requests_of_existing_groups_still_increase_at_the_limit(self):
        counters = FencedCounters()
        for _ in range(3):
            counters.refused("g", *KIND)

        assert counters.by_group == {"g": {KIND: 3}}


class TestSkippedRecords:
    def test_replay_without_skipped_records_gives_no_warning(self):
        assert Skipped().notes("log") == []

    @pytest.mark.parametrize(
        ("count", "words"),
        [
            (1, "1 unreadable records: no. 0"),
            (3, "3 unreadable records: no. 0; no. 1; no. 2"),
            (4, "4 unreadable records: no. 0; no. 1; no. 2; and 1 more"),
            (9, "9 unreadable records: no. 0; no. 1; no. 2; and 6 more"),
        ],
    )
    def test_warning_quotes_the_first_three_skipped_records(self, count, words):
        skipped = Skipped()
        for number in range(count):
            skipped.add(f"no. {number}")

        (note,) = skipped.notes("log")
        assert note.text == f"log: skipped {words}"

    def test_warning_about_skipped_records_is_cut_at_200_letters(self):
        skipped = Skipped()
        skipped.add("x" * 200 + "y")

        (note,) = skipped.notes("log")
        assert note.text.endswith(": " + "x" * 200)


class TestSearchTurns:
    def test_topic_search_of_another_group_waits_at_most_a_second_for_an_idle_search(self):
        turns = SearchTurns()
        assert turns.may_step("a", 5_000)

        assert not turns.may_step("b", 5_999)
        assert turns.may_step("b", 6_000)
        assert not turns.may_step("a", 6_001)

    def test_topic_searches_take_one_step_per_millisecond(self):
        turns = SearchTurns()
        assert turns.may_step("a", 5_000)
        assert not turns.may_step("a", 5_000)
        assert turns.may_step("a", 5_001)

        turns.done()
        assert not turns.may_step("b", 5_001)
        assert turns.may_step("b", 5_002)

    def test_first_topic_search_begins_at_once(self):
        assert SearchTurns().may_step("a", 0)

    def test_groups_that_wait_for_a_topic_search_have_different_retry_times(self):
        turns = SearchTurns()

        assert [turns.next_ms(now_ms) for now_ms in (100, 100, 100, 102, 200)] == [101, 102, 103, 104, 201]


class TestAcceptedGrowth:
    @pytest.mark.parametrize(("size", "added"), [(16_384, Added(0, 16_384 - 6)), (16_385, Added(16_385, 0))])
    def test_memory_limit_bounds_the_growth_of_member_metadata(self, stage, size, added):
        member_id = stage.answer(stage.join(version=3, protocols=(("r", b"12345"),))).member_id
        message = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            protocols=[JoinGroupRequestProtocol(name="r", metadata=bytes(size - 1))],
        )

        assert added_by_join(request_of(message), groups_of(stage)) == added

    @pytest.mark.parametrize(("size", "added"), [(16_384, Added(0, 16_384 - 5)), (16_385, Added(16_385, 0))])
    def test_memory_limit_bounds_the_growth_of_assignments(self, stage, size, added):
        member_id = stage.answer(stage.join(version=3)).member_id
        stage.sync(member_id, 1, {member_id: b"12345"})
        message = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(size))],
        )

        assert added_by_sync(request_of(message), groups_of(stage)) == added

    def test_memory_limit_counts_no_bytes_for_shrinking_member_metadata(self, stage):
        member_id = stage.answer(stage.join(version=3, protocols=(("r", b"12345"),))).member_id
        message = JoinGroupRequest(group_id=GROUP, member_id=member_id)

        assert added_by_join(request_of(message), groups_of(stage)) == Added()


def request_of(message):
    return GroupRequest(message, 5, "app", "/127.0.0.1", reply_to=1)


def groups_of(stage) -> Groups:
    groups = stage.coordinator.groups_in_partition_of(GROUP)
    assert groups is not None
    return groups


def test_memory_of_groups_is_measured_again_after_a_second():
    budget = MemoryBudget(10_000)
    assert budget.admit(Added(6_000), [], 0)
    assert budget.admit(Added(6_000), [], 5_000), "the measurement finds no groups"

    assert not budget.admit(Added(6_000), [], 5_999)
    assert budget.admit(Added(6_000), [], 6_000)
    assert budget.refused == 1


def test_invariant_check_fails_for_a_stable_group_without_members(stage):
    stage.stable(1)
    group = groups_of(stage).by_id[GROUP]
    members = dict(group.round.members)
    group.round.members.clear()

    with pytest.raises(InvariantBroken, match="no members"):
        check_state(group)
    group.round.members.update(members)


def test_journal_entry_field_leader_lost_defaults_to_false():
    entry = parse_entry(
        b'{"kind":"round_opened","at_ms":1,"group":"g","trigger":{"event":"sync_timeout"},'
        b'"from_generation":1,"members":[],"timeout_ms":1}'
    )

    assert isinstance(entry, RoundOpened)
    assert (entry.trigger.leader_lost, entry.trigger.others, entry.initial, entry.observed) == (False, (), False, False)

"""Coverage of consumer groups by the seeds in unreached_modern.txt; the list of gaps may only shrink."""

from pathlib import Path

import pytest

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from kohort.wire.messages.group_consumer import LEAVING_FOR_A_WHILE_EPOCH
from kohort_lab.sim.reach_modern import ModernReach, modern_entry_kinds, reachable_modern, reached_in_modern, recorded
from kohort_lab.sim.worlds.modern import run_modern

SEEDS, *UNREACHED = Path(__file__).with_name("unreached_modern.txt").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeds_reach_everything_of_consumer_groups_except_the_listed_gaps():
    reached = set()
    for seed in SEEDS.removeprefix("seeds").split():
        reached |= reached_in_modern(int(seed))

    assert [what for what in reachable_modern() if what not in reached] == UNREACHED, "take out what is reached by now"


def test_most_of_consumer_groups_is_reached():
    assert set(UNREACHED) < set(reachable_modern())
    assert len(UNREACHED) < len(reachable_modern()) / 3
    assert "epoch raised: revocation_timeout" not in UNREACHED
    assert not {"journal StaticAway", "journal StaticReplaced"} & set(UNREACHED)


def test_member_transitions_are_recorded_within_one_group_object():
    groups = [ModernGroup("g")]
    reach = ModernReach(lambda: groups[-1], lambda: ["member_session"])

    def has(group, current):
        group.members["m"] = ConsumerMember("m", ConsumerGroupMemberMetadataValue(), current)
        reach.look()

    reach.look()
    has(groups[-1], CurrentAssignment(1, state=ReconciliationState.STABLE))
    has(groups[-1], CurrentAssignment(1, state=ReconciliationState.UNREVOKED_PARTITIONS))
    groups.append(ModernGroup("g"))  # another broker is the coordinator
    has(groups[-1], CurrentAssignment(1, state=ReconciliationState.UNRELEASED_PARTITIONS))
    has(groups[-1], CurrentAssignment(LEAVING_FOR_A_WHILE_EPOCH, state=ReconciliationState.UNRELEASED_PARTITIONS))

    assert reach.reached == {
        "group Empty to Stable",
        "group Stable to Reconciling",
        "member STABLE to UNREVOKED_PARTITIONS",
        "member away in UNRELEASED_PARTITIONS",
        "timer member_session",
    }


def test_journal_entries_count_only_while_the_group_is_a_consumer_group():
    entries = [
        {"kind": "group_loaded"},
        {"kind": "round_opened", "trigger": {"event": "member_joined"}},
        {"kind": "group_converted", "to": "consumer"},
        {"kind": "epoch_raised", "cause": {"event": "member_left"}},
        {"kind": "group_loaded"},
        {"kind": "group_converted", "to": "classic"},
        {"kind": "round_opened", "trigger": {"event": "downgraded"}},
        {"kind": "group_unloaded"},
    ]

    assert list(modern_entry_kinds(entries)) == [
        "group converted to consumer",
        "journal EpochRaised",
        "epoch raised: member_left",
        "journal GroupLoaded",
        "group converted to classic",
        "round opened: downgraded",
    ]


def test_records_of_other_groups_are_ignored():
    run = run_modern(2)
    log = run.coordinator().state.topics.log(*run._groups_home)

    assert "record MemberWritten" in set(recorded(log, "g"))
    assert not list(recorded(log, "another"))

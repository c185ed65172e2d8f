"""Coverage of the coordinator by the seeds in unreached.txt; the list of gaps may only shrink."""

from pathlib import Path

import pytest

from kohort.wire.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort_lab.sim.reach import codes_in, reachable, reached_by, states_of

SEEDS, *UNREACHED = Path(__file__).with_name("unreached.txt").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeds_reach_everything_except_the_listed_gaps():
    reached = set()
    for seed in SEEDS.removeprefix("seeds").split():
        reached |= reached_by(int(seed))

    assert [what for what in reachable() if what not in reached] == UNREACHED, "take out what is reached by now"


def test_most_is_reached():
    assert set(UNREACHED) < set(reachable())
    assert len(UNREACHED) < len(reachable()) / 2


def test_error_codes_are_found_at_any_depth():
    partitions = [OffsetCommitResponsePartition(partition_index=0, error_code=25)]
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])

    assert list(codes_in(answer)) == [25]


def test_transitions_are_read_from_the_journal():
    entries = [
        {"kind": "round_opened"},
        {"kind": "round_closed", "members": [1]},
        {"kind": "assignment_written"},
        {"kind": "round_dropped"},
        {"kind": "round_opened"},
        {"kind": "round_closed"},
    ]

    assert list(states_of(entries)) == [
        "state Empty to PreparingRebalance",
        "state PreparingRebalance to CompletingRebalance",
        "state CompletingRebalance to Stable",
        "state PreparingRebalance to Empty",
    ]

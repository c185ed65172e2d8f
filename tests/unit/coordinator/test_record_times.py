"""Times of records: wall time on the log, ``now_ms`` in memory, whatever the wall clock was set to in between."""

import pytest

from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.records import (
    GroupWritten,
    OffsetCommitted,
    RegexResolved,
    TargetEpochWritten,
    build_record,
    moved_record,
    parse_record,
)
from kohort.coordinator.replay import Skipped, replay_log
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.messages.group_records import GroupMetadataValue, OffsetCommitValue

NOW_MS = 1_700_000_000_000
AHEAD_MS = 7_200_000
TIMED = [
    OffsetCommitted("g", "a", 0, OffsetCommitValue(offset=1, commit_timestamp=NOW_MS)),
    OffsetCommitted("g", "a", 0, OffsetCommitValue(offset=1, commit_timestamp=NOW_MS, expire_timestamp=NOW_MS + 5)),
    GroupWritten("g", GroupMetadataValue(current_state_timestamp=NOW_MS)),
    TargetEpochWritten("g", ConsumerGroupTargetAssignmentMetadataValue(assignment_timestamp=NOW_MS)),
    RegexResolved("g", "a.*", ConsumerGroupRegularExpressionValue(timestamp=NOW_MS)),
]
UNTIMED = [
    OffsetCommitted("g", "a", 0, None),
    GroupWritten("g", GroupMetadataValue(current_state_timestamp=-1)),
    TargetEpochWritten("g", ConsumerGroupTargetAssignmentMetadataValue()),
]


@pytest.mark.parametrize("record", TIMED)
def test_record_moved_to_wall_time_and_back_is_the_same(record):
    key, value = build_record(moved_record(record, AHEAD_MS))

    assert value != build_record(record)[1]
    assert moved_record(parse_record(key, value), -AHEAD_MS) == record


@pytest.mark.parametrize("record", UNTIMED)
def test_unset_time_of_a_record_is_not_moved(record):
    assert moved_record(record, AHEAD_MS) == record


def test_loaded_offsets_have_times_of_memory():
    log = [
        build_record(moved_record(OffsetCommitted("g", "a", p, OffsetCommitValue(commit_timestamp=NOW_MS)), AHEAD_MS))
        for p in range(3)
    ]
    groups = Groups()

    replay_log(groups, log, NOW_MS, Skipped(), AHEAD_MS)

    assert [value.commit_timestamp for _, _, value in groups.offsets["g"]] == [NOW_MS] * 3

"""Records of consumer groups. Their bytes equal Kafka's, and their replay restores the groups."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState, target_value_of, value_of
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.records import (
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    OffsetCommitted,
    OldMetadataRemoved,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
    build_record,
    parse_record,
)
from kohort.coordinator.replay import replay
from kohort.wire.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.messages.group_records import OffsetCommitValue

T = b"t" * 16
METADATA = ConsumerGroupMemberMetadataValue(
    instance_id="i", client_id="c", client_host="/h", subscribed_topic_names=["t"], server_assignor="uniform"
)
HAS_0_AND_1 = CurrentAssignment(3, 2, ReconciliationState.UNREVOKED_PARTITIONS, {T: {0: 2}}, {T: {1: 3}})
RECORDS = [
    EpochWritten("g", ConsumerGroupMetadataValue(epoch=3, metadata_hash=-7)),
    OldMetadataRemoved("g"),
    MemberWritten("g", "m", METADATA),
    MemberWritten(
        "g",
        "m",
        ConsumerGroupMemberMetadataValue(
            subscribed_topic_regex="a.*",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="range", metadata=b"x")]
            ),
        ),
    ),
    TargetEpochWritten("g", ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=9)),
    TargetWritten("g", "m", target_value_of({T: frozenset({2, 0})})),
    CurrentWritten("g", "m", value_of(HAS_0_AND_1)),
    RegexResolved("g", "a.*", ConsumerGroupRegularExpressionValue(topics=["ab"], version=1, timestamp=2)),
]


@pytest.mark.parametrize("record", RECORDS)
def test_consumer_group_record_and_tombstone_survive_a_round_trip(record):
    key, value = build_record(record)

    assert parse_record(key, value) == record
    assert parse_record(key, None) == record._replace(value=None)


def test_consumer_group_records_have_the_bytes_of_apache_kafka():
    epoch = EpochWritten("g", ConsumerGroupMetadataValue(epoch=2, metadata_hash=1))
    target = TargetEpochWritten("g", ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2))

    assert build_record(epoch) == (
        bytes.fromhex("0003 0001 67"),
        bytes.fromhex("0000 00000002 01 00 08 0000000000000001"),
    )
    assert build_record(target) == (bytes.fromhex("0006 0001 67"), bytes.fromhex("0000 00000002 00"))


def test_topic_metadata_record_that_brokers_before_4_1_wrote_is_skipped():
    key, _ = build_record(OldMetadataRemoved("g"))

    assert parse_record(key, b"\x00\x00\x01\x00") is None


def written(*records) -> Groups:
    groups = Groups()
    for record in records:
        replay(groups, record, 0)
    return groups


def test_replayed_member_owns_its_assigned_partitions_and_those_with_pending_revocation():
    group = written(MemberWritten("g", "m", METADATA), CurrentWritten("g", "m", value_of(HAS_0_AND_1))).consumer["g"]

    assert group.members["m"].current == HAS_0_AND_1
    assert group.owners == {(T, 0): "m", (T, 1): "m"}
    assert group.instances == {"i": "m"}
    assert group.subscribes_to("t")
    assert group.assignor_votes == {"uniform": 1}


def test_replay_of_member_tombstones_removes_the_state_of_the_members():
    groups = written(
        *RECORDS,
        CurrentWritten("g", "m", None),
        TargetWritten("g", "m", None),
        MemberWritten("g", "m", None),
        RegexResolved("g", "a.*", None),
    )
    group = groups.consumer["g"]

    assert (group.members, group.owners, group.instances, group.targets, group.regexes) == ({}, {}, {}, {}, {})
    assert (group.subscribers, group.regex_users, group.assignor_votes) == ({}, {}, {})
    assert group.classic_members == 0


def test_replay_of_a_compacted_log_accepts_an_assignment_before_its_member_metadata():
    group = written(CurrentWritten("g", "m", value_of(HAS_0_AND_1)), MemberWritten("g", "m", METADATA)).consumer["g"]

    assert group.members["m"].metadata == METADATA
    assert group.members["m"].current == HAS_0_AND_1


def test_replayed_partition_stays_with_its_new_owner_despite_a_later_record_of_the_previous_owner():
    other = CurrentAssignment(4, 3, ReconciliationState.STABLE, {T: {1: 4}})
    group = written(
        MemberWritten("g", "m", METADATA),
        MemberWritten("g", "n", ConsumerGroupMemberMetadataValue()),
        CurrentWritten("g", "m", value_of(HAS_0_AND_1)),
        CurrentWritten("g", "n", value_of(other)),
        CurrentWritten("g", "m", value_of(CurrentAssignment(4, 3, ReconciliationState.STABLE, {T: {0: 2}}))),
    ).consumer["g"]

    assert group.owners == {(T, 0): "m", (T, 1): "n"}


def test_tombstone_of_the_group_epoch_deletes_the_group_but_not_its_offsets():
    offset = OffsetCommitted("g", "t", 0, OffsetCommitValue(offset=5))
    groups = written(*RECORDS, offset, EpochWritten("g", None))

    assert not groups.consumer
    assert "g" in groups
    assert groups.by_id["g"].persisted is None
    assert groups.offsets["g"].get("t", 0) == offset.value


def test_replay_of_a_tombstone_for_a_missing_group_creates_no_group():
    records: Any = RECORDS
    assert "g" not in written(*(record._replace(value=None) for record in records))

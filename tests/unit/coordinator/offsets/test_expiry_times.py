"""Expiry times of committed offsets in each group state."""

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.round import Round
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.offsets.delete import has_expired
from kohort.coordinator.records import OffsetCommitted
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import CoordinatorStage

RETENTION_MS = 300_000
COMMITTED = OffsetCommitValue(offset=1, commit_timestamp=1_000)


def group(state_since_ms: int = 5_000, *members: MemberMetadata, protocol_type: str = "consumer") -> ClassicGroup:
    made = ClassicGroup("g", 0)
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=1,
        protocol="range" if members else None,
        leader=members[0].member_id if members else None,
        current_state_timestamp=state_since_ms,
        members=list(members),
    )
    made.round = Round.of(value, 0)
    return made


def member() -> MemberMetadata:
    return MemberMetadata(member_id="m", session_timeout=6_000, subscription=subscription("t"))


def moment(of: ClassicGroup, topic: str = "u", value: OffsetCommitValue = COMMITTED) -> int | None:
    moments = (0, 6_999, 7_000, 299_999, 300_000, 300_999, 301_000, 304_999, 305_000, 10**9)
    return next((now_ms for now_ms in moments if has_expired(of, topic, value, now_ms, RETENTION_MS)), None)


def test_retention_time_of_an_offset_of_a_group_without_members_counts_from_its_commit():
    assert moment(ClassicGroup("g", 5_000)) == 301_000


def test_retention_time_of_an_offset_counts_from_the_time_at_which_the_group_became_empty():
    assert moment(group(5_000)) == 305_000


def test_retention_time_of_an_offset_counts_from_its_commit_if_the_group_has_no_state_timestamp():
    assert moment(group(-1)) == 301_000


def test_retention_time_of_an_offset_counts_from_the_state_timestamp_even_if_it_is_0():
    assert moment(group(0), value=OffsetCommitValue(offset=1, commit_timestamp=5_000)) == 300_000


@pytest.mark.parametrize(("topic", "expected_ms"), [("t", None), ("u", 301_000)])
def test_offset_of_a_stable_group_expires_only_if_no_member_subscribes_to_its_topic(topic, expected_ms):
    assert moment(group(5_000, member()), topic) == expected_ms


def test_offset_does_not_expire_if_its_group_is_rebalancing_or_has_another_protocol_type():
    rebalances = group(5_000, member())
    rebalances.round.state = GroupState.PREPARING_REBALANCE

    assert moment(rebalances) is None
    assert moment(group(5_000, member(), protocol_type="connect")) is None
    assert moment(group(5_000, member(), protocol_type="")) is None


@pytest.mark.parametrize("of", [ClassicGroup("g", 5_000), group(5_000), group(5_000, member())])
def test_expiry_time_in_the_commit_takes_precedence_over_the_retention_time(of):
    value = OffsetCommitValue(offset=1, commit_timestamp=1_000, expire_timestamp=7_000)

    assert moment(of, "t", value) == 7_000


@pytest.mark.parametrize(("retention_ms", "remaining"), [(300_000, 0), (300_001, 1)])
def test_offset_expires_exactly_at_its_expiry_time(retention_ms, remaining):
    stage = CoordinatorStage(offsets_retention_check_interval_ms=300_000)
    stage.commit({("t", 0): 1}, version=4, retention_ms=retention_ms)

    stage.advance(300_000)

    last = [record for record in stage.records() if isinstance(record, OffsetCommitted)][-1]
    assert (last.value is not None) == bool(remaining)


def test_retention_time_of_an_offset_of_a_consumer_group_counts_from_its_commit():
    stage = CoordinatorStage(offsets_retention_minutes=5, offsets_retention_check_interval_ms=150_000)
    epoch = stage.come("m", "u").member_epoch

    def committed() -> list[int]:
        offsets = stage.coordinator.committed("g")
        return [] if offsets is None else sorted(partition for _, partition, _ in offsets)

    assert stage.commit({("t", 0): 1}, member_id="m", generation=epoch, version=9) == [0]
    stage.advance(1)
    assert stage.commit({("t", 1): 1}, member_id="m", generation=epoch, version=9) == [0]
    for _ in range(12):
        stage.advance(25_000)
        stage.beat("m", epoch)

    assert committed() == [1]


def test_retention_time_of_offsets_is_configured_in_minutes():
    stage = CoordinatorStage(offsets_retention_minutes=5, offsets_retention_check_interval_ms=300_000)
    stage.commit({("t", 0): 1})
    stage.advance(1)
    stage.commit({("t", 1): 1})

    stage.advance(299_999)

    offsets = stage.coordinator.committed("g")
    assert offsets is not None
    assert [partition for _, partition, _ in offsets] == [1]

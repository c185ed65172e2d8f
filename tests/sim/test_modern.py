"""Consumer groups and conversions: one owner per partition, increasing epochs, complete delivery, target assignment in
the calm.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_group_records import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from kohort.wire.messages.group_classic import SyncGroupRequest, SyncGroupResponse
from kohort.wire.messages.group_consumer import LEAVING_FOR_A_WHILE_EPOCH, ConsumerGroupHeartbeatRequest
from kohort_lab.sim.actors.forged_heartbeats import HeartbeatRecorder
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.epochs import Epochs
from kohort_lab.sim.checks.modern_changes import GroupChanges
from kohort_lab.sim.checks.modern_group import ModernGroupHolds
from kohort_lab.sim.checks.modern_owners import ModernOwners
from kohort_lab.sim.checks.revocations import Revocations
from kohort_lab.sim.reach import journal_of
from kohort_lab.sim.worlds.modern import run_modern

EVERY_RUN = range(13)
MORE = range(13, 121)
CHUNK = 12
EVER_FAILED = [int(line.split()[0]) for line in Path(__file__).with_name("modern.txt").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", MORE[::CHUNK])
def test_group_survives_conversions_and_faults_and_settles(first):
    for seed in range(first, first + CHUNK):
        run = run_modern(seed)

        assert run.producer.acknowledged, f"seed {seed}"


@pytest.mark.parametrize("seed", EVER_FAILED)
def test_formerly_failed_seed_passes(seed):
    assert run_modern(seed).producer.acknowledged


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_seeds_pass_and_reach_all_protocol_states():
    states, earlier, conversions = set(), 0, set()
    for seed in EVERY_RUN:
        run = run_modern(seed)
        assert run.producer.acknowledged, f"seed {seed}"
        states |= run.holds.states
        earlier += run.commits.earlier
        conversions |= {e["to"] for e in journal_of(run.coordinator())["g"] if e["kind"] == "group_converted"}

    assert states >= {"UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS", "MIXED"}
    assert earlier
    assert conversions == {"consumer", "classic"}


def test_decreasing_epoch_fails_except_after_a_conversion():
    stretch = [0]
    check = Epochs(lambda: None, lambda: stretch[0])
    check.check_goes_up("m", 5)

    check.check_epoch_was_sent("m", 5)
    with pytest.raises(CheckFailed, match="m receives epoch 4 after 5"):
        check.check_goes_up("m", 4)
    with pytest.raises(CheckFailed, match="with epoch 6 succeeds; the member received 5"):
        check.check_epoch_was_sent("m", 6)
    check.check_goes_up("m", 7)
    check.check_goes_up("m", 9)
    check.check_epoch_was_sent("m", 7)  # the response with epoch 9 may be lost
    with pytest.raises(CheckFailed, match="with epoch 5 succeeds; the member received 7, 9"):
        check.check_epoch_was_sent("m", 5)
    stretch[0] = 1
    check.check_goes_up("m", 4)


def test_target_assignments_keep_the_assignment_interval():
    check = ModernGroupHolds(lambda: None, lambda: 0, 1_000)
    check.check_target(1, 10_000)
    check.check_target(2, 11_000)

    with pytest.raises(CheckFailed, match="a target assignment follows after 999 ms"):
        check.check_target(3, 11_999)
    with pytest.raises(CheckFailed, match="the target assignment has epoch 1 after 2"):
        check.check_target(1, 20_000)


def test_owned_partitions_equal_the_coordinators_assignment():
    group = ModernGroup("g")
    group.members["m"] = ConsumerMember("m", ConsumerGroupMemberMetadataValue(), CurrentAssignment(epoch=3))
    check: Any = ModernOwners(lambda: group, lambda: None, lambda: 0)
    check._topics = object
    believer = SimpleNamespace(name="c0", member_id="m")

    with pytest.raises(CheckFailed, match=r"c0, a member with epoch .*, owns t-0, but the coordinator"):
        check.took(believer, 3, frozenset({TopicPartition("t", 0)}))
    check.revoked(believer, "lost", frozenset({TopicPartition("t", 0)}))
    check.check()


def test_ownership_is_checked_after_a_change_of_group_or_member_id():
    group = ModernGroup("g")
    group.members["m"] = ConsumerMember(
        "m", ConsumerGroupMemberMetadataValue(), CurrentAssignment(3, assigned={b"t": {0: 3}})
    )
    topics: Any = SimpleNamespace(by_id=lambda _: SimpleNamespace(name="t"))
    check = ModernOwners(lambda: group, lambda: topics, lambda: 0)
    believer = SimpleNamespace(name="c0", member_id="m")
    check.took(believer, 3, frozenset({TopicPartition("t", 0)}))
    check.look(moved=True)

    group.members["m"].current = CurrentAssignment(4)
    check.look(moved=False)  # no reported change
    with pytest.raises(CheckFailed, match=r"c0, a member with epoch .*, owns t-0"):
        check.look(moved=True)
    believer.member_id = "another"
    check.look(moved=False)
    believer.member_id = "m"
    with pytest.raises(CheckFailed, match=r"c0, a member with epoch .*, owns t-0"):
        check.look(moved=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda group: setattr(group, "epoch", 9),
        lambda group: setattr(group, "target_epoch", 9),
        lambda group: setattr(group, "target_at_ms", 9),
        lambda group: group.members.pop("n"),
        lambda group: group.members.update(o=group.members.pop("n")),
        lambda group: setattr(group.members["n"], "current", CurrentAssignment(epoch=4)),
        lambda group: setattr(group.members["n"], "metadata", ConsumerGroupMemberMetadataValue(instance_id="i")),
    ],
)
def test_each_change_of_a_group_is_detected_once(change):
    group = ModernGroup("g")
    group.members |= {
        m: ConsumerMember(m, ConsumerGroupMemberMetadataValue(), CurrentAssignment(epoch=3)) for m in ("m", "n")
    }
    changes = GroupChanges()

    assert changes.moved(group, 0)
    assert not changes.moved(group, 0)
    change(group)
    assert changes.moved(group, 0)
    assert not changes.moved(group, 0)


def test_new_coordinator_conversion_and_deletion_are_changes():
    group, copy = ModernGroup("g"), ModernGroup("g")
    changes = GroupChanges()

    changed = [changes.moved(*now) for now in [(None, 0), (group, 0), (group, 0), (copy, 0), (copy, 1), (None, 1)]]
    assert changed == [False, True, False, True, True, True]


def test_leftover_partitions_of_a_converted_member_are_skipped_until_sync():
    share, beside, new = (TopicPartition("t", n) for n in range(3))
    groups: list[Any] = [None]
    topics: Any = SimpleNamespace(by_id=lambda _: SimpleNamespace(name="t"))
    stretch = [0]
    check = ModernOwners(lambda: groups[0], lambda: topics, lambda: stretch[0])
    believer = SimpleNamespace(name="c0", member_id="m")
    check.took(believer, 3, frozenset({share, beside}))

    groups[0] = converted = ModernGroup("g")
    metadata = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata())
    converted.members["m"] = ConsumerMember("m", metadata, CurrentAssignment(epoch=3, assigned={b"t": {0: 3}}))
    stretch[0] = 1
    check.check()
    with pytest.raises(CheckFailed, match=r"c0, a member with epoch .*, owns t-2"):
        check.took(believer, 3, frozenset({share, beside, new}))
    check.took(believer, 3, frozenset({share, beside}))

    synced = SyncGroupRequest(member_id="m"), SyncGroupResponse()
    check.answered(SimpleNamespace(request=synced[0], answer=synced[1], error=0))
    with pytest.raises(CheckFailed, match=r"c0, a member with epoch .*, owns t-1"):
        check.took(believer, 4, frozenset({share, beside}))


def test_each_revocation_restarts_the_rebalance_timeout():
    group = ModernGroup("g")
    metadata = ConsumerGroupMemberMetadataValue(rebalance_timeout_ms=1_000)

    def add_revoking_member():
        current = CurrentAssignment(3, state=ReconciliationState.UNREVOKED_PARTITIONS, pending={b"t": {0: 3}})
        group.members["m"] = ConsumerMember("m", metadata, current)

    check = Revocations(lambda: group)
    add_revoking_member()
    check.check(0, 0, works=True)
    add_revoking_member()
    check.check(900, 900, works=True)
    check.check(1_900, 1_900, works=True)
    check.check(61_900, 2_000, works=True)  # the coordinator's clock jumped
    check.check(66_900, 7_000, works=False)  # the coordinator is frozen
    check.check(67_000, 7_100, works=True)
    with pytest.raises(CheckFailed, match="m has not revoked 1501 ms after its rebalance timeout"):
        check.check(68_501, 8_601, works=True)


def test_temporarily_left_static_member_keeps_its_place():
    group = ModernGroup("g")
    check = ModernGroupHolds(lambda: group, lambda: 0, 0)
    group.members["m"] = ConsumerMember(
        "m", ConsumerGroupMemberMetadataValue(), CurrentAssignment(epoch=LEAVING_FOR_A_WHILE_EPOCH)
    )

    check.check_away(group, "m", ErrorCode.NONE)
    check.check_away(group, "n", ErrorCode.UNKNOWN_MEMBER_ID)
    with pytest.raises(CheckFailed, match="n left temporarily, but has lost its place in the group"):
        check.check_away(group, "n", ErrorCode.NONE)


def test_member_heartbeats_are_recorded_without_leaves_and_forgeries():
    recorder = HeartbeatRecorder("admin")
    for client, epoch in (("c0", 0), ("c0", 4), ("admin", 9), ("c0", -1)):
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
        recorder.requested(SimpleNamespace(client=client, request=request))

    assert [message.member_epoch for message in recorder.of("m")] == [0, 4]
    assert recorder.of("nobody") == []

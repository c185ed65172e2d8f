"""Invariant checks of consumer groups. Each test starts with a valid group and violates one invariant."""

from collections.abc import Callable
from typing import Any

import pytest

from kohort.clock import Timers
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerPresence
from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.outcome import TimerKey
from kohort_lab.sim.checks.group_invariants import InvariantBroken, check_consumer_group
from support.machines.written_groups import T, epochs, member, resolved

PARTITION = 3
EXPIRES_MS = 1_000


class ValidGroup:
    def __init__(self) -> None:
        self.group = ModernGroup("g")
        self.timers: Timers[Any] = Timers()
        records = (
            *epochs(6),
            *member("m1", 5, {T: {0: 4}}, pending={T: {1: 5}}, instance_id="i"),
            *member("m2", 6, {T: {2: 6}}, names=(), regex="t.*"),
            *member("m3", 6, classic=True),
            *resolved({"t.*": ["t"]}),
        )
        for record in records:
            replay_consumer_group(self.group, record)
        for member_id in self.group.members:
            self.group.presence[member_id] = ConsumerPresence(expires_at_ms=EXPIRES_MS, last_seen_ms=0)
            self.timers.set((PARTITION, TimerKey("member_session", "g", member_id)), EXPIRES_MS)
        self.timers.set((PARTITION, TimerKey("revocation", "g", "m1")), EXPIRES_MS)

    def has(self, member_id: str, **changed: Any) -> None:
        one = self.group.members[member_id]
        one.current = one.current._replace(**changed)

    def check(self) -> None:
        check_consumer_group(self.group, PARTITION, self.timers)


def test_invariant_check_passes_for_a_valid_consumer_group():
    ValidGroup().check()


def says(member_id: str, **changed: Any) -> Callable[[ValidGroup], None]:
    def change(valid: ValidGroup) -> None:
        for name, value in changed.items():
            setattr(valid.group.members[member_id].metadata, name, value)

    return change


INDICES: dict[str, Callable[[ValidGroup], None]] = {
    "instances": lambda valid: valid.group.instances.update(i="m2"),
    "instances: ": lambda valid: valid.group.instances.clear(),
    "subscribers": lambda valid: valid.group.subscribers.update(["t"]),
    "subscribers: ": says("m1", subscribed_topic_names=["u"]),
    "regexes": lambda valid: valid.group.regex_users.update(["t.*"]),
    "regexes: ": says("m2", subscribed_topic_regex="u.*"),
    "matched": lambda valid: valid.group.matched.update(["t"]),
    "votes": lambda valid: valid.group.assignor_votes.update(["range"]),
    "votes: ": says("m1", server_assignor="range"),
    "classic members": lambda valid: setattr(valid.group, "classic_members", 2),
    "classic members: the index has 1": says("m3", classic_member_metadata=None),
}


@pytest.mark.parametrize(("index", "plant"), INDICES.items(), ids=INDICES.keys())
def test_invariant_check_fails_if_an_index_contradicts_the_records(index, plant):
    valid = ValidGroup()
    plant(valid)

    with pytest.raises(
        InvariantBroken, match=rf"^consumer group 'g' \(epoch 6\): {index}.*, the records of the members"
    ):
        valid.check()


def test_invariant_check_fails_for_a_partition_owner_without_assignment():
    valid = ValidGroup()
    valid.group.owners[T, 3] = "m3"

    with pytest.raises(InvariantBroken, match="the index of owners differs from the assignments"):
        valid.check()


def test_invariant_check_fails_for_a_partition_with_two_owners():
    valid = ValidGroup()
    valid.has("m2", assigned={T: {1: 6}})

    with pytest.raises(InvariantBroken, match=rf"\(epoch 6\): {T.hex()}-1 has two owners, one of them m2$"):
        valid.check()


def test_invariant_check_fails_for_a_target_epoch_above_the_group_epoch():
    valid = ValidGroup()
    valid.group.target_epoch = 7

    with pytest.raises(InvariantBroken, match="the target assignment has epoch 7"):
        valid.check()


def test_invariant_check_fails_for_a_member_epoch_above_the_target_epoch():
    valid = ValidGroup()
    valid.has("m3", epoch=7)

    with pytest.raises(InvariantBroken, match="m3 has epoch 7, above target epoch 6"):
        valid.check()


@pytest.mark.parametrize("epoch", [6, 7])
def test_invariant_check_fails_for_a_partition_epoch_above_the_member_epoch(epoch):
    valid = ValidGroup()
    valid.has("m1", pending={T: {1: epoch}})

    with pytest.raises(InvariantBroken, match="m1 has partitions with an epoch above its member epoch"):
        valid.check()


def test_invariant_check_fails_for_a_partition_epoch_above_0_of_an_absent_static_member():
    valid = ValidGroup()
    valid.has("m1", epoch=-2, assigned={T: {0: 0}}, pending={T: {1: 0}})
    valid.timers.cancel((PARTITION, TimerKey("revocation", "g", "m1")))
    valid.check()

    valid.has("m1", assigned={T: {0: 1}})
    with pytest.raises(InvariantBroken, match="m1 has partitions with an epoch above its member epoch"):
        valid.check()


@pytest.mark.parametrize("stranger", [True, False])
def test_invariant_check_fails_if_the_sessions_do_not_match_the_members(stranger):
    valid = ValidGroup()
    if stranger:
        valid.group.presence["m4"] = ConsumerPresence(expires_at_ms=EXPIRES_MS, last_seen_ms=0)
    else:
        del valid.group.presence["m2"]

    with pytest.raises(InvariantBroken, match="sessions of other member ids than its members"):
        valid.check()


@pytest.mark.parametrize("late", [True, False])
def test_invariant_check_fails_for_a_missing_or_late_session_timer(late):
    valid = ValidGroup()
    key = (PARTITION, TimerKey("member_session", "g", "m2"))
    valid.timers.set(key, EXPIRES_MS - 1)
    valid.check()
    if late:
        valid.timers.set(key, EXPIRES_MS + 1)
    else:
        valid.timers.cancel(key)

    with pytest.raises(InvariantBroken, match="session timer of m2 is missing or late"):
        valid.check()


def test_invariant_check_fails_for_a_revoking_member_without_timer():
    valid = ValidGroup()
    valid.timers.cancel((PARTITION, TimerKey("revocation", "g", "m1")))

    with pytest.raises(InvariantBroken, match="member m1 in state 1 has a revocation timer: False"):
        valid.check()


def test_invariant_check_fails_for_a_revocation_timer_of_a_stable_member():
    valid = ValidGroup()
    valid.timers.set((PARTITION, TimerKey("revocation", "g", "m2")), EXPIRES_MS)

    with pytest.raises(InvariantBroken, match="member m2 in state 0 has a revocation timer: True"):
        valid.check()


def test_invariant_check_passes_for_a_revoking_classic_member_without_revocation_timer():
    valid = ValidGroup()
    valid.has("m3", state=ReconciliationState.UNREVOKED_PARTITIONS)
    assert valid.group.members["m3"].current == CurrentAssignment(
        6, 0, ReconciliationState.UNREVOKED_PARTITIONS, {}, {}
    )

    valid.check()

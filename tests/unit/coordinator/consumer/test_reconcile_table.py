"""Reconciliation of a member's assignment: table of all cases (Kafka's CurrentAssignmentBuilder)."""

import pytest

from kohort.coordinator.consumer.reconcile import (
    CurrentAssignment,
    ReconciliationState,
    ReconciliationTarget,
    reconciled,
)

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED = ReconciliationState
BOTH = frozenset({T, U})


def at(epoch, previous, state, assigned=None, pending=None):
    return CurrentAssignment(epoch, previous, state, assigned or {}, pending or {})


def owned(epoch, *partitions):
    return {T: dict.fromkeys(partitions, epoch)}


def of_both(epoch):
    return {T: {1: epoch}, U: {0: epoch}}


def wants(epoch, *partitions, topics=BOTH, changed=False):
    return ReconciliationTarget(epoch, {T: frozenset(partitions)} if partitions else {}, topics, changed)


CASES = {
    "assignment equals the target": (at(5, 4, STABLE, owned(5, 1, 2)), wants(5, 1, 2), None, (), None),
    "new target epoch with equal partitions": (
        at(5, 4, STABLE, owned(5, 1)), wants(6, 1), None, (), at(6, 5, STABLE, owned(5, 1)),
    ),
    "unowned partition is assigned at once": (
        at(5, 4, STABLE, owned(5, 1)), wants(6, 1, 2), None, (), at(6, 5, STABLE, {T: {1: 5, 2: 6}}),
    ),
    "partition of another member is awaited": (
        at(5, 4, STABLE, owned(5, 1)), wants(6, 1, 2, 3), None, (2,), at(6, 5, UNRELEASED, {T: {1: 5, 3: 6}}),
    ),
    "all new partitions belong to other members": (
        at(5, 4, STABLE, owned(5, 1)), wants(6, 1, 2), None, (2,), at(6, 5, UNRELEASED, owned(5, 1)),
    ),
    "partition outside of the target must be revoked": (
        at(5, 4, STABLE, owned(5, 1, 2)), wants(6, 1), None, (),
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)),
    ),
    "partition outside of the target is not owned any more": (
        at(5, 4, STABLE, owned(5, 1, 2)), wants(6, 1), {T: [1]}, (), at(6, 5, STABLE, owned(5, 1)),
    ),
    "revocation precedes the assignment of new partitions": (
        at(5, 4, STABLE, owned(5, 1, 2)), wants(6, 1, 3), None, (),
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)),
    ),
    "heartbeat without owned partitions keeps the revocation pending": (
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)), wants(6, 1), None, (), None,
    ),
    "member still owns the partition that it must revoke": (
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)), wants(6, 1), {T: [1, 2]}, (), None,
    ),
    "member has revoked its partition": (
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)), wants(6, 1), {T: [1]}, (), at(6, 5, STABLE, owned(5, 1)),
    ),
    "newer target requires another revocation": (
        at(5, 5, UNREVOKED, owned(5, 1, 3), owned(5, 2)), wants(8, 1), {T: [1, 3]}, (),
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 3)),
    ),
    "member has revoked its partition for the current target": (
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)), wants(5, 1), {T: [1]}, (), at(5, 5, STABLE, owned(5, 1)),
    ),
    "newer target returns the revoked partition": (
        at(5, 5, UNREVOKED, owned(5, 1), owned(5, 2)), wants(7, 1, 2), {T: [1]}, (2,),
        at(7, 5, STABLE, {T: {1: 5, 2: 7}}),
    ),
    "awaited partition still has another owner": (
        at(6, 6, UNRELEASED, owned(5, 1)), wants(6, 1, 2), None, (2,), None,
    ),
    "awaited partition became unowned": (
        at(6, 5, UNRELEASED, owned(5, 1)), wants(6, 1, 2), None, (), at(6, 6, STABLE, {T: {1: 5, 2: 6}}),
    ),
    "newer target revokes a partition of an awaiting member": (
        at(6, 5, UNRELEASED, owned(5, 1)), wants(7, 2), None, (2,), at(6, 6, UNREVOKED, {}, owned(5, 1)),
    ),
    "unsubscribed topic is revoked": (
        at(5, 4, STABLE, owned(5, 1)), wants(5, 1, topics={U}, changed=True), None, (),
        at(5, 5, UNREVOKED, {}, owned(5, 1)),
    ),
    "unsubscribed topic is not owned any more": (
        at(5, 4, STABLE, owned(5, 1)), wants(5, 1, topics={U}, changed=True), {}, (), at(5, 5, STABLE),
    ),
    "member without partitions unsubscribes from all topics": (
        at(5, 4, STABLE),
        ReconciliationTarget(5, {}, frozenset(), subscription_changed=True, subscribes_to_nothing=True), None, (),
        at(5, 5, STABLE),
    ),
    "member without partitions subscribes to a missing topic": (
        at(5, 4, STABLE), ReconciliationTarget(5, {}, frozenset(), subscription_changed=True), None, (), None,
    ),
    "unsubscribed topic of the target is not assigned": (
        at(4, 4, STABLE), wants(5, 1, topics={U}), None, (), at(5, 4, STABLE),
    ),
    "one of two topics is unsubscribed": (
        at(5, 4, STABLE, of_both(5)), wants(5, 1, topics={T}, changed=True), {T: [1], U: [0]}, (),
        at(5, 5, UNREVOKED, owned(5, 1), {U: {0: 5}}),
    ),
    "one of two topics is unsubscribed and not owned any more": (
        at(5, 4, STABLE, of_both(5)), wants(5, 1, topics={T}, changed=True), {T: [1]}, (),
        at(5, 5, STABLE, owned(5, 1)),
    ),
    "topic unsubscribed by an earlier heartbeat changes nothing": (
        at(5, 4, STABLE, of_both(5)), wants(5, 1, topics={T}), {T: [1], U: [0]}, (), None,
    ),
    "other topic is unsubscribed during a revocation": (
        at(5, 5, UNREVOKED, of_both(5), owned(4, 2)), wants(6, 1, topics={T}, changed=True), None, (),
        at(5, 5, UNREVOKED, owned(5, 1), {T: {2: 4}, U: {0: 5}}),
    ),
    "topic of the pending revocation is unsubscribed": (
        at(5, 4, UNREVOKED, of_both(5), owned(4, 2)), wants(6, topics={U}, changed=True), {T: [2]}, (),
        at(5, 5, UNREVOKED, {U: {0: 5}}, {T: {1: 5, 2: 4}}),
    ),
    "topic was unsubscribed before the pending revocation": (
        at(5, 5, UNREVOKED, of_both(5), owned(4, 2)), wants(6, 1, topics={T}), None, (), None,
    ),
    "member unsubscribes from all topics during a revocation": (
        at(5, 4, UNREVOKED, {}, owned(4, 2)),
        ReconciliationTarget(6, {}, frozenset(), subscription_changed=True, subscribes_to_nothing=True),
        None, (), None,
    ),
    "member still owns some of the partitions to revoke": (
        at(5, 4, STABLE, of_both(5)), wants(6), {U: [0]}, (), at(5, 5, UNREVOKED, {}, of_both(5)),
    ),
    "other members own partitions of one of two topics": (
        at(5, 4, STABLE), ReconciliationTarget(6, {T: frozenset({1, 2}), U: frozenset({3})}, BOTH), None, (1, 2),
        at(6, 5, UNRELEASED, {U: {3: 6}}),
    ),
    "added topic waits for the next target": (
        at(5, 4, STABLE, owned(5, 1)), wants(5, 1, changed=True), None, (), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "goal", "owned", "taken", "after"), CASES.values(), ids=CASES.keys())
def test_reconciliation_step_returns_the_next_assignment_of_the_member(before, goal, owned, taken, after):
    now = reconciled(before, goal, owned, lambda topic, partition: topic == U or partition not in taken)

    if after is None:
        assert now is before
    else:
        assert now == after

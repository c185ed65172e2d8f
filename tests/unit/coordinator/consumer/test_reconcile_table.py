"""Table of all reconciliation steps of a member (Kafka's CurrentAssignmentBuilder)."""

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


def held(epoch, *partitions):
    return {T: dict.fromkeys(partitions, epoch)}


def of_both(epoch):
    return {T: {1: epoch}, U: {0: epoch}}


def wants(epoch, *partitions, topics=BOTH, changed=False):
    return ReconciliationTarget(epoch, {T: frozenset(partitions)} if partitions else {}, topics, changed)


CASES = {
    "at the target": (at(5, 4, STABLE, held(5, 1, 2)), wants(5, 1, 2), None, (), None),
    "a new epoch, nothing else": (
        at(5, 4, STABLE, held(5, 1)), wants(6, 1), None, (), at(6, 5, STABLE, held(5, 1)),
    ),
    "free partitions are given at once": (
        at(5, 4, STABLE, held(5, 1)), wants(6, 1, 2), None, (), at(6, 5, STABLE, {T: {1: 5, 2: 6}}),
    ),
    "what others have is waited for": (
        at(5, 4, STABLE, held(5, 1)), wants(6, 1, 2, 3), None, (2,), at(6, 5, UNRELEASED, {T: {1: 5, 3: 6}}),
    ),
    "all of it is others'": (
        at(5, 4, STABLE, held(5, 1)), wants(6, 1, 2), None, (2,), at(6, 5, UNRELEASED, held(5, 1)),
    ),
    "something is to be revoked": (
        at(5, 4, STABLE, held(5, 1, 2)), wants(6, 1), None, (),
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)),
    ),
    "it is revoked already": (
        at(5, 4, STABLE, held(5, 1, 2)), wants(6, 1), {T: [1]}, (), at(6, 5, STABLE, held(5, 1)),
    ),
    "first it revokes, then it is given": (
        at(5, 4, STABLE, held(5, 1, 2)), wants(6, 1, 3), None, (),
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)),
    ),
    "it does not say what it owns": (
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)), wants(6, 1), None, (), None,
    ),
    "it still owns what it is to revoke": (
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)), wants(6, 1), {T: [1, 2]}, (), None,
    ),
    "it has revoked": (
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)), wants(6, 1), {T: [1]}, (), at(6, 5, STABLE, held(5, 1)),
    ),
    "it has revoked, and there is more": (
        at(5, 5, UNREVOKED, held(5, 1, 3), held(5, 2)), wants(8, 1), {T: [1, 3]}, (),
        at(5, 5, UNREVOKED, held(5, 1), held(5, 3)),
    ),
    "it has revoked, with no newer target": (
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)), wants(5, 1), {T: [1]}, (), at(5, 5, STABLE, held(5, 1)),
    ),
    "it is to have again what it was to revoke": (
        at(5, 5, UNREVOKED, held(5, 1), held(5, 2)), wants(7, 1, 2), {T: [1]}, (2,),
        at(7, 5, STABLE, {T: {1: 5, 2: 7}}),
    ),
    "it still waits": (
        at(6, 6, UNRELEASED, held(5, 1)), wants(6, 1, 2), None, (2,), None,
    ),
    "another has let go": (
        at(6, 5, UNRELEASED, held(5, 1)), wants(6, 1, 2), None, (), at(6, 6, STABLE, {T: {1: 5, 2: 6}}),
    ),
    "it waits, and is to revoke for a newer target": (
        at(6, 5, UNRELEASED, held(5, 1)), wants(7, 2), None, (2,), at(6, 6, UNREVOKED, {}, held(5, 1)),
    ),
    "it does not subscribe any more to what it has": (
        at(5, 4, STABLE, held(5, 1)), wants(5, 1, topics={U}, changed=True), None, (),
        at(5, 5, UNREVOKED, {}, held(5, 1)),
    ),
    "it does not subscribe any more, and owns nothing": (
        at(5, 4, STABLE, held(5, 1)), wants(5, 1, topics={U}, changed=True), {}, (), at(5, 5, STABLE),
    ),
    "it subscribes to nothing any more, and has nothing": (
        at(5, 4, STABLE),
        ReconciliationTarget(5, {}, frozenset(), subscription_changed=True, subscribes_to_nothing=True), None, (),
        at(5, 5, STABLE),
    ),
    "it subscribes to what there is not, and has nothing": (
        at(5, 4, STABLE), ReconciliationTarget(5, {}, frozenset(), subscription_changed=True), None, (), None,
    ),
    "an unsubscribed topic in an older target is not given": (
        at(4, 4, STABLE), wants(5, 1, topics={U}), None, (), at(5, 4, STABLE),
    ),
    "of two topics it does not subscribe any more to one": (
        at(5, 4, STABLE, of_both(5)), wants(5, 1, topics={T}, changed=True), {T: [1], U: [0]}, (),
        at(5, 5, UNREVOKED, held(5, 1), {U: {0: 5}}),
    ),
    "of two topics it does not subscribe any more to one, which it has given up": (
        at(5, 4, STABLE, of_both(5)), wants(5, 1, topics={T}, changed=True), {T: [1]}, (),
        at(5, 5, STABLE, held(5, 1)),
    ),
    "of two topics an older subscription had one": (
        at(5, 4, STABLE, of_both(5)), wants(5, 1, topics={T}), {T: [1], U: [0]}, (), None,
    ),
    "it gives something up, and does not subscribe any more to the rest": (
        at(5, 5, UNREVOKED, of_both(5), held(4, 2)), wants(6, 1, topics={T}, changed=True), None, (),
        at(5, 5, UNREVOKED, held(5, 1), {T: {2: 4}, U: {0: 5}}),
    ),
    "it gives something up, and does not subscribe any more to the topic of it": (
        at(5, 4, UNREVOKED, of_both(5), held(4, 2)), wants(6, topics={U}, changed=True), {T: [2]}, (),
        at(5, 5, UNREVOKED, {U: {0: 5}}, {T: {1: 5, 2: 4}}),
    ),
    "it gives something up, and has said before what it does not subscribe to": (
        at(5, 5, UNREVOKED, of_both(5), held(4, 2)), wants(6, 1, topics={T}), None, (), None,
    ),
    "it gives something up, and subscribes to nothing any more": (
        at(5, 4, UNREVOKED, {}, held(4, 2)),
        ReconciliationTarget(6, {}, frozenset(), subscription_changed=True, subscribes_to_nothing=True),
        None, (), None,
    ),
    "of what it is to revoke it has some": (
        at(5, 4, STABLE, of_both(5)), wants(6), {U: [0]}, (), at(5, 5, UNREVOKED, {}, of_both(5)),
    ),
    "others have some of both topics": (
        at(5, 4, STABLE), ReconciliationTarget(6, {T: frozenset({1, 2}), U: frozenset({3})}, BOTH), None, (1, 2),
        at(6, 5, UNRELEASED, {U: {3: 6}}),
    ),
    "a subscription that grew changes nothing yet": (
        at(5, 4, STABLE, held(5, 1)), wants(5, 1, changed=True), None, (), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "goal", "owned", "taken", "after"), CASES.values(), ids=CASES.keys())
def test_reconciliation_step_returns_the_next_assignment_of_the_member(before, goal, owned, taken, after):
    now = reconciled(before, goal, owned, lambda topic, partition: topic == U or partition not in taken)

    if after is None:
        assert now is before
    else:
        assert now == after

"""Journal entries of consumer groups: epochs, target assignments, reconciliation, refused requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from kohort.coordinator.classic.evidence import NO_COMMIT, RefusedOffsets, RefusingGroup, note_refusal
from kohort.coordinator.consumer.group import ComputedTarget, ModernGroup
from kohort.coordinator.consumer.group_epoch import RaisedEpoch, note_epoch
from kohort.coordinator.consumer.member import Beat, identity_of
from kohort.coordinator.consumer.reconcile import (
    NO_PARTITIONS,
    AssignedPartitions,
    CurrentAssignment,
    ReconciliationState,
    ReconciliationTarget,
    Target,
)
from kohort.coordinator.context import Context
from kohort.coordinator.journal import (
    AwaitedPartition,
    ClientIdentity,
    GivenPartition,
    MemberReconciled,
    StaticReplaced,
    TargetComputed,
)
from kohort.coordinator.outcome import GroupRequest, Outcome, TopicsView
from kohort.errors import ApiError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE

STATE_NAMES: dict[ReconciliationState, Literal["stable", "unrevoked_partitions", "unreleased_partitions"]] = {
    ReconciliationState.STABLE: "stable",
    ReconciliationState.UNREVOKED_PARTITIONS: "unrevoked_partitions",
    ReconciliationState.UNRELEASED_PARTITIONS: "unreleased_partitions",
}


def note_member(group: ModernGroup, beat: Beat, raised: RaisedEpoch | None, ctx: Context, out: Outcome) -> None:
    """Journal the effects of a heartbeat: a static member rejoined, or the group epoch rose."""
    arrival = beat.arrival
    if arrival.replaces is not None:
        old = arrival.replaces
        replaced = StaticReplaced(
            at_ms=ctx.now_ms,
            group=group.group_id,
            member=identity_of(arrival.member_id, old.metadata),
            old_member_id=old.member_id,
            software=beat.software,
        )
        out.journal.append(replaced)
    if raised is not None:
        cause = raised.cause
        if cause.member is not None and beat.software is not None:
            cause = msgspec.structs.replace(cause, software=beat.software)
        note_epoch(group, raised.epoch, cause, len(group.members) + (arrival.metadata is None), ctx, out)


def target_computed(group: ModernGroup, computed: ComputedTarget, ctx: Context) -> TargetComputed:
    raised_ms = group.volatile.epoch_raised_ms
    return TargetComputed(
        at_ms=ctx.now_ms,
        group=group.group_id,
        epoch=computed.epoch,
        assignor=computed.assignor,
        moves=computed.moves,
        members=len(computed.targets),
        after_ms=None if raised_ms is None else ctx.now_ms - raised_ms,
    )


def note_reconciled(
    group: ModernGroup,
    who: ClientIdentity,
    before: CurrentAssignment,
    after: CurrentAssignment,
    reconciliation: ReconciliationTarget,
    ctx: Context,
) -> MemberReconciled:
    """Build the journal entry about a member's reconciliation at one heartbeat.

    Also record the time at which the member's revocations began.
    """
    volatile, now_ms = group.volatile, ctx.now_ms
    held_before, held_after = set(places(before)), set(places(after))
    revoked = held_before - held_after
    since_ms = volatile.revoking_since_ms.get(who.member_id)
    if after.pending:
        volatile.revoking_since_ms.setdefault(who.member_id, now_ms)
    else:
        volatile.revoking_since_ms.pop(who.member_id, None)
    for place in revoked:
        volatile.released_ms[place] = now_ms
    given = []
    for place in sorted(held_after - held_before):
        released_ms = volatile.released_ms.pop(place, None)
        unowned_ms = None if released_ms is None else now_ms - released_ms
        given.append(GivenPartition(_name(place[0], ctx.topics), place[1], unowned_ms))
    return MemberReconciled(
        at_ms=now_ms,
        group=group.group_id,
        member=who,
        epoch=after.epoch,
        from_epoch=before.epoch,
        target_epoch=reconciliation.epoch,
        state=STATE_NAMES[after.state],
        revoking=by_name(_flat(after.pending), ctx.topics),
        revoked=by_name(revoked, ctx.topics),
        revoked_after_ms=None if since_ms is None or not revoked else now_ms - since_ms,
        given=tuple(given),
        awaited=_awaited(group, who.member_id, after, reconciliation.target, ctx.topics),
    )


def _awaited(
    group: ModernGroup, member_id: str, after: CurrentAssignment, target: Target, topics: TopicsView
) -> tuple[AwaitedPartition, ...]:
    if after.state is not ReconciliationState.UNRELEASED_PARTITIONS:
        return ()
    return tuple(
        AwaitedPartition(_name(topic, topics), partition, owner)
        for topic, partitions in target.items()
        for partition in sorted(partitions - after.assigned.get(topic, NO_PARTITIONS).keys())
        if (owner := group.owners.get((topic, partition))) is not None and owner != member_id
    )


def by_name(places: Iterable[tuple[bytes, int]], topics: TopicsView) -> dict[str, tuple[int, ...]]:
    """Return partitions as a dict: topic name -> partition numbers.

    The key of a deleted topic is its id in hexadecimal.
    """
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(_name(topic, topics), []).append(partition)
    return {name: tuple(partitions) for name, partitions in found.items()}


def places(current: CurrentAssignment) -> Iterable[tuple[bytes, int]]:
    return ((topic, partition) for topic, partition, _ in current.partitions())


def _flat(held: AssignedPartitions) -> Iterable[tuple[bytes, int]]:
    return ((topic, partition) for topic, partitions in held.items() for partition in partitions)


def _name(topic: bytes, topics: TopicsView) -> str:
    return topics.topic_name(topic) or topic.hex()


def note_fenced_in_consumer_group(
    group: ModernGroup,
    request: GroupRequest,
    error: ApiError,
    ctx: Context,
    out: Outcome,
    tried: RefusedOffsets = NO_COMMIT,
) -> None:
    volatile = group.volatile
    if volatile.fenced_in_epoch != group.epoch:
        volatile.fenced_in_epoch = group.epoch
        volatile.fenced.clear()
    member = group.members.get(getattr(request.message, "member_id", ""))
    current = group.epoch if member is None else member.epoch
    accepted = (name for name, count in group.classic_protocols.items() if count == group.classic_members)
    refusing = RefusingGroup(group.group_id, volatile.fenced, len(group.members), current, PROTOCOL_TYPE, accepted)
    note_refusal(refusing, request, error.code, ctx, out, tried)

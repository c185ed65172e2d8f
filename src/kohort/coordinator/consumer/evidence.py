"""What the journal says of a heartbeat: who came nearer to the target, and what that waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kohort.coordinator.consumer.assignment import NOTHING, Current, Held, ReconciliationState, Target
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.context import Context
from kohort.coordinator.journal import AwaitedPartition, GivenPartition, MemberReconciled, Who
from kohort.coordinator.outcome import TopicsView

STATE_NAMES: dict[ReconciliationState, Literal["stable", "unrevoked_partitions", "unreleased_partitions"]] = {
    ReconciliationState.STABLE: "stable",
    ReconciliationState.UNREVOKED_PARTITIONS: "unrevoked_partitions",
    ReconciliationState.UNRELEASED_PARTITIONS: "unreleased_partitions",
}


def note_reconciled(
    group: ModernGroup, who: Who, before: Current, after: Current, goal: tuple[int, Target], ctx: Context
) -> MemberReconciled:
    """Return the entry for a member that came from ``before`` to ``after`` on its way to ``goal`` (epoch, target), and
    remember since when it revokes, and since when nobody has what it let go of."""
    soft, now_ms = group.soft, ctx.now_ms
    held_before, held_after = set(places(before)), set(places(after))
    revoked = held_before - held_after
    since_ms = soft.revoking_since_ms.get(who.member_id)
    if after.pending:
        soft.revoking_since_ms.setdefault(who.member_id, now_ms)
    else:
        soft.revoking_since_ms.pop(who.member_id, None)
    for place in revoked:
        soft.released_ms[place] = now_ms
    given = []
    for place in sorted(held_after - held_before):
        released_ms = soft.released_ms.pop(place, None)
        unowned_ms = None if released_ms is None else now_ms - released_ms
        given.append(GivenPartition(_name(place[0], ctx.topics), place[1], unowned_ms))
    return MemberReconciled(
        at_ms=now_ms,
        group=group.group_id,
        who=who,
        epoch=after.epoch,
        from_epoch=before.epoch,
        target_epoch=goal[0],
        state=STATE_NAMES[after.state],
        revoking=by_name(_flat(after.pending), ctx.topics),
        revoked=by_name(revoked, ctx.topics),
        revoked_after_ms=None if since_ms is None or not revoked else now_ms - since_ms,
        given=tuple(given),
        awaited=_awaited(group, who.member_id, after, goal[1], ctx.topics),
    )


def _awaited(
    group: ModernGroup, member_id: str, after: Current, target: Target, topics: TopicsView
) -> tuple[AwaitedPartition, ...]:
    if after.state is not ReconciliationState.UNRELEASED_PARTITIONS:
        return ()
    found = []
    for topic, partitions in target.items():
        for partition in sorted(partitions - after.assigned.get(topic, NOTHING).keys()):
            owner = group.owners.get((topic, partition))
            if owner is not None and owner != member_id:
                found.append(AwaitedPartition(_name(topic, topics), partition, owner))
    return tuple(found)


def by_name(places: Iterable[tuple[bytes, int]], topics: TopicsView) -> dict[str, tuple[int, ...]]:
    """Return partitions by the names of their topics; a topic that is gone is told by its id, in hexadecimal."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(_name(topic, topics), []).append(partition)
    return {name: tuple(partitions) for name, partitions in found.items()}


def places(current: Current) -> Iterable[tuple[bytes, int]]:
    """Yield topic id and partition of everything that nobody else may be given."""
    return ((topic, partition) for topic, partition, _ in current.held())


def _flat(held: Held) -> Iterable[tuple[bytes, int]]:
    return ((topic, partition) for topic, partitions in held.items() for partition in partitions)


def _name(topic: bytes, topics: TopicsView) -> str:
    return topics.topic_name(topic) or topic.hex()

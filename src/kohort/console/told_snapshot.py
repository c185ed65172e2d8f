"""A group as its journal tells of it at a time: members and what they have, no offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kohort.coordinator.journal import GroupDeleted, JournalEntry
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.findings.timeline import find_timeline
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.findings.timeline import LaneFinding

NO_OFFSETS: Final = "the journal tells no offsets"
UNDER_WAY: Final = ("open", "assigning", "reconciling")


def told_snapshot(
    group: str, entries: Sequence[JournalEntry], at_ms: int
) -> tuple[GroupSnapshot, list[RebalanceFinding]] | None:
    """Return the group at a time, and its rebalances until then; None where the journal tells of none then."""
    until = [entry for entry in entries if entry.at_ms <= at_ms]
    if not until:
        return None
    rebalances = find_rebalances(until)
    last = next((this for this in reversed(rebalances) if this.end != "no_rebalance"), None)
    lanes = find_timeline(until, group=group, from_ms=until[0].at_ms, until_ms=at_ms).lanes
    members = tuple(m for lane in lanes if (m := _member(lane, last)) is not None)
    protocol = "classic" if last is None else last.protocol
    state = "Stable" if members else "Empty"
    if last is not None and last.end in UNDER_WAY:
        state = "PreparingRebalance" if protocol == "classic" else "Reconciling"
    if isinstance(until[-1], GroupDeleted):  # what became of it can still be looked at
        members, state = (), "Dead"
    places = sorted({tp for member in members for tp in member.assignment})
    snapshot = GroupSnapshot(
        at_ms=at_ms,
        group=group,
        state=state,
        protocol=protocol,
        assignor=None if last is None else last.assignor,
        epoch=None if last is None or protocol == "classic" else last.generation,
        members=members,
        partitions=tuple(PartitionSnapshot(partition=tp, error=NO_OFFSETS) for tp in places),
        error=NO_OFFSETS,
        partition_counts=_counts(places),
    )
    return snapshot, rebalances


def _member(lane: LaneFinding, last: RebalanceFinding | None) -> MemberSnapshot | None:
    if not lane.spells or lane.spells[-1].until_ms is not None:
        return None
    places = tuple(_place(text) for text in lane.spells[-1].partitions)
    return MemberSnapshot(
        member_id=lane.who.member_id,
        client_id=lane.who.client_id,
        host=lane.who.host,
        instance_id=lane.who.instance_id,
        topics=tuple(sorted({tp.topic for tp in places})),
        assignment=tuple(sorted(places)),
        protocol="classic" if last is None else last.protocol,
    )


def _place(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _counts(places: Sequence[TopicPartition]) -> dict[str, int]:
    """Return how many partitions topics have at least: the journal names those that somebody has."""
    found: dict[str, int] = {}
    for tp in places:
        found[tp.topic] = max(found.get(tp.topic, 0), tp.partition + 1)
    return found

"""Who owns which partitions in a written generation, and what moved between two of them: evidence for the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.coordinator.journal import Move
from kohort.errors import ProtocolError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment
from kohort.wire.messages.group_records import GroupMetadataValue

Owners = dict[str, dict[str, tuple[int, ...]]]
"""Member id to topic to partitions."""


def owners_of(written: GroupMetadataValue | None) -> Owners | None:
    """Return the assignment of every member, or None if the group is not one of consumers or a blob cannot be read."""
    if written is None:
        return {}
    if written.protocol_type != PROTOCOL_TYPE:
        return None if written.members else {}
    try:
        return {m.member_id: _by_topic(m.assignment) for m in written.members}
    except ProtocolError:
        return None


def places_in(assignment: bytes) -> Iterable[tuple[str, int]]:
    """Return topic and partition of what a member was given; nothing where that cannot be read."""
    try:
        return [(p.topic, p.partition) for p in parse_assignment(assignment).partitions] if assignment else []
    except ProtocolError:
        return []


def _by_topic(blob: bytes) -> dict[str, tuple[int, ...]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in parse_assignment(blob).partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {topic: tuple(sorted(partitions)) for topic, partitions in sorted(by_topic.items())}


def moves_between(before: Owners | None, after: Owners | None) -> tuple[Move, ...]:
    """Return every partition whose owner changed, in order; nothing if either side is not known."""
    if before is None or after is None:
        return ()
    was, now = _owner_by_partition(before), _owner_by_partition(after)
    changed = [at for at in was.keys() | now.keys() if was.get(at) != now.get(at)]
    return tuple(Move(topic, p, was.get((topic, p)), now.get((topic, p))) for topic, p in sorted(changed))


def _owner_by_partition(owners: Mapping[str, Mapping[str, tuple[int, ...]]]) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): member_id
        for member_id, by_topic in owners.items()
        for topic, partitions in by_topic.items()
        for partition in partitions
    }

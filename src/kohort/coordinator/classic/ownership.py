"""Who owns which partitions in a written generation, and what moved between two of them: evidence for the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kohort.coordinator.journal import Move
from kohort.errors import ProtocolError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_partitions_by_topic
from kohort.wire.messages.group_records import GroupMetadataValue

Owners = dict[str, dict[str, tuple[int, ...]]]
"""Member id to topic to partitions."""
EVIDENCE_BYTES: Final = 128 << 10
"""Largest assignments of one generation that the journal records by partition."""


def owners_of(written: GroupMetadataValue | None) -> Owners | None:
    """Return the assignment of every member; None for other protocols, unreadable assignments, and too large ones."""
    if written is None:
        return {}
    if written.protocol_type != PROTOCOL_TYPE:
        return None if written.members else {}
    if sum(len(m.assignment) for m in written.members) > EVIDENCE_BYTES:
        return None
    try:
        return {m.member_id: _by_topic(m.assignment) for m in written.members}
    except ProtocolError:
        return None


def places_in(assignment: bytes) -> Iterable[tuple[str, int]]:
    """Return topic and partition of an assignment; nothing of an unreadable or too large one."""
    try:
        by_topic = parse_partitions_by_topic(assignment) if len(assignment) <= EVIDENCE_BYTES else {}
    except ProtocolError:
        return []
    return [(topic, partition) for topic, partitions in by_topic.items() for partition in partitions]


def _by_topic(blob: bytes) -> dict[str, tuple[int, ...]]:
    by_topic = parse_partitions_by_topic(blob)
    return {topic: tuple(sorted(partitions)) for topic, partitions in sorted(by_topic.items())}


def moves_between(before: Owners | None, after: Owners | None) -> tuple[Move, ...]:
    """Return every partition whose owner changed, in order; nothing if either side is not known."""
    if before is None or after is None:
        return ()
    was, now = _owner_by_partition(before), _owner_by_partition(after)
    moves = []
    for topic in sorted(was.keys() | now.keys()):
        were, are = was.get(topic, {}), now.get(topic, {})
        moves += [
            Move(topic, p, were.get(p), are.get(p))
            for p in sorted(were.keys() | are.keys())
            if were.get(p) != are.get(p)
        ]
    return tuple(moves)


def _owner_by_partition(owners: Mapping[str, Mapping[str, tuple[int, ...]]]) -> dict[str, dict[int, str]]:
    by_topic: dict[str, dict[int, str]] = {}
    for member_id, assigned in owners.items():
        for topic, partitions in assigned.items():
            by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    return by_topic

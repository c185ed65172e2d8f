"""Journal entries about classic groups: moved partitions, changed subscriptions, refused requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member, Protocols
from kohort.coordinator.classic.round import Round
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Change, ClientIdentity, Move, RequestFenced
from kohort.coordinator.journal_events import JoinRejected, OffsetMove
from kohort.coordinator.journal_evidence import name_prefix
from kohort.coordinator.outcome import GroupRequest, Outcome
from kohort.errors import ApiError, ErrorCode, ProtocolError
from kohort.notes import Note, warning
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, parse_partitions_by_topic, parse_subscription
from kohort.wire.messages.group_classic import JoinGroupRequest
from kohort.wire.messages.group_records import GroupMetadataValue

Owners = dict[str, dict[str, tuple[int, ...]]]
"""Owned partitions as a dict: member id -> topic -> partition numbers."""
EVIDENCE_BYTES: Final = 128 << 10
"""Maximum bytes of the assignments in a journal entry. If they are larger, the entry omits the partitions."""
FENCING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
    }
)
GENERATIONS: Final = ("member_epoch", "generation_id", "generation_id_or_member_epoch")
FENCED_MAX: Final = 100
"""Maximum number of journal entries about refused requests in one generation or group epoch."""
ASSIGNORS_NOTED: Final = 10
"""Maximum number of assignor names in the journal entry of a refused JoinGroup."""


def owners_of(persisted: GroupMetadataValue | None) -> Owners | None:
    """Return the assignments in a GroupMetadata record.

    Return None if the assignments are unreadable or too large, or if the group's protocol type is not ``consumer``.
    """
    if persisted is None:
        return {}
    if persisted.protocol_type != PROTOCOL_TYPE:
        return None if persisted.members else {}
    if sum(len(m.assignment) for m in persisted.members) > EVIDENCE_BYTES:
        return None
    try:
        return {m.member_id: _by_topic(m.assignment) for m in persisted.members}
    except ProtocolError:
        return None


def places_in(assignment: bytes) -> Iterable[tuple[str, int]]:
    try:
        by_topic = parse_partitions_by_topic(assignment) if len(assignment) <= EVIDENCE_BYTES else {}
    except ProtocolError:
        return []
    return [(topic, partition) for topic, partitions in by_topic.items() for partition in partitions]


def _by_topic(blob: bytes) -> dict[str, tuple[int, ...]]:
    by_topic = parse_partitions_by_topic(blob)
    return {topic: tuple(sorted(partitions)) for topic, partitions in sorted(by_topic.items())}


def moves_between(before: Owners | None, after: Owners | None) -> tuple[Move, ...]:
    """Return the partitions whose owner changed, sorted by topic and partition number.

    Return an empty tuple if ``before`` or ``after`` is None.
    """
    if before is None or after is None:
        return ()
    was, now = _owner_by_partition(before), _owner_by_partition(after)
    moves = []
    for topic in sorted(was.keys() | now.keys()):
        were, are = was.get(topic, {}), now.get(topic, {})
        numbers = sorted(p for p in were.keys() | are.keys() if were.get(p) != are.get(p))
        moves += [Move(topic, p, were.get(p), are.get(p)) for p in numbers]
    return tuple(moves)


def _owner_by_partition(owners: Mapping[str, Mapping[str, tuple[int, ...]]]) -> dict[str, dict[int, str]]:
    by_topic: dict[str, dict[int, str]] = {}
    for member_id, assigned in owners.items():
        for topic, partitions in assigned.items():
            by_topic.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    return by_topic


def change_of(rebalance: Round, member: Member, protocols: Protocols, ctx: Context) -> Change:
    """Return the differences between a member's previous JoinGroup and its new one, which has ``protocols``.

    The result also has the topics whose partition count changed after the generation began.
    """
    before = after = None
    topics = ctx.topics
    if rebalance.protocol_type == PROTOCOL_TYPE:
        before = _subscription(member.metadata_of(rebalance.protocol_name))
        after = _subscription(dict(protocols).get(rebalance.protocol_name or "", b""))
    counts = {topic: (count, topics.partition_count(topic) or 0) for topic, count in rebalance.partition_counts.items()}
    added: list[str] = []
    removed: list[str] = []
    racks: tuple[str | None, str | None] = (None, None)
    owned_changed = False
    if before is not None and after is not None:
        added, removed = sorted({*after.topics} - {*before.topics}), sorted({*before.topics} - {*after.topics})
        racks = (before.rack_id, after.rack_id)
        owned_changed = sorted(before.owned_partitions) != sorted(after.owned_partitions)
    return Change(
        was_leader=rebalance.leader == member.member_id,
        protocols_before=tuple(name for name, _ in member.protocols),
        protocols_after=tuple(name for name, _ in protocols),
        topics_added=tuple(added),
        topics_removed=tuple(removed),
        owned_changed=owned_changed,
        partitions_changed={topic: (was, now) for topic, (was, now) in counts.items() if was != now},
        topics_created=tuple(
            t for t in added if (at := topics.made_at_ms(t)) is not None and at >= rebalance.opened_at_ms
        ),
        topics_deleted=tuple(t for t in removed if topics.partition_count(t) is None),
        racks=racks if racks[0] != racks[1] else None,
    )


def _subscription(blob: bytes) -> Subscription | None:
    try:
        return parse_subscription(blob)
    except ProtocolError:
        return None


class RefusedOffsets(NamedTuple):
    """Journaled offsets of a refused OffsetCommit. ``more``: number of offsets that the journal entry omits."""

    offsets: tuple[OffsetMove, ...] = ()
    more: int = 0


NO_COMMIT: Final = RefusedOffsets()


class RefusingGroup(NamedTuple):
    """Fields of a group that the journal entry about a refused request uses."""

    group_id: str
    noted: dict[tuple[str, str, str], None]
    """Keys of the refused requests that have a journal entry: (member id or client, API, error)."""
    members: int
    current: int
    """Generation of a classic group. In a consumer group: epoch of the member, or group epoch for a non-member."""
    protocol_type: str
    accepted: Iterable[str]


def note_fenced(
    group: ClassicGroup,
    request: GroupRequest,
    error: ApiError,
    ctx: Context,
    out: Outcome,
    tried: RefusedOffsets = NO_COMMIT,
) -> None:
    rebalance = group.round
    accepted = (name for name, count in rebalance.supporters.items() if count == len(rebalance.members))
    size, protocol_type = len(rebalance.members), rebalance.protocol_type
    refusing = RefusingGroup(group.group_id, rebalance.fenced, size, rebalance.generation_id, protocol_type, accepted)
    if error.code is not ErrorCode.GROUP_MAX_SIZE_REACHED or isinstance(request.message, JoinGroupRequest):
        note_refusal(refusing, request, error.code, ctx, out, tried)


def note_refusal(
    group: RefusingGroup, request: GroupRequest, code: ErrorCode, ctx: Context, out: Outcome, tried: RefusedOffsets
) -> None:
    """Count and journal a refused request.

    The request is a JoinGroup, or it was refused for a stale member id, generation, epoch or instance id. Equal
    refusals (of the same member and API, in the same generation, with the same error) get only one journal entry. A
    refused JoinGroup has no member id: its client id stands for the member.
    """
    message = request.message
    member_id = getattr(message, "member_id", "")
    differs = code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL and isinstance(message, JoinGroupRequest)
    rejected_join = differs or code is ErrorCode.GROUP_MAX_SIZE_REACHED
    if not rejected_join and (code not in FENCING or not member_id):
        return
    api = type(message).__name__.removesuffix("Request")
    if not rejected_join:
        ctx.evidence.fenced.refused(group.group_id, api, code.name)
    name = name_prefix(request.client_id) + request.client_host if rejected_join else name_prefix(member_id)
    key = (name, api, code.name)
    if key in group.noted or len(group.noted) >= FENCED_MAX:
        return
    group.noted[key] = None
    instance_id = getattr(message, "instance_id", None) or getattr(message, "group_instance_id", None)
    who = ClientIdentity(member_id, request.client_id, request.client_host, instance_id)
    if rejected_join:
        entry = JoinRejected(at_ms=ctx.now_ms, group=group.group_id, member=who, members=group.members)
        if differs and isinstance(message, JoinGroupRequest):
            entry = _with_assignors(entry, message, group)
        out.journal.append(entry)
        return
    fenced = RequestFenced(
        at_ms=ctx.now_ms,
        group=group.group_id,
        member=who,
        api=api,
        error=code.name,
        generation=next((getattr(message, one) for one in GENERATIONS if hasattr(message, one)), -1),
        current=group.current,
        offsets=tried.offsets,
        more=tried.more,
    )
    out.journal.append(fenced)


def _with_assignors(entry: JoinRejected, message: JoinGroupRequest, group: RefusingGroup) -> JoinRejected:
    offered = [name_prefix(protocol.name) for protocol in message.protocols[:ASSIGNORS_NOTED]]
    types = (name_prefix(message.protocol_type), name_prefix(group.protocol_type))
    return msgspec.structs.replace(
        entry,
        error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL.name,
        offered=tuple(offered),
        accepted=tuple(name_prefix(name) for name in islice(group.accepted, ASSIGNORS_NOTED)),
        types=types if types[0] != types[1] else None,
    )


def refusal_note(entry: JoinRejected) -> Note:
    client = f"client {entry.member.client_id!r} at {entry.member.client_host}"
    head = f"group {entry.group!r} refused {client} ({entry.error})"
    if entry.error == ErrorCode.GROUP_MAX_SIZE_REACHED.name:
        return warning(f"{head}: it has {entry.members} members, the maximum", "refused join")
    if entry.types is not None:
        offered, accepted = entry.types
        return warning(f"{head}: the client's protocol type is {offered!r}, not {accepted!r}", "refused join")
    offered, accepted = ", ".join(entry.offered) or "no assignor", ", ".join(entry.accepted) or "no assignor"
    return warning(f"{head}: the client supports {offered}; all members support {accepted}", "refused join")

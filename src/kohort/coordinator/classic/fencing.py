"""Journal entries for refused requests: those of stale members, and joins that the group cannot accept."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.round import FENCED_MAX
from kohort.coordinator.context import Context
from kohort.coordinator.journal import (
    RequestFenced,
    Who,
)
from kohort.coordinator.journal_events import MemberTurnedAway, OffsetMove
from kohort.coordinator.memorable_names import beginning_of
from kohort.coordinator.outcome import GroupRequest, Outcome
from kohort.errors import ApiError, ErrorCode
from kohort.notes import Note, warning
from kohort.wire.messages.group_classic import JoinGroupRequest

FENCING: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


Tried = tuple[tuple[OffsetMove, ...], int]
"""The first few offsets of a commit that was refused, and how many more there are."""
NOTHING_TRIED: Final[Tried] = ((), 0)
ASSIGNORS_NOTED: Final = 10
"""Assignor names that an entry for a refused join lists at most."""


def note_fenced(
    group: ClassicGroup,
    request: GroupRequest,
    error: ApiError,
    ctx: Context,
    out: Outcome,
    tried: Tried = NOTHING_TRIED,
) -> None:
    """Count a refusal, and write it into the journal, once per member, API and error in a generation: a zombie that
    repeats itself does not fill it."""
    if error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL and isinstance(request.message, JoinGroupRequest):
        note_turned_away(group, request, request.message, error.code, ctx, out)
        return
    member_id = getattr(request.message, "member_id", "")
    if error.code not in FENCING or not member_id:
        return
    api = type(request.message).__name__.removesuffix("Request")
    ctx.remembered.fenced.refused(group.group_id, api, error.code.name)
    key = (beginning_of(member_id), api, error.code.name)
    fenced = group.round.fenced
    if key in fenced or len(fenced) >= FENCED_MAX:
        return
    fenced.add(key)
    message = request.message
    generation = getattr(message, "generation_id", getattr(message, "generation_id_or_member_epoch", -1))
    instance_id = getattr(message, "group_instance_id", None)
    out.journal.append(
        RequestFenced(
            at_ms=ctx.now_ms,
            group=group.group_id,
            who=Who(member_id, request.client_id, request.client_host, instance_id),
            api=api,
            error=error.code.name,
            generation=generation,
            current=group.round.generation_id,
            offsets=tried[0],
            more=tried[1],
        )
    )


def note_turned_away(
    group: ClassicGroup,
    request: GroupRequest,
    message: JoinGroupRequest,
    code: ErrorCode,
    ctx: Context,
    out: Outcome,
) -> None:
    """Journal a refused join, once for each client and error in a generation."""
    this = group.round
    key = (beginning_of(request.client_id) + request.client_host, "JoinGroup", code.name)
    if key in this.fenced or len(this.fenced) >= FENCED_MAX:
        return
    this.fenced.add(key)
    entry = MemberTurnedAway(
        at_ms=ctx.now_ms,
        group=group.group_id,
        who=Who(message.member_id, request.client_id, request.client_host, message.group_instance_id),
        members=len(this.members),
    )
    if code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        accepted = (name for name, count in this.supporters.items() if count == len(this.members))
        entry = refused_for_assignors(entry, message, this.protocol_type or "", accepted)
    out.journal.append(entry)


def refused_for_assignors(
    entry: MemberTurnedAway, message: JoinGroupRequest, group_type: str, accepted: Iterable[str]
) -> MemberTurnedAway:
    """Add to the entry of a refused join which assignors the client offered, and which the group accepts."""
    offered = [beginning_of(protocol.name) for protocol in message.protocols[:ASSIGNORS_NOTED]]
    types = (beginning_of(message.protocol_type), beginning_of(group_type))
    return msgspec.structs.replace(
        entry,
        error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL.name,
        offered=tuple(offered),
        accepted=tuple(beginning_of(name) for name in islice(accepted, ASSIGNORS_NOTED)),
        types=types if types[0] != types[1] else None,
    )


def refusal_note(entry: MemberTurnedAway) -> Note:
    """Build the line of the broker's log for a refused join."""
    client = f"client {entry.who.client_id!r} at {entry.who.client_host}"
    head = f"group {entry.group!r} refused to let {client} join ({entry.error})"
    if entry.error == ErrorCode.GROUP_MAX_SIZE_REACHED.name:
        return warning(f"{head}: it has {entry.members} members, the most that it may have", "refused join")
    if entry.types is not None:
        offered, accepted = entry.types
        return warning(f"{head}: the client's protocol type is {offered!r}, not {accepted!r}", "refused join")
    offered, accepted = ", ".join(entry.offered) or "no assignor", ", ".join(entry.accepted) or "no assignor"
    return warning(f"{head}: the client supports {offered}; all members support {accepted}", "refused join")

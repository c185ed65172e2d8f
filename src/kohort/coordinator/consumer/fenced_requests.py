"""A refused request of a member that is not what it believes to be, as a journal entry.

The same of classic groups: ``kohort.coordinator.classic.fencing``.
"""

from __future__ import annotations

from typing import Final

from kohort.coordinator.classic.fencing import refused_for_assignors
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.context import Context
from kohort.coordinator.journal import (
    RequestFenced,
    Who,
)
from kohort.coordinator.journal_events import MemberTurnedAway, OffsetMove
from kohort.coordinator.memorable_names import beginning_of
from kohort.coordinator.outcome import GroupRequest, Outcome
from kohort.errors import ApiError, ErrorCode
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages.group_classic import JoinGroupRequest

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
FENCED_MAX: Final = 100
"""Refusals that are told apart; then, until the group has another epoch, they are told no more."""


def note_fenced_in_consumer_group(
    group: ModernGroup,
    request: GroupRequest,
    error: ApiError,
    ctx: Context,
    out: Outcome,
    tried: tuple[tuple[OffsetMove, ...], int] = ((), 0),
) -> None:
    """Count a refusal, and write it into the journal, once per member, API and error in an epoch of the group; of those
    for whom there is no room, once per client. ``tried`` are the first few offsets of a commit, and how many more there
    are."""
    message = request.message
    member_id = getattr(message, "member_id", "")
    differs = error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL and isinstance(message, JoinGroupRequest)
    is_full = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    turned_away = is_full or differs
    if not turned_away and (error.code not in FENCING or not member_id):
        return
    soft = group.soft
    if soft.fenced_in_epoch != group.epoch:
        soft.fenced_in_epoch = group.epoch
        soft.fenced.clear()
    api = type(message).__name__.removesuffix("Request")
    if not turned_away:
        ctx.remembered.fenced.refused(group.group_id, api, error.code.name)
    who_asks = beginning_of(request.client_id) + request.client_host if turned_away else beginning_of(member_id)
    key = (who_asks, api, error.code.name)
    if key in soft.fenced or len(soft.fenced) >= FENCED_MAX:
        return
    soft.fenced.add(key)
    if turned_away:
        who = Who(member_id, request.client_id, request.client_host)
        entry = MemberTurnedAway(at_ms=ctx.now_ms, group=group.group_id, who=who, members=len(group.members))
        if isinstance(message, JoinGroupRequest) and differs:
            accepted = (name for name, n in group.classic_protocols.items() if n == group.classic_members)
            entry = refused_for_assignors(entry, message, PROTOCOL_TYPE, accepted)
        out.journal.append(entry)
        return
    named = ("member_epoch", "generation_id", "generation_id_or_member_epoch")
    epoch = next((getattr(message, name) for name in named if hasattr(message, name)), -1)
    instance_id = getattr(message, "instance_id", None) or getattr(message, "group_instance_id", None)
    member = group.members.get(member_id)
    out.journal.append(
        RequestFenced(
            at_ms=ctx.now_ms,
            group=group.group_id,
            who=Who(member_id, request.client_id, request.client_host, instance_id),
            api=api,
            error=error.code.name,
            generation=epoch,
            current=group.epoch if member is None else member.epoch,
            offsets=tried[0],
            more=tried[1],
        )
    )

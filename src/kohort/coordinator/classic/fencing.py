"""A refused request of a stale member, as a journal entry: members that others believe dead show themselves here."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.round import FENCED_MAX
from kohort.coordinator.context import Context
from kohort.coordinator.journal import (
    RequestFenced,
    Who,
)
from kohort.coordinator.journal_events import OffsetMove
from kohort.coordinator.memorable_names import beginning_of
from kohort.coordinator.outcome import GroupRequest, Outcome
from kohort.errors import ApiError, ErrorCode

FENCING: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


Tried = tuple[tuple[OffsetMove, ...], int]
"""The first few offsets of a commit that was refused, and how many more there are."""
NOTHING_TRIED: Final[Tried] = ((), 0)


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

"""The two requests that wait in a round, JoinGroup and SyncGroup, and how each is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.coordinator.classic.member import Member
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
"""From this version an answer may leave the protocol's name out (KIP-559)."""


def refuse_join(asked: GroupRequest, code: ErrorCode, member_id: str | None = None) -> Reply:
    """Answer a JoinGroup with ``code``, naming the member id that the client should know: its own, unless given."""
    message = asked.message
    assert isinstance(message, JoinGroupRequest)
    name = None if asked.api_version >= FIRST_JOIN_WITHOUT_PROTOCOL else ""
    told_id = message.member_id if member_id is None else member_id
    return Reply(asked, JoinGroupResponse(error_code=code, protocol_name=name, member_id=told_id))


def refuse_sync(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a SyncGroup with ``code``."""
    return Reply(asked, SyncGroupResponse(error_code=code))


def refuse_parked(members: Iterable[Member], code: ErrorCode, out: Outcome) -> None:
    """Refuse every JoinGroup and SyncGroup that waits."""
    for member in members:
        if member.join is not None:
            out.replies.append(refuse_join(member.join, code, member.member_id))
        if member.sync is not None:
            out.replies.append(refuse_sync(member.sync, code))
        member.join = member.sync = None

"""Members of a group, taken out of it by an administrator (KIP-345, KIP-571; the reason KIP-800)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kohort.client.admin.coordinators import GroupCall, for_each_group
from kohort.client.admin.operations import Operation, Results
from kohort.client.requests.metadata import Metadata
from kohort.errors import UnsupportedVersion, UsageError
from kohort.wire.messages.group_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.schema import Message

BATCHED_FROM: Final = 3
"""From this version on a request names several members, and static ones by their instance ids."""
REASON: Final = "member was removed by an admin"
"""What Kafka's own client gives as the reason; a coordinator sees by it that it was an administrator."""
LONGEST_REASON: Final = 255
"""Characters of a reason that are sent, as Kafka's own client cuts it."""


def remove_group_members(
    metadata: Metadata, group: str, members: Sequence[str], instance_ids: Sequence[str], reason: str
) -> Operation[Results[str, None]]:
    """Have members leave a group: these member ids, and whoever has these instance ids.

    Raises UsageError where nobody is named, or one name is in both lists.
    """
    if twice := sorted(set(members) & set(instance_ids)):
        raise UsageError(f"{twice[0]!r} is named as a member id and as an instance id; choose one")
    if not members and not instance_ids:
        raise UsageError("nobody is named: give member ids, or instance ids")
    told = (f"{REASON}: {reason}" if reason else REASON)[:LONGEST_REASON]
    leaving = [MemberIdentity(member_id=name, reason=told) for name in dict.fromkeys(members)]
    leaving += [
        MemberIdentity(member_id="", group_instance_id=name, reason=told) for name in dict.fromkeys(instance_ids)
    ]

    def read(answer: LeaveGroupResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        results: Results[str, None] = Results()
        if not answer.members and not answer.error_code:
            results.add(members[0], None)
        for left in answer.members:
            results.add_or_refuse(left.group_instance_id or left.member_id, None, left.error_code)
        return answer.error_code, None, results

    call = GroupCall(lambda g: LeaveGroupRequest(group_id=g, members=leaving), read, _shaped)
    by_group = yield from for_each_group(metadata, [group], call)
    removed: Results[str, None] = by_group[group]
    return removed


def _shaped(request: Message, version: int) -> Message:
    """Name the one member as old brokers take it. Raises UnsupportedVersion for more, and for static ones."""
    assert isinstance(request, LeaveGroupRequest)
    if version >= BATCHED_FROM:
        return request
    first, *others = request.members
    if others or first.group_instance_id is not None:
        raise UnsupportedVersion("this broker takes out one member at a time, by its member id (Kafka before 2.4)")
    return LeaveGroupRequest(group_id=request.group_id, member_id=first.member_id)

"""DescribeGroups (15) v0-6, ListGroups (16) v0-5, DeleteGroups (42) v0-3, for groups of both protocols.

The rules: protocol/groups.md#describing-and-deleting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.rebalance import forget_timers
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.ending import group_tombstones
from kohort.coordinator.consumer.group import ConsumerGroupState, ModernGroup
from kohort.coordinator.consumer.timers import timers_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupDeleted, Who
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome
from kohort.coordinator.records import GroupWritten, OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import ALL_OPERATIONS, NOT_ASKED, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages.group_admin import DescribedGroup, DescribedGroupMember, ListedGroup

FIRST_WITH_GROUP_ID_NOT_FOUND = 6
CLASSIC = "classic"
CONSUMER = "consumer"
MEMBER_US: Final = 1.6
LISTED_US: Final = 3.0
FILTER_US: Final = 0.4
STATES: Final = [state.value for kind in (GroupState, ConsumerGroupState) for state in kind]
SETTLED_US: Final = 0.15
"""For each member whether it is settled: the state of a consumer group."""


def describe_group(
    groups: Groups, group_id: str, version: int, pace: Pace, *, operations: bool = False
) -> Steps[DescribedGroup]:
    """Describe a classic group as it is now; members report metadata in a stable group only.

    ``operations``: report the operations that a caller with every right is allowed.
    """
    allowed = ALL_OPERATIONS[ResourceType.GROUP] if operations else NOT_ASKED
    group = groups.by_id.get(group_id)
    if group is None:
        missing = version >= FIRST_WITH_GROUP_ID_NOT_FOUND
        what = "is not a classic group" if group_id in groups.consumer else "not found"
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} {what}." if missing else None,
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            authorized_operations=NOT_ASKED if missing else allowed,
        )
    this = group.round
    stable = this.state is GroupState.STABLE
    described = DescribedGroup(
        group_id=group_id,
        group_state=this.state.value,
        protocol_type=this.protocol_type,
        protocol_data=(this.protocol_name or "") if stable else "",
        authorized_operations=allowed,
    )
    name = this.protocol_name
    taken = [  # one snapshot: the group may change between steps
        (m, m.metadata_of(name) if stable else b"", m.assignment) for m in this.members.values()
    ]
    for member, metadata, assignment in taken:
        described.members.append(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=metadata,
                member_assignment=assignment,
            )
        )
        if pace.is_due(MEMBER_US):
            yield
    return described


def refused_description(group_id: str, error: ApiError, version: int) -> DescribedGroup:
    message = str(error) if version >= FIRST_WITH_GROUP_ID_NOT_FOUND else None
    return DescribedGroup(error_code=error.code, error_message=message, group_id=group_id)


def filter_of(
    names: Sequence[str], known: Iterable[str], pace: Pace, *, blanks: bool = False
) -> Steps[frozenset[str] | None]:
    """Return the known names among those of a filter, in lower case; None without a filter.

    ``blanks``: whether there may be blanks around a name.
    """
    if not names:
        return None
    all_known = {name.lower() for name in known}
    wanted = set()
    for name in names:
        lower = (name.strip() if blanks else name).lower()
        if lower in all_known:
            wanted.add(lower)
        if pace.is_due(FILTER_US):
            yield
    return frozenset(wanted)


def list_groups(
    groups: Groups, states: frozenset[str] | None, types: frozenset[str] | None, pace: Pace
) -> Steps[list[ListedGroup]]:
    """List the groups whose state and type are let through."""
    listed, cost_us = [], LISTED_US
    found: list[ClassicGroup | ModernGroup] = [*groups.by_id.values(), *groups.consumer.values()]
    for group in found:
        if isinstance(group, ClassicGroup):
            kind, protocol_type, cost_us = CLASSIC, group.round.protocol_type, LISTED_US
        else:
            kind, protocol_type, cost_us = CONSUMER, PROTOCOL_TYPE, LISTED_US + SETTLED_US * len(group.members)
        state = group.state.value
        if (types is None or kind in types) and (states is None or state.lower() in states):
            listed.append(
                ListedGroup(group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=kind)
            )
        if pace.is_due(cost_us):
            yield
    return listed


def decide_delete_group(groups: Groups, group_id: str, request: GroupRequest, ctx: Context) -> Outcome:
    """Write tombstones for the group and all its offsets, at once. Raises ApiError if it is not empty, or not there."""
    offsets = groups.offsets.get(group_id)
    out = Outcome()
    for topic, partition in offsets.deletable() if offsets is not None else ():
        out.records.append(OffsetCommitted(group_id, topic, partition, None))
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if consumer is not None:
        _end_consumer(consumer, out)
    elif group is not None:
        _end_classic(group, out)
    else:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    by = Who("", request.client_id, request.client_host)
    out.journal.append(GroupDeleted(at_ms=ctx.now_ms, group=group_id, why="deleted", by=by))
    return out


def _end_classic(group: ClassicGroup, out: Outcome) -> None:
    if group.state is not GroupState.EMPTY:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"the group is {group.state.value}")
    out.records.append(GroupWritten(group.group_id, None))
    forget_timers(group, out)
    group.round.pending_join.clear()


def _end_consumer(group: ModernGroup, out: Outcome) -> None:
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"the group is {group.state.value}")
    out.records += group_tombstones(group)
    out.timers += map(CancelTimer, timers_of(group))
    out.round_changed = False

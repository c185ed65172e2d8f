"""The requests of both protocols, each taken to the side that its group is on.

A request of the classic protocol to a modern group is served from the state of that group, one of the new protocol to a
classic group converts it (``migration/``). The rules: protocol/consumer-groups.md#both-protocols-in-one-group.
"""

from __future__ import annotations

from kohort.coordinator.classic.heartbeat import decide_heartbeat
from kohort.coordinator.classic.join import decide_join
from kohort.coordinator.classic.leave import decide_leave
from kohort.coordinator.classic.parked_requests import refuse_join
from kohort.coordinator.classic.sync import decide_sync
from kohort.coordinator.consumer.ending import group_tombstones
from kohort.coordinator.consumer.fenced_requests import note_fenced_in_consumer_group
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.context import Context
from kohort.coordinator.migration.classic_joins import join_modern
from kohort.coordinator.migration.classic_leaves import leave_modern
from kohort.coordinator.migration.classic_members import heartbeat_in_modern, sync_in_modern
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, Outcome
from kohort.errors import ApiError


def decide_join_of_either(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Decide on a JoinGroup; a modern group without members goes, and the classic one begins in its place."""
    modern = _modern(groups, request)
    if modern is None:
        return decide_join(groups, request, ctx)
    if modern.members:
        try:
            return join_modern(groups, modern, request, ctx)
        except ApiError as error:  # which tells no member id, unlike that of a classic group
            out = Outcome(replies=[refuse_join(request, error.code, "")], round_changed=False)
            note_fenced_in_consumer_group(modern, request, error, ctx, out)
            return out
    out = decide_join(groups, request, ctx)
    out.records[:0] = group_tombstones(modern)
    return out


def decide_sync_of_either(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Decide on a SyncGroup."""
    modern = _modern(groups, request)
    return decide_sync(groups, request, ctx) if modern is None else sync_in_modern(modern, request, ctx)


def decide_heartbeat_of_either(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Decide on a Heartbeat."""
    modern = _modern(groups, request)
    return decide_heartbeat(groups, request, ctx) if modern is None else heartbeat_in_modern(modern, request, ctx)


def decide_leave_of_either(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Decide on a LeaveGroup."""
    modern = _modern(groups, request)
    return decide_leave(groups, request, ctx) if modern is None else leave_modern(modern, request, ctx)


def _modern(groups: Groups, request: GroupRequest) -> ModernGroup | None:
    return groups.consumer.get(request.message.group_id)  # type: ignore[attr-defined]  # each of these names a group

"""The group APIs: one table, one road to the coordinator.

JoinGroup (11) 0-9, Heartbeat (12) 0-4, LeaveGroup (13) 0-5, SyncGroup (14) 0-5, OffsetCommit (8) 2-10, OffsetFetch (9)
1-10, DescribeGroups (15) 0-6, ListGroups (16) 0-5, DeleteGroups (42) 0-2, OffsetDelete (47) 0. Their meaning is in
kohort.coordinator; here it is only added who asks. Any answer, this request's or one that it released, leaves through
``state.released``.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.release import release
from kohort.broker.request import Answer, Request, Unanswered
from kohort.broker.state import BrokerState
from kohort.coordinator.outcome import GroupRequest

READ_ONLY: Final = frozenset({9, 15, 16})
"""OffsetFetch, DescribeGroups, ListGroups: they never make the offsets topic."""
GROUP_APIS: Final = (8, 9, 11, 12, 13, 14, 15, 16, 42, 47)


def group_request(state: BrokerState, request: Request) -> Answer:
    reply_to = request.reply_to
    if reply_to.api_key not in READ_ONLY:
        state.offsets_topic.ensure(request.now_ms)
    asked = GroupRequest(
        message=request.message,
        api_version=request.version,
        client_id=request.client_id,
        client_host=request.client_host,
        reply_to=reply_to,
        connection=reply_to.connection,
    )
    release(state, state.coordinator.handle(asked, request.now_ms), request.now_ms)
    return Unanswered.LATER

"""The group APIs: one road to the coordinator for all that stand in its table (kohort.coordinator.api_table).

JoinGroup (11) 0-9, Heartbeat (12) 0-4, LeaveGroup (13) 0-5, SyncGroup (14) 0-5, OffsetCommit (8) 2-10, OffsetFetch (9)
1-10, DescribeGroups (15) 0-6, ListGroups (16) 0-5, DeleteGroups (42) 0-3, OffsetDelete (47) 0,
ConsumerGroupDescribe (69) 0-1. Their meaning is in kohort.coordinator; here the caller is added. APIs that change
nothing are answered in steps; all other answers leave through ``state.released``.
"""

from __future__ import annotations

from functools import partial

from kohort.broker.authorization import may
from kohort.broker.release import release
from kohort.broker.request import Answer, AnswerInSteps, Request, Unanswered, principal_of
from kohort.broker.state import BrokerState
from kohort.coordinator.api_table import GROUP_APIS
from kohort.coordinator.outcome import GroupRequest, may_describe_all
from kohort.security.acls import Operation, ResourceType


def group_request(state: BrokerState, request: Request) -> Answer | AnswerInSteps:
    """Submit a request to the coordinator; the answer to one that may write leaves through ``state.released``."""
    reply_to = request.reply_to
    api = GROUP_APIS[type(request.message)]
    if not api.read_only:
        state.offsets_topic.ensure(request.now_ms)
    asked = GroupRequest(
        message=request.message,
        api_version=request.version,
        client_id=request.client_id,
        client_host=request.client_host,
        reply_to=reply_to,
        connection=reply_to.connection,
        principal=principal_of(request),
        software=state.client_metrics.software_of(reply_to.connection),
        may_describe=may_describe_all if state.access is None else partial(_may_describe, state, request),
    )
    if api.read_only:
        return _read(state, asked, request.now_ms)
    release(state, state.coordinator.handle(asked, request.now_ms), request.now_ms)
    return Unanswered.LATER


def _read(state: BrokerState, asked: GroupRequest, now_ms: int) -> AnswerInSteps:
    reply = yield from state.coordinator.read(asked, now_ms)
    return reply.message


def _may_describe(state: BrokerState, request: Request, topic: str) -> bool:
    return may(state, request, Operation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True)

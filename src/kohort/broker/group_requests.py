"""Requests about groups: submission to the group coordinator, and release of its responses.

Responses of APIs that write records are added to ``state.released`` when the records are in the log, or on the disk if
``flush.messages`` of ``__consumer_offsets`` demands it. APIs that only read are served in steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kohort.broker.authorization import GROUP_DENIED, PASSED, Guard, GuardResult, Rights
from kohort.broker.purgatory import PendingAnswer
from kohort.broker.request import Answer, AnswerInSteps, Refusal, ReplyTo, Request, Unanswered, principal_of
from kohort.broker.state import BrokerState
from kohort.coordinator.api_table import GROUP_APIS, withdraw
from kohort.coordinator.outcome import APPEND_ERRORS, GroupRequest, Reply, may_describe_all
from kohort.errors import ErrorCode
from kohort.log.partition import PartitionLog
from kohort.security.acls import Operation, ResourceType
from kohort.wire.schema import Message


def group_request(state: BrokerState, request: Request) -> Answer | AnswerInSteps:
    """Submit a request to the group coordinator; return the response if the API only reads."""
    reply_to = request.reply_to
    api = GROUP_APIS[type(request.message)]
    if not api.read_only:
        state.offsets_topic.ensure(request.now_ms)
    group_request_ = GroupRequest(
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
        return _read(state, group_request_, request.now_ms)
    release(state, state.coordinator.handle(group_request_, request.now_ms), request.now_ms)
    return Unanswered.LATER


def _read(state: BrokerState, group_request_: GroupRequest, now_ms: int) -> AnswerInSteps:
    reply = yield from state.coordinator.read(group_request_, now_ms)
    return reply.message


def _may_describe(state: BrokerState, request: Request, topic: str) -> bool:
    return Rights(state, request).may(Operation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True)


def release(state: BrokerState, replies: Sequence[Reply], now_ms: int) -> None:
    """Release the coordinator's responses for sending, at once or after the flush of their records."""
    needs = state.offsets_topic.take_unflushed()
    if not needs:
        state.released.extend(replies)
        return
    for reply in replies:
        assert isinstance(reply.to, ReplyTo)
        state.flushes.hold(PendingAnswer(reply.to, needs, partial(after_flush, reply)), now_ms)


def after_flush(reply: Reply, failed: Mapping[PartitionLog, Refusal]) -> Message:
    """Return the coordinator's response, or an error if the log flush failed. The records may still exist."""
    for refusal in failed.values():
        return withdraw(reply, APPEND_ERRORS.get(refusal.code, refusal.code)).message
    return reply.message


def group_refusal(rights: Rights, code: ErrorCode) -> Message:
    """Return the response that rejects a request about groups as a whole, with an error code."""
    request = rights.request
    group_request_ = GroupRequest(
        request.message, request.version, request.client_id, request.client_host, request.reply_to
    )
    return GROUP_APIS[type(request.message)].refuse(group_request_, code).message


def guard_group(operation: Operation) -> Guard:
    def guard(rights: Rights) -> GuardResult:
        if rights.may(operation, ResourceType.GROUP, rights.request.message.group_id):
            return PASSED
        return GuardResult(group_refusal(rights, GROUP_DENIED))

    return guard


guard_member = guard_group(Operation.READ)

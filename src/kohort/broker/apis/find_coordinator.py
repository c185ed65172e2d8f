"""FindCoordinator (10), versions 0-6. KIP-98, KIP-699 (several keys).

The coordinator of a group or transactional id is the leader of its partition of ``__consumer_offsets`` or
``__transaction_state``. The first request creates the topic. Deviation from Kafka: key type 2 (share groups) is
rejected.
"""

from __future__ import annotations

from typing import Final

from kohort.broker import authorization as auth
from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.cluster.placement import NO_LEADER
from kohort.broker.leaders import transaction_coordinator
from kohort.broker.request import Answer, Refusal, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.security.acls import CLUSTER_NAME, Operation, ResourceType
from kohort.steps import Steps, each
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP: Final = 0
TRANSACTION: Final = 1
FIRST_WITH_SEVERAL_KEYS: Final = 4
COORDINATED: Final = {
    0: (Operation.DESCRIBE, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    2: (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, auth.CLUSTER_DENIED),
}
"""Authorization checks, as a dict: key type of a FindCoordinator request to operation, resource type and error code."""


def find_coordinator(state: BrokerState, request: Request) -> Answer:
    message: FindCoordinatorRequest = request.message
    refusal = None
    try:
        if message.key_type not in (GROUP, TRANSACTION):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"unsupported key type {message.key_type}, expected 0 (group) or 1 (transaction)",
            )
        if message.key_type == TRANSACTION:
            state.cluster.transactions.ensure(request.now_ms)
        else:
            state.offsets_topic.ensure(request.now_ms)
    except KohortError as error:
        refusal = refusal_of(error)
    keys = message.coordinator_keys if request.version >= FIRST_WITH_SEVERAL_KEYS else [message.key]
    answers = [_answer(state, request, key, refusal) for key in keys]
    if request.version >= FIRST_WITH_SEVERAL_KEYS:
        return FindCoordinatorResponse(coordinators=answers)
    only = answers[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or "NONE",
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _answer(state: BrokerState, request: Request, key: str, refusal: Refusal | None) -> Coordinator:
    if refusal is not None:
        return _refused(key, refusal.code, refusal.message or None)
    if request.message.key_type == TRANSACTION:
        node_id = transaction_coordinator(state, key, request.now_ms)
    else:
        node_id = state.offsets_topic.leader_of(state.coordinator.partition_of(key), request.now_ms)
    if node_id == NO_LEADER:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"all nodes that can coordinate {key!r} are down")
    node = state.cluster.nodes[node_id].at.get(request.caller.listener)
    if node is None:
        text = f"node {node_id}, which coordinates {key!r}, has no address on listener {request.caller.listener}"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message=None)


def _refused(key: str, code: ErrorCode, text: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=text)


def guard_find_coordinator(rights: auth.Rights) -> Steps[auth.GuardResult]:
    """Require DESCRIBE on each group or transactional id, CLUSTER_ACTION for share groups."""
    message: FindCoordinatorRequest = rights.request.message
    if message.key_type not in COORDINATED:
        return auth.PASSED
    operation, resource_type, code = COORDINATED[message.key_type]
    on_cluster = resource_type is ResourceType.CLUSTER
    if rights.request.version < FIRST_WITH_SEVERAL_KEYS:
        if rights.may(operation, resource_type, CLUSTER_NAME if on_cluster else message.key):
            return auth.PASSED
        return auth.GuardResult(
            FindCoordinatorResponse(error_code=code, error_message=auth.DENIAL_TEXTS[code], node_id=-1, port=-1)
        )
    allowed, denied = yield from rights.authorized(
        operation, resource_type, message.coordinator_keys, lambda key: CLUSTER_NAME if on_cluster else key
    )
    refused = yield from each(denied, lambda key: _refused(key, code, ""), auth.REFUSE_US)
    return auth.serve_allowed(
        rights, allowed, auth.Denials("coordinator_keys", "coordinators", refused), FindCoordinatorResponse
    )


FIND_COORDINATOR = BrokerApi(
    FindCoordinatorRequest,
    find_coordinator,
    guard_find_coordinator,
    Cost(
        AnswerBound.REQUEST,
        parts=Parts(("coordinator_keys",), ("coordinators",), 1_000),
    ),
    names={"key": NameKind.GROUP, "coordinator_keys": NameKind.GROUP},
)

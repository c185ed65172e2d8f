"""InitProducerId (22), versions 0-5. KIP-98, KIP-360, KIP-890.

Without a transactional id, each request gets a new producer id with epoch 0, as in Kafka. With a transactional id, the
producer id stays and its epoch grows, which fences the previous producer. The open transaction of the previous producer
is aborted first.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import ONE_NAME, BrokerApi, NameKind
from kohort.broker.authorization import CLUSTER_DENIED, ID_DENIED, PASSED, GuardResult, Rights
from kohort.broker.leaders import check_coordinator
from kohort.broker.request import Answer, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode, KohortError
from kohort.model import ProducerIdAndEpoch
from kohort.security.acls import Operation, ResourceType
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse

NONE: Final = -1
FIRST_WITH_PRODUCER_FENCED: Final = 4


def init_producer_id(state: BrokerState, request: Request) -> Answer:
    message: InitProducerIdRequest = request.message
    if (message.producer_id == NONE) != (message.producer_epoch == NONE):
        return _refused(ErrorCode.INVALID_REQUEST)  # the request sets only one of producer id and epoch
    if message.transactional_id is None:
        return InitProducerIdResponse(producer_id=state.topics.next_producer_id(), producer_epoch=0)
    expected = None
    if message.producer_id != NONE:
        expected = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    try:
        check_coordinator(state, message.transactional_id, request.now_ms)
        producer = state.cluster.transactions.init(
            message.transactional_id, message.transaction_timeout_ms, expected, request.now_ms
        )
    except KohortError as error:
        code = refusal_of(error).code
        if code is ErrorCode.PRODUCER_FENCED and request.version < FIRST_WITH_PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return _refused(code)
    answer = InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    needs = state.cluster.transactions.take_unflushed()
    return state.flushes.answer(request, needs, answer, _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)


def guard_init_producer_id(rights: Rights) -> GuardResult:
    """Require WRITE on the transactional id; without an id IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    message: InitProducerIdRequest = rights.request.message
    if message.transactional_id is not None:
        code = ID_DENIED
        is_allowed = rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, message.transactional_id)
    else:
        code, may_write = CLUSTER_DENIED, rights.may_on_cluster(Operation.IDEMPOTENT_WRITE, quietly=True)
        is_allowed = may_write or rights.may(Operation.WRITE, ResourceType.TOPIC, None)
    return PASSED if is_allowed else GuardResult(_refused(code))


INIT_PRODUCER_ID = BrokerApi(
    InitProducerIdRequest,
    init_producer_id,
    guard_init_producer_id,
    ONE_NAME,
    names={"transactional_id": NameKind.TRANSACTIONAL_ID},
)

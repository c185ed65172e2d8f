"""InitProducerId (22), versions 0-5: an id for an idempotent producer. KIP-98, KIP-360.

Every call gives a new id with epoch 0, as Kafka does where there is no transactional id. Deviation: transactions are
not served; a transactional id is refused with UNSUPPORTED_VERSION, which ends the producer instead of a retry.
"""

from __future__ import annotations

from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(state: BrokerState, request: Request) -> Answer:
    message: InitProducerIdRequest = request.message
    if message.transactional_id is not None:
        code = ErrorCode.UNSUPPORTED_VERSION if message.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=state.topics.next_producer_id(), producer_epoch=0)

"""InitProducerId (22): an id for an idempotent producer, or for a transactional one and its next epoch.

- 2: flexible. 3: the id and epoch that the producer had (KIP-360). 4: PRODUCER_FENCED. 5: TRANSACTION_ABORTABLE.
- 6: two-phase commit (KIP-939; unstable in Kafka, so neither served nor asked for here).
"""

from __future__ import annotations

from kohort.wire.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """InitProducerId: what a client asks."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """InitProducerId: what a broker answers."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)

"""Keys and values of __transaction_state, and of control records.

An int16 precedes each key (the record type, 0) and each value (its version).
TransactionLogValue 1: flexible; previous and next producer id, and the client's transaction version, as tags (KIP-890).
A control record has version and type (0 aborts, 1 commits) in its key, and the coordinator's epoch in its value.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, versions="0", flexible="none"):
    """Type 0: a transactional id."""

    transactional_id: str = string()


class TransactionLogPartitions(Message):
    topic: str = string()
    partition_ids: list[int] = array(int32())


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """State of a transactional id; its tombstone has no value. Times in ms; -1 for none."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogPartitions] | None = array(TransactionLogPartitions, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    previous_producer_id: int = int64("1+", default=-1, ignorable=True, tag=0)
    next_producer_id: int = int64("1+", default=-1, ignorable=True, tag=1)
    client_transaction_version: int = int16("1+", default=0, ignorable=True, tag=2)


class ControlRecordKey(Message, versions="0", flexible="none"):
    version: int = int16()
    type: int = int16()


class EndTxnMarker(Message, versions="0", flexible="none"):
    """Value of a control record that ends a transaction."""

    version: int = int16()
    coordinator_epoch: int = int32()

"""The keys and values of __transaction_state, and what is in a control record.

A key starts with an int16, the record type (0), and a value with an int16, its version.

TransactionLogValue
- 1: flexible; producer ids before and after, and the version of transactions that the client spoke, as tags (KIP-890).

A control record has a version and a type in its key (0 aborts, 1 commits), and its coordinator's epoch in its value.
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
    """The state of a transactional id; no value at all is its tombstone. Times in ms; -1 for none."""

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
    """The value of a control record that ends a transaction."""

    version: int = int16()
    coordinator_epoch: int = int32()

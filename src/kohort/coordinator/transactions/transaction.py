"""State of a transactional id, and its record in ``__transaction_state``, which has the same bytes as in Kafka."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Final

from kohort.coordinator.transactions.states import BY_NUMBER, TransactionState
from kohort.errors import CorruptLog, ProtocolError
from kohort.model import TopicPartition
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogPartitions, TransactionLogValue

NONE: Final = -1
KEY_TYPE: Final = 0
VALUE_VERSION: Final = 1
_INT16 = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Transaction:
    """State of a transactional id. If ``client_version`` is 2, the producer's epoch rises after each transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = NONE
    started_ms: int = NONE
    last_epoch: int = NONE
    """Previous epoch of the producer. If the response with the new epoch was lost, the producer still sends this epoch.

    Not persisted, as in Kafka.
    """
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    client_version: int = 0

    @property
    def by_topic(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            found.setdefault(topic, []).append(partition)
        return found

    def moved(self, by_ms: int) -> Transaction:
        """Return the transaction with all its times moved by ``by_ms``: its record contains wall-clock times."""
        if not by_ms:
            return self
        updated, started = (at_ms if at_ms == NONE else at_ms + by_ms for at_ms in (self.updated_ms, self.started_ms))
        return replace(self, updated_ms=updated, started_ms=started)

    @property
    def deadline_ms(self) -> int | None:
        return self.started_ms + self.timeout_ms if self.state is TransactionState.ONGOING else None


def build_record(transactional_id: str, transaction: Transaction | None) -> tuple[bytes, bytes | None]:
    key = _INT16.pack(KEY_TYPE) + encode_bytes(TransactionLogKey(transactional_id=transactional_id), 0)
    if transaction is None:
        return key, None
    partitions = [TransactionLogPartitions(topic=t, partition_ids=ids) for t, ids in transaction.by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
    )
    return key, _INT16.pack(VALUE_VERSION) + encode_bytes(value, VALUE_VERSION)


def parse_record(key: bytes, value: bytes | None) -> tuple[str, Transaction | None]:
    """Parse a record; return transactional id and state (None for a tombstone). Raises CorruptLog."""
    try:
        (kind,) = _INT16.unpack_from(key)
        if kind != KEY_TYPE:
            raise CorruptLog(f"unknown record type {kind} in __transaction_state: expected {KEY_TYPE}")
        transactional_id = decode(TransactionLogKey, 0, key, 2)[0].transactional_id
        if value is None:
            return transactional_id, None
        read, _ = decode(TransactionLogValue, _INT16.unpack_from(value)[0], value, 2)
        state = BY_NUMBER[read.transaction_status]
    except (ProtocolError, struct.error, KeyError) as error:
        raise CorruptLog(f"a record of __transaction_state with key {key[:80]!r} cannot be read: {error}") from error
    partitions = frozenset(
        TopicPartition(topic.topic, p) for topic in read.transaction_partitions or () for p in topic.partition_ids
    )
    return transactional_id, Transaction(
        transactional_id,
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        partitions,
        read.transaction_last_update_timestamp_ms,
        read.transaction_start_timestamp_ms,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        client_version=read.client_transaction_version,
    )

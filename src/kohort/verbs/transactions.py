"""Find hanging transactions: open transactions that no coordinator will end (KIP-664).

A transaction hangs if its producer has been silent for long, and one of two conditions holds. Either no transactional
id has its producer id, or the coordinator does not list the partition in the transaction of that id. If the user has no
DESCRIBE right on a transactional id, the open transactions of that id look like hanging ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import TopicPartition
from kohort.results.cluster import HangingTransactionRow
from kohort.verbs.refusals import NothingThere
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import ProducerState, TransactionDescription
    from kohort.client.admin.operations import Results


class OpenTransaction(NamedTuple):
    partition: TopicPartition
    producer: ProducerState


@dataclass(slots=True)
class HangingTransactions:
    """Hanging transactions, the number of searched partitions, and the errors of brokers and coordinators."""

    partitions: int = 0
    transactions: list[HangingTransactionRow] = field(default_factory=list)
    errors: list[KohortError] = field(default_factory=list)


def find_hanging(admin: Admin, topics: Sequence[str], *, silent_ms: float, now_ms: float) -> HangingTransactions:
    """Return the hanging transactions in ``topics`` (empty: all topics).

    Searches only transactions whose producers have been silent for longer than ``silent_ms``. Raises ApiError.
    """
    partitions = _partitions_of(admin, topics)
    found = HangingTransactions(len(partitions))
    suspects = [
        suspect
        for suspect in _open_in(admin, partitions, found.errors)
        if now_ms - suspect.producer.last_timestamp_ms > silent_ms
    ]
    if not suspects:
        return found
    names = _names_of(admin, suspects)
    described = admin.describe_transactions(sorted(set(names.values())), timeout_ms=ADMIN_MS)
    found.errors += [error for error in described.errors.values() if not _is_unknown(error)]
    left = [s for s in suspects if _hangs(s.partition, names.get(s.producer.producer_id), described)]
    found.transactions = [
        _row(suspect, names.get(suspect.producer.producer_id), now_ms)
        for suspect in _open_still(admin, left, found.errors)
    ]
    return found


def _hangs(partition: TopicPartition, name: str | None, described: Results[str, TransactionDescription]) -> bool:
    """Return True if the partition is in no transaction of the transactional id ``name`` (None: no id was found).

    Also returns True if the coordinator does not know the id, and False if its description failed otherwise.
    """
    if name is None:
        return True
    if name in described.errors:
        return _is_unknown(described.errors[name])
    return partition not in described[name].partitions


def open_at(admin: Admin, partition: TopicPartition, start_offset: int) -> OpenTransaction:
    """Return the open transaction that starts at ``start_offset``.

    If there is none, raises NothingThere, which lists the open transactions of the partition.
    """
    known = admin.describe_producers([partition], timeout_ms=ADMIN_MS)[partition]
    present = [producer for producer in known if producer.transaction_start_offset is not None]
    for producer in present:
        if producer.transaction_start_offset == start_offset:
            return OpenTransaction(partition, producer)
    starts = ", ".join(f"{p.transaction_start_offset} (producer id {p.producer_id})" for p in present)
    hint = f"open transactions start at {starts}" if present else "no transaction is open"
    raise NothingThere(f"no transaction of {partition} starts at offset {start_offset}: {hint}")


def known_to_coordinator(admin: Admin, transaction: OpenTransaction) -> TransactionDescription | None:
    """Return the coordinator's description of the transaction if it lists the partition. Otherwise return None.

    If the coordinator lists the partition, the transaction does not hang.
    """
    name = _names_of(admin, [transaction]).get(transaction.producer.producer_id)
    if name is None:
        return None
    described = admin.describe_transactions([name], timeout_ms=ADMIN_MS)
    if name in described.errors and _is_unknown(described.errors[name]):
        return None
    return described[name] if transaction.partition in described[name].partitions else None


def _partitions_of(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    if topics:
        described = admin.describe_topics(list(dict.fromkeys(topics)), timeout_ms=ADMIN_MS).check()
        return [TopicPartition(name, p.partition) for name, topic in described.items() for p in topic.partitions]
    listed = admin.list_topics(internal=True, timeout_ms=ADMIN_MS)
    return [TopicPartition(topic.name, p) for topic in listed for p in range(topic.partitions)]


def _open_in(admin: Admin, partitions: Sequence[TopicPartition], errors: list[KohortError]) -> list[OpenTransaction]:
    known = admin.describe_producers(partitions, timeout_ms=ADMIN_MS)
    errors += known.errors.values()
    return [
        OpenTransaction(partition, producer)
        for partition in sorted(set(known) - set(known.errors))
        for producer in known[partition]
        if producer.transaction_start_offset is not None
    ]


def _open_still(admin: Admin, left: Sequence[OpenTransaction], errors: list[KohortError]) -> list[OpenTransaction]:
    """Return the transactions that are still open, because some may have ended during the search."""
    if not left:
        return []
    found = _open_in(admin, sorted({partition for partition, _ in left}), errors)
    present = {(partition, p.producer_id, p.transaction_start_offset) for partition, p in found}
    return [
        one
        for one in left
        if (one.partition, one.producer.producer_id, one.producer.transaction_start_offset) in present
    ]


def _names_of(admin: Admin, transactions: Sequence[OpenTransaction]) -> dict[int, str]:
    producer_ids = sorted({transaction.producer.producer_id for transaction in transactions})
    listed = admin.list_transactions(producer_ids=producer_ids, timeout_ms=ADMIN_MS)
    return {listing.producer_id: listing.transactional_id for listing in listed}


def _is_unknown(error: KohortError) -> bool:
    return isinstance(error, ApiError) and error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def _row(transaction: OpenTransaction, transactional_id: str | None, now_ms: float) -> HangingTransactionRow:
    partition, producer = transaction
    last_ms = producer.last_timestamp_ms
    return HangingTransactionRow(
        topic=partition.topic,
        partition=partition.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        start_offset=producer.transaction_start_offset or 0,
        silent_seconds=None if last_ms < 0 else round((now_ms - last_ms) / 1000, 1),
        transactional_id=transactional_id,
    )

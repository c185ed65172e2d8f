"""DescribeTransactions (65), ListTransactions (66): KIP-664.

ListTransactions
- 1: how long a transaction must have been open at least (KIP-994). 2: a pattern for transactional ids (KIP-1152).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """DescribeTransactions: what a client asks."""

    transactional_ids: list[str] = array(string())


class TransactionTopicData(Message):
    topic: str = string()
    partitions: list[int] = array(int32())


class DescribedTransaction(Message):
    """One transactional id; ``transaction_start_time_ms`` is -1 where no transaction is open."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TransactionTopicData] = array(TransactionTopicData)


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    """DescribeTransactions: what a broker answers."""

    throttle_time_ms: int = int32()
    transaction_states: list[DescribedTransaction] = array(DescribedTransaction)


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """ListTransactions: what a client asks; empty filters let everything through."""

    state_filters: list[str] = array(string())
    producer_id_filters: list[int] = array(int64())
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListedTransaction(Message):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """ListTransactions: what a broker answers."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string())
    transaction_states: list[ListedTransaction] = array(ListedTransaction)

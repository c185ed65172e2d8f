"""What ``kohort nodes`` and ``kohort transactions`` print."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kohort.results.result import Result


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node: how many partitions it leads, and how many of these hold groups; what it knows of itself."""

    node: int
    address: str | None
    state: Literal["up", "stopped"]
    leads: int
    group_partitions: int
    controller: bool
    loads: int | None = None
    """How many partitions of groups it has read from their log since it started."""
    load_avg_ms: int | None = None
    load_max_ms: int | None = None
    """How long that took; null where it has read none, or does not say."""
    late_ms: int | None = None
    """How late its loop was at most within the last one or two minutes."""
    late_max_ms: int | None = None
    """The same since it started."""
    unknown: str | None = None
    """Why it does not tell how long loads took and how late it was."""


class NodesListed(Result, frozen=True, kw_only=True, tag="kohort/v1/nodes.list"):
    """The nodes of a cluster."""

    LINES: ClassVar[str] = "nodes"

    nodes: list[NodeRow]


class TransactionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id, and what it has open; ``seconds`` since it was begun, null where nothing is open."""

    transactional_id: str
    state: str
    seconds: float | None
    timeout_ms: int
    producer_id: int
    producer_epoch: int
    coordinator_id: int
    partitions: list[str]


class TransactionsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/transactions"):
    """Transactional ids, the longest open first."""

    LINES: ClassVar[str] = "transactions"

    transactions: list[TransactionRow]


class TransactionDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/transaction"):
    """One transactional id, and what it has open."""

    transactional_id: str
    state: str
    seconds: float | None
    timeout_ms: int
    producer_id: int
    producer_epoch: int
    coordinator_id: int
    partitions: list[str]


class HangingTransactionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that a partition has open and no coordinator will end. ``coordinator_epoch`` is that of the
    producer's last marker there, null before the first; ``silent_seconds`` is how old its last batch is by its time
    stamp, null where the leader does not know; ``transactional_id`` is null where none has the producer id."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int
    silent_seconds: float | None
    transactional_id: str | None


class HangingTransactionsFound(Result, frozen=True, kw_only=True, tag="kohort/v1/transactions.hanging"):
    """Hanging transactions, by partition."""

    LINES: ClassVar[str] = "transactions"

    transactions: list[HangingTransactionRow]

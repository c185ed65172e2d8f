"""What one node did and the others must know; each finds it in its inbox before it looks at anything else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeadersMoved:
    """These partitions (topic id and number) have another leader, or another epoch."""

    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class TopicsGone:
    """These topics were deleted: what groups committed there is forgotten, and who waits for their records looks."""

    names: tuple[str, ...]
    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class PartitionAppended:
    """Another node appended to a partition that is led here (the journal of groups)."""

    partition: tuple[bytes, int]
    size: int


@dataclass(frozen=True, slots=True)
class TransactionMarked:
    """A marker was written to a partition: what a producer wrote there is decided, and may be read."""

    topic: str
    partition: tuple[bytes, int]
    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True)
class BrokerOptionsChanged:
    """Options of brokers were changed at run time."""


NodeMessage = BrokerOptionsChanged | LeadersMoved | TopicsGone | PartitionAppended | TransactionMarked

"""Nodes of a cluster: their addresses on each listener, and the messages that they send each other.

A node reads its inbox before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.config.broker import BrokerConfig
from kohort.config.listeners import advertised_of
from kohort.model import Node


class AdvertisedNode(NamedTuple):
    """One of the cluster's nodes; ``at`` has what is told of it on each listener, by the listener's name."""

    node_id: int
    at: Mapping[str, Node]

    @property
    def first(self) -> Node:
        """The address of its first listener."""
        return next(iter(self.at.values()))


def node_of(config: BrokerConfig, node_id: int) -> AdvertisedNode:
    """Return this broker as clients are told to find it. Raises ConfigError for addresses that cannot be told."""
    listeners = advertised_of(config)
    return AdvertisedNode(node_id, {one.name: Node(node_id, one.host, one.port, config.rack) for one in listeners})


@dataclass(frozen=True, slots=True)
class LeadersMoved:
    """These partitions (topic id and number) have another leader, or another epoch."""

    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
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


NodeMessage = BrokerOptionsChanged | LeadersMoved | TopicsDeleted | PartitionAppended | TransactionMarked

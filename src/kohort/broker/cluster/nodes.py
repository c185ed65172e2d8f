"""Nodes of a cluster: their addresses, and the messages between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.config.broker import BrokerConfig
from kohort.config.listeners import advertised_of
from kohort.model import Node


class AdvertisedNode(NamedTuple):
    """A node and its addresses; ``at``: the address on each listener, by listener name."""

    node_id: int
    at: Mapping[str, Node]

    @property
    def first(self) -> Node:
        return next(iter(self.at.values()))


def node_of(config: BrokerConfig, node_id: int) -> AdvertisedNode:
    listeners = advertised_of(config)
    return AdvertisedNode(node_id, {one.name: Node(node_id, one.host, one.port, config.rack) for one in listeners})


@dataclass(frozen=True, slots=True)
class LeadersMoved:
    """Message to all nodes: partitions that have a new leader or leader epoch."""

    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class TopicsRemoved:
    """Message to all nodes: remove the committed offsets of deleted topics, and answer their waiting fetches."""

    names: tuple[str, ...]
    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class PartitionAppended:
    """Message to a partition's leader: a different node appended to the partition."""

    partition: tuple[bytes, int]
    size: int


@dataclass(frozen=True, slots=True)
class TransactionMarked:
    """Message to all nodes: a marker committed or aborted a producer's records in a partition."""

    topic: str
    partition: tuple[bytes, int]
    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True)
class BrokerOptionsChanged:
    pass


NodeMessage = BrokerOptionsChanged | LeadersMoved | TopicsRemoved | PartitionAppended | TransactionMarked

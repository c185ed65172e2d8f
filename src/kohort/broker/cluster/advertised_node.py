"""A node as its clients are told to find it: on each listener at an address of its own."""

from __future__ import annotations

from collections.abc import Mapping
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
        """What is told of it on its first listener."""
        return next(iter(self.at.values()))


def node_of(config: BrokerConfig, node_id: int) -> AdvertisedNode:
    """Return this broker as clients are told to find it. Raises ConfigError for addresses that cannot be told."""
    listeners = advertised_of(config)
    return AdvertisedNode(node_id, {one.name: Node(node_id, one.host, one.port, config.rack) for one in listeners})

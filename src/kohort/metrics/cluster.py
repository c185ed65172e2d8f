"""A cluster at one moment, as the families are made from it: whoever looked, and however."""

from __future__ import annotations

import msgspec

from kohort.insight.snapshot import GroupSnapshot


class BrokerPlace(msgspec.Struct, frozen=True):
    """A broker, and where it is."""

    node_id: int
    address: str
    """``host:port``."""


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a topic; unknown is None."""

    partition: int
    leader: int | None = None
    replicas: int | None = None
    in_sync: int | None = None
    first_replica: int | None = None
    log_start: int | None = None
    log_end: int | None = None


class TopicState(msgspec.Struct, frozen=True):
    """A topic."""

    name: str
    partitions: tuple[PartitionState, ...]


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that is asked of a cluster at once."""

    at_ms: int
    cluster_id: str = ""
    brokers: tuple[BrokerPlace, ...] = ()
    topics: tuple[TopicState, ...] = ()
    groups: tuple[GroupSnapshot, ...] = ()
    took_ms: float = 0.0

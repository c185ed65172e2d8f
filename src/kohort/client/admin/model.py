"""What administrative calls take and return: small frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.model import Node, TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created. The counts are -1 where the broker does not tell (before Kafka 2.4)."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic, without the details of its partitions."""

    name: str
    topic_id: bytes
    partitions: int
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition: who leads it (-1: nobody), who holds it, who is in sync."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster: its id, its controller (-1: none told), its brokers."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class ConfigResource(NamedTuple):
    """Whose configuration: ``ConfigResource("topic", "orders")`` or ``ConfigResource("broker", "1")``."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One option as it holds for a resource. ``value`` is None where it is secret or not set."""

    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id that a coordinator knows."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The transaction of a transactional id, or that it has none open: then ``started_ms`` is None."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    """Milliseconds since 1970, by the coordinator's clock."""
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group, without its members. State and type are empty where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group: who it is, what it wants and what it owns."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    raw_metadata: bytes
    raw_assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[MemberDescription, ...]


class ListedOffset(NamedTuple):
    """An offset found by its place or by time; -1 where no record is that young."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way to other replicas: all of them by now, those that are added, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

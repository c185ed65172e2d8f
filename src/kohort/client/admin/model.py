"""What administrative calls take and return: small frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.model import NO_EPOCH, Node, TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create, for ``create_topics``; a count of -1 takes the broker's default. ``configs``: its options."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created; ``topic_id`` is a UUID of 16 bytes, all 0 where the broker gives none (KIP-516).

    The counts are -1 where the broker does not tell (before Kafka 2.4, KIP-525).
    """

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic, with the number of its partitions. ``internal``: the cluster keeps it for itself."""

    name: str
    topic_id: bytes
    partitions: int
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition: the node that leads it (-1: none), those that hold it (``replicas``), those in sync (``isr``)."""

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
    """The cluster: its id, the node that is its controller (-1: not told), its brokers."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class ConfigResource(NamedTuple):
    """What has options: ``ConfigResource("topic", "orders")`` or ``ConfigResource("broker", "1")``, by its node id."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One option in force for a resource. ``value`` is None where it is secret (``sensitive``) or not set.

    ``source`` is where it was set: ``"topic"``, ``"dynamic broker"``, ``"static broker"``, ``"default"`` and the like.
    """

    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id that a coordinator knows. ``state`` is Kafka's, such as ``"Ongoing"`` (KIP-664)."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The transaction of a transactional id (KIP-664). If none is open, ``started_ms`` is None."""

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
class ProducerState:
    """A producer as the leader of a partition knows it (KIP-664): the last that it wrote there, and what it has open.

    ``last_timestamp_ms`` is of its last batch, by the clock that stamps records; it and ``last_sequence`` are -1 where
    the leader does not know. ``coordinator_epoch`` is that of the last marker, None before the first.
    ``transaction_start_offset`` is where its open transaction begins, None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group, without its members. State (KIP-518) and type (KIP-848) are empty where a broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group: who it is, the topics that it subscribes to, the partitions that it owns.

    ``group_instance_id`` is None for one that is not static (KIP-345). ``raw_metadata`` and ``raw_assignment`` are the
    protocol's bytes, for classic groups that are not of consumers. ``member_type`` is ``"classic"`` or ``"consumer"``,
    empty where a broker is too old to tell. In a group of type consumer (KIP-848) a member also has an epoch and a
    target, may subscribe by a regular expression (``topic_regex``) and name its rack; in a classic one they are -1
    and None. ``assignment`` then holds what the member is yet to give up too.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]
    raw_metadata: bytes
    raw_assignment: bytes
    member_type: str = ""
    member_epoch: int = NO_EPOCH
    target_assignment: tuple[TopicPartition, ...] | None = None
    topic_regex: str | None = None
    rack_id: str | None = None

    @property
    def to_give_up(self) -> tuple[TopicPartition, ...]:
        """Return what the member has and is not meant to have, sorted; nothing in a classic group."""
        if self.target_assignment is None:
            return ()
        return tuple(sorted(set(self.assignment) - set(self.target_assignment)))

    @property
    def to_get(self) -> tuple[TopicPartition, ...]:
        """Return what the member is meant to have and has not yet, sorted; nothing in a classic group."""
        return tuple(sorted(set(self.target_assignment or ()) - set(self.assignment)))


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members. ``state`` is Kafka's, such as ``"Stable"``; ``assignor`` is empty in an empty classic
    group.

    ``group_type`` is ``"classic"`` or ``"consumer"`` (KIP-848). Of the latter two epochs are told: ``group_epoch``
    grows with each change of members and subscriptions, ``assignment_epoch`` is the one that the target was computed
    for; -1 in a classic group.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[MemberDescription, ...]
    group_type: str = ""
    group_epoch: int = NO_EPOCH
    assignment_epoch: int = NO_EPOCH


class ListedOffset(NamedTuple):
    """An offset found by its place or by time, and the time of its record; -1 where no record is that young."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class LogEnds(NamedTuple):
    """Where the log of a partition begins, where it ends for readers of committed records (``last_stable``, before the
    oldest open transaction), and where it ends for all others (``log_end``, the high watermark)."""

    log_start: int
    last_stable: int
    log_end: int


class PartitionOffset(NamedTuple):
    """An offset of a partition."""

    partition: TopicPartition
    offset: int


class FirstRecord(NamedTuple):
    """A record as far as one looks at it who asks when it was appended: its offset and time stamp."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way to other replicas, as node ids: all of now, those that are added, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

"""Frozen dataclasses for the arguments and results of admin calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.errors import KohortError
from kohort.model import NO_EPOCH, Node, TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create with ``create_topics``.

    If ``partitions`` or ``replication_factor`` is -1, the broker's default applies. ``configs``: topic options.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. ``topic_id`` is a UUID of 16 bytes, all 0 if the broker has no topic ids (KIP-516).

    ``partitions`` and ``replication_factor`` are -1 if the broker does not return them (before Kafka 2.4, KIP-525).
    """

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic and its number of partitions. ``internal`` is True for topics of the cluster itself."""

    name: str
    topic_id: bytes
    partitions: int
    internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition: node ids of its leader (-1: none), of all ``replicas``, and of the in-sync replicas (``isr``)."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions, sorted by partition number."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster: its id, the node id of its controller (-1: unknown), and its nodes."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class ConfigResource(NamedTuple):
    """A resource with configurable options, such as ``ConfigResource("topic", "orders")``.

    A broker is named by its node id: ``ConfigResource("broker", "1")``.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """Effective value of an option. ``value`` is None if the option is secret (``sensitive``) or not set.

    ``source`` is the origin of the value: ``"topic"``, ``"dynamic broker"``, ``"static broker"``, ``"default"``...
    """

    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and its coordinator (KIP-664). ``state`` is Kafka's state name, such as ``"Ongoing"``."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """State of a transactional id and of its transaction (KIP-664)."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    """Time in ms since 1970 at which the open transaction started; None if no transaction is open."""
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """State of one producer, as the leader of a partition stores it (KIP-664).

    ``last_timestamp_ms``: timestamp of the producer's last batch in ms since 1970. ``last_timestamp_ms`` and
    ``last_sequence`` are -1 if unknown. ``coordinator_epoch``: epoch of the producer's last transaction marker; None
    if it has no marker. ``transaction_start_offset``: first offset of the open transaction; None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group without its members. Old brokers leave ``state`` (KIP-518) and ``group_type`` (KIP-848) empty."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A group member: its ids, subscribed topics and owned partitions.

    ``group_instance_id`` is None for a dynamic member (KIP-345). ``raw_metadata`` and ``raw_assignment``: undecoded
    bytes of a classic group's protocol. ``member_type`` is ``"classic"`` or ``"consumer"``, empty on old brokers. A
    member of a consumer group (KIP-848) has an epoch and a target assignment. It may have a subscription pattern
    (``topic_regex``) and a rack. In a classic group the epoch is -1, and target, pattern and rack are None.
    ``assignment`` includes partitions that the member has yet to revoke.
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
    def to_revoke(self) -> tuple[TopicPartition, ...]:
        """Owned partitions that the member must still revoke, because its target assignment lacks them.

        Sorted; empty in a classic group.
        """
        if self.target_assignment is None:
            return ()
        return tuple(sorted(set(self.assignment) - set(self.target_assignment)))

    @property
    def to_get(self) -> tuple[TopicPartition, ...]:
        """Partitions of the target assignment that the member does not own yet, sorted. Empty in a classic group."""
        return tuple(sorted(set(self.target_assignment or ()) - set(self.assignment)))


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members. ``state`` is Kafka's state name, such as ``"Stable"``.

    ``assignor`` is empty for a classic group without members. ``group_type`` is ``"classic"`` or ``"consumer"``
    (KIP-848). In a consumer group ``group_epoch`` grows with each change of members and subscriptions, and
    ``assignment_epoch`` is the group epoch for which the target assignment was computed. In a classic group both epochs
    are -1.
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
    """An offset (-1: no record matches), and the timestamp of that record in ms since 1970 (-1: unknown)."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class LogEnds(NamedTuple):
    """Start offset and end offsets of a partition's log.

    ``last_stable``: end for consumers with read_committed: first offset of the oldest open transaction, or the high
    watermark if no transaction is open. ``log_end``: end for all other consumers: the high watermark.
    """

    log_start: int
    last_stable: int
    log_end: int


class PartitionOffset(NamedTuple):
    """Offset in a partition, from which ``first_records`` searches for a record."""

    partition: TopicPartition
    offset: int


class FirstRecord(NamedTuple):
    """First record at or after an offset: the record's offset, and its timestamp in ms since 1970."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker: sizes in bytes of its partitions and of its disk (KIP-113, KIP-827).

    ``total_bytes`` and ``usable_bytes`` are None if the broker does not report them. ``error`` is set if
    the directory is offline.
    """

    path: str
    sizes: Mapping[TopicPartition, int]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: KohortError | None = None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress: node ids of the current replicas, of replicas to add, and of replicas to remove."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

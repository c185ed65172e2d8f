"""Results of commands about a cluster: nodes, transactions, topics, users, ACLs, quotas, client metrics."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kohort.results.result import Result


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node, and the number of partitions that it leads. Null fields are unknown."""

    node: int
    address: str | None
    state: Literal["up", "stopped"]
    leads: int
    group_partitions: int
    controller: bool
    loads: int | None = None
    """Number of times that the node has loaded a partition of ``__consumer_offsets`` since its start."""
    load_avg_ms: int | None = None
    load_max_ms: int | None = None
    late_ms: int | None = None
    """Longest delay of the node's event loop in the last one to two minutes, in ms."""
    late_max_ms: int | None = None
    """Longest delay of the node's event loop since its start, in ms."""
    unknown: str | None = None
    """Reason why the node's statistics are missing."""
    replicas: int | None = None
    """Number of partitions with a replica on the node."""
    log_bytes: int | None = None
    """Size of all logs on the node, in bytes."""
    disk_bytes: int | None = None
    """Size of the disks with the node's log directories, in bytes."""
    disk_free_bytes: int | None = None
    logs_unknown: str | None = None
    """Reason why the sizes of logs are missing."""


class NodesListed(Result, frozen=True, kw_only=True, tag="kohort/v1/nodes.list"):
    LINES: ClassVar[str] = "nodes"

    nodes: list[NodeRow]


class TransactionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id. ``seconds`` is the age of its open transaction, null without an open transaction."""

    transactional_id: str
    state: str
    seconds: float | None
    timeout_ms: int
    producer_id: int
    producer_epoch: int
    coordinator_id: int
    partitions: list[str]


class TransactionsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/transactions"):
    """Transactional ids. The id with the longest open transaction is first."""

    LINES: ClassVar[str] = "transactions"

    transactions: list[TransactionRow]


class TransactionDescribed(TransactionRow, Result, frozen=True, kw_only=True, tag="kohort/v1/transaction"):
    pass


class HangingTransactionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hanging transaction in a partition.

    ``coordinator_epoch``: coordinator epoch of the producer's last transaction marker, null if it has none.
    ``silent_seconds``: age of the producer's last batch, null if unknown. ``transactional_id``: null if no
    transactional id has the producer id.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int
    silent_seconds: float | None
    transactional_id: str | None


class HangingTransactionsFound(Result, frozen=True, kw_only=True, tag="kohort/v1/transactions.hanging"):
    LINES: ClassVar[str] = "transactions"

    transactions: list[HangingTransactionRow]


class CreatedTopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was created. ``partitions`` is -1 if the broker does not report the partition count."""

    name: str
    topic_id: str
    partitions: int


class TopicsCreated(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.create"):
    LINES: ClassVar[str] = "created"

    created: list[CreatedTopicRow]


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    topic_id: str
    partitions: int
    internal: bool


class TopicsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.list"):
    LINES: ClassVar[str] = "topics"

    topics: list[TopicRow]


class TopicPartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a topic. ``leader`` is -1 if the partition has no leader."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int
    log_end_offset: int

    @property
    def records(self) -> int:
        return self.log_end_offset - self.log_start_offset


class TopicAbout(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its partitions, and the options that differ from the defaults. Secret option values are null."""

    name: str
    topic_id: str
    internal: bool
    configs: dict[str, str | None]
    partitions: list[TopicPartitionRow]


class TopicsDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.describe"):
    LINES: ClassVar[str] = "topics"

    topics: list[TopicAbout]


class TopicsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.delete"):
    deleted: list[str]


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    interval_ms: int
    metrics: list[str]
    """Prefixes of metric names: clients push the metrics whose names start with one of them.

    ``*`` means all metrics.
    """
    match: list[str]
    """Conditions such as ``client_id=REGEX``. The subscription applies to clients that match all conditions."""


class SubscriptionsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.list"):
    LINES: ClassVar[str] = "subscriptions"

    subscriptions: list[SubscriptionRow]


class SubscriptionSet(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.set"):
    subscription: SubscriptionRow


class SubscriptionRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.remove"):
    removed: str


class PushedValue(msgspec.Struct, frozen=True, kw_only=True):
    metric: str
    labels: dict[str, str]
    value: float


class PushingClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client, and the metrics of its last push. Null fields are unknown."""

    client_instance_id: str
    client_id: str
    host: str
    software: str | None
    principal: str | None
    node_id: int
    group: str | None
    member_id: str | None
    pushed_at_ms: int
    interval_ms: int
    is_last: bool
    """True if the client sent this push while it closed. No later push follows."""
    is_cut: bool
    """True if the push contained more values than the maximum: the excess values were dropped."""
    labels: dict[str, str]
    values: list[PushedValue]


class ClientsShown(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.show"):
    LINES: ClassVar[str] = "clients"

    clients: list[PushingClient]


class AclRow(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL. Permission, operation and types have the lower-case names of Kafka's tools."""

    principal: str
    permission: str
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    host: str


class AclsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.list"):
    LINES: ClassVar[str] = "acls"

    acls: list[AclRow]


class AclsAdded(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.add"):
    LINES: ClassVar[str] = "added"

    added: list[AclRow]


class AclsRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.remove"):
    LINES: ClassVar[str] = "removed"

    removed: list[AclRow]


class MechanismRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    iterations: int


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    mechanisms: list[MechanismRow]


class UsersListed(Result, frozen=True, kw_only=True, tag="kohort/v1/users.list"):
    LINES: ClassVar[str] = "users"

    users: list[UserRow]


class UserAdded(Result, frozen=True, kw_only=True, tag="kohort/v1/users.add"):
    user: str
    mechanisms: list[str]


class RemovedPassword(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    mechanism: str


class UsersRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/users.remove"):
    LINES: ClassVar[str] = "removed"

    removed: list[RemovedPassword]


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas of an entity. ``entity`` maps entity type to name; a null name stands for the default of the type."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotasListed(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.list"):
    LINES: ClassVar[str] = "quotas"

    quotas: list[QuotaRow]


class QuotasSet(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.set"):
    entity: dict[str, str | None]
    values: dict[str, float]


class QuotasRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.remove"):
    entity: dict[str, str | None]
    removed: list[str]

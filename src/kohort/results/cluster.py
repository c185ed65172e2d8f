"""Results of commands about a cluster: nodes, transactions, topics, users, ACLs, quotas, client metrics."""

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


class CreatedTopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was created. ``partitions`` is -1 where the broker does not tell."""

    name: str
    topic_id: str
    partitions: int


class TopicsCreated(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.create"):
    """The topics that were created."""

    LINES: ClassVar[str] = "created"

    created: list[CreatedTopicRow]


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a line."""

    name: str
    topic_id: str
    partitions: int
    internal: bool


class TopicsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.list"):
    """Topics, by name."""

    LINES: ClassVar[str] = "topics"

    topics: list[TopicRow]


class TopicPartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: who leads it (-1: nobody), and from where to where its records reach."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int
    log_end_offset: int

    @property
    def records(self) -> int:
        """Return how many offsets lie between its beginning and its end."""
        return self.log_end_offset - self.log_start_offset


class TopicAbout(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its partitions, and the options that are not the defaults; null is a value that is secret."""

    name: str
    topic_id: str
    internal: bool
    configs: dict[str, str | None]
    partitions: list[TopicPartitionRow]


class TopicsDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.describe"):
    """Topics with their partitions."""

    LINES: ClassVar[str] = "topics"

    topics: list[TopicAbout]


class TopicsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.delete"):
    """The names of the topics that were deleted."""

    deleted: list[str]


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: what is asked of which clients, and how often."""

    name: str
    interval_ms: int
    metrics: list[str]
    """Prefixes of names; ``*`` is everything."""
    match: list[str]
    """``client_id=EXPRESSION`` and the like, all of which a client must match; none: every client."""


class SubscriptionsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.list"):
    """The subscriptions to metrics of clients."""

    LINES: ClassVar[str] = "subscriptions"

    subscriptions: list[SubscriptionRow]


class SubscriptionSet(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.set"):
    """A subscription as it is now."""

    subscription: SubscriptionRow


class SubscriptionRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.remove"):
    """A subscription that is gone."""

    removed: str


class PushedValue(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a client pushed."""

    metric: str
    labels: dict[str, str]
    value: float


class PushingClient(msgspec.Struct, frozen=True, kw_only=True):
    """What one client pushed last; what it did not say is null."""

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
    """It has said that there will be no other."""
    is_cut: bool
    """It pushed more than is kept."""
    labels: dict[str, str]
    values: list[PushedValue]


class ClientsShown(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.show"):
    """Clients by what they pushed."""

    LINES: ClassVar[str] = "clients"

    clients: list[PushingClient]


class AclRow(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL; its words are those of Kafka's tools, in small letters."""

    principal: str
    permission: str
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    host: str


class AclsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.list"):
    """ACLs, by resource."""

    LINES: ClassVar[str] = "acls"

    acls: list[AclRow]


class AclsAdded(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.add"):
    """The ACLs that were added."""

    LINES: ClassVar[str] = "added"

    added: list[AclRow]


class AclsRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.remove"):
    """The ACLs that were removed."""

    LINES: ClassVar[str] = "removed"

    removed: list[AclRow]


class MechanismRow(msgspec.Struct, frozen=True, kw_only=True):
    """A mechanism that a user has a password for."""

    name: str
    iterations: int


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user that logs in with a password (SCRAM)."""

    user: str
    mechanisms: list[MechanismRow]


class UsersListed(Result, frozen=True, kw_only=True, tag="kohort/v1/users.list"):
    """Users with their mechanisms."""

    LINES: ClassVar[str] = "users"

    users: list[UserRow]


class UserAdded(Result, frozen=True, kw_only=True, tag="kohort/v1/users.add"):
    """A user that was given a password, and for which mechanisms."""

    user: str
    mechanisms: list[str]


class RemovedPassword(msgspec.Struct, frozen=True, kw_only=True):
    """A password that is gone."""

    user: str
    mechanism: str


class UsersRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/users.remove"):
    """The passwords that were removed."""

    LINES: ClassVar[str] = "removed"

    removed: list[RemovedPassword]


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas of somebody: of each type that counts the name, null for the default; and the values."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotasListed(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.list"):
    """Quotas, by whom they are for."""

    LINES: ClassVar[str] = "quotas"

    quotas: list[QuotaRow]


class QuotasSet(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.set"):
    """The quotas that were set."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotasRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.remove"):
    """The names of the quotas that were removed."""

    entity: dict[str, str | None]
    removed: list[str]

"""State of a broker that its request handlers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kohort.broker.audit import Audit
from kohort.broker.client_metrics import ClientMetrics
from kohort.broker.client_quotas import ClientQuotas
from kohort.broker.cluster.access_control import AccessControl
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.nodes import AdvertisedNode
from kohort.broker.connections.budgets import UnreadAnswers
from kohort.broker.connections.open_connections import OpenConnections
from kohort.broker.counters import BrokerCounters
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.login_mechanisms import LoginMechanisms
from kohort.broker.offsets_topic import OffsetsTopic
from kohort.broker.purgatory import FlushWaits, Purgatory
from kohort.broker.request import ConnectionId, Intercept, ReplyTo
from kohort.broker.served_apis import ServedApis
from kohort.clock import Rng, earliest
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import Listener
from kohort.coordinator.outcome import Reply
from kohort.coordinator.runtime import Coordinator
from kohort.log.topics import Topic, Topics
from kohort.notes import Note
from kohort.wire.schema import Message


@dataclass(slots=True)
class BrokerState:
    started_with: BrokerConfig
    """Broker options at broker start."""
    config: BrokerConfig
    """Broker options in effect, including changes at run time."""
    rng: Rng
    node: AdvertisedNode
    listeners: Mapping[str, Listener]
    """Listeners with the ports that the server bound, as a dict: listener name to listener."""
    apis: ServedApis
    cluster: Cluster
    topics: Topics
    coordinator: Coordinator
    offsets_topic: OffsetsTopic
    internal_topics: Mapping[str, Callable[[int], Topic]]
    """Internal topics, as a dict: topic name to a function that returns the topic, and creates it if missing."""
    sessions: FetchSessions
    purgatory: Purgatory
    unread: UnreadAnswers
    logins: LoginMechanisms
    quotas: ClientQuotas
    connections: OpenConnections
    client_metrics: ClientMetrics
    flushes: FlushWaits = field(default_factory=FlushWaits)
    released: list[Reply] = field(default_factory=list)
    access: AccessControl | None = None
    """The authorizer; None gives each client all rights."""
    audit: Audit = field(default_factory=Audit)
    amendments: dict[ConnectionId, Callable[[Message], Message]] = field(default_factory=dict)
    """For each connection id: function that adds errors of denied resources to the pending response."""
    intercept: Intercept | None = None
    counters: BrokerCounters = field(default_factory=BrokerCounters)

    def reconfigure(self) -> None:
        self.config = self.cluster.broker_options.in_force(self.started_with, str(self.node.node_id))
        self.coordinator.reconfigure(self.config)
        self.connections.reconfigure(self.config)

    def take_released(self, reply_to: ReplyTo) -> Message | None:
        """Remove and return the coordinator's unsent response to a request, to encode it in steps."""
        for place, reply in enumerate(self.released):
            if reply.to == reply_to:
                del self.released[place]
                return reply.message
        return None

    @property
    def wake_at_ms(self) -> int | None:
        return earliest(
            self.purgatory.wake_at_ms,
            self.coordinator.wake_at_ms,
            self.topics.wake_at_ms,
            self.cluster.transactions.wake_at_ms,
            self.logins.wake_at_ms,
            self.flushes.wake_at_ms,
        )

    def take_notes(self) -> list[Note]:
        return [*self.topics.take_disk_errors(), *self.audit.take_notes(), *self.client_metrics.take_notes()]

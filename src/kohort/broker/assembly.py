"""Construction of a broker's components (logs, groups, quotas, ...), for a single broker or a cluster node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kohort.broker.client_metrics import ClientMetrics
from kohort.broker.client_quotas import ClientQuotas
from kohort.broker.cluster.cluster import Cluster, ClusterNode
from kohort.broker.cluster.nodes import node_of
from kohort.broker.cluster.security_store import ScramUsers
from kohort.broker.connections.budgets import UnreadAnswers
from kohort.broker.connections.open_connections import OpenConnections
from kohort.broker.counters import BrokerCounters
from kohort.broker.dispatch import SERVED
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.group_journal import GroupJournal
from kohort.broker.login_mechanisms import LoginMechanisms
from kohort.broker.offsets_topic import OffsetsTopic
from kohort.broker.purgatory import Purgatory
from kohort.broker.request import Intercept
from kohort.broker.served_apis import served_as
from kohort.broker.state import BrokerState
from kohort.clock import Rng
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import listeners_of
from kohort.coordinator.runtime import CheckDecision, Coordinator
from kohort.log.storage import Storage
from kohort.log.topics import Topics
from kohort.steps import at_once
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest

OF_CONSUMER_GROUPS: Final = frozenset({ConsumerGroupHeartbeatRequest.API_KEY, ConsumerGroupDescribeRequest.API_KEY})


def assemble(
    config: BrokerConfig,
    home: Storage | ClusterNode,
    rng: Rng,
    now_ms: int,
    *,
    check: CheckDecision | None = None,
    intercept: Intercept | None = None,
) -> tuple[BrokerState, GroupJournal]:
    """Build a broker's state, and the writer of ``__kohort_journal``; for the arguments see ``Broker``."""
    purgatory, counters = Purgatory(), BrokerCounters()
    if isinstance(home, ClusterNode):
        cluster, node = home.cluster, home.cluster.nodes[home.node_id]
    else:
        cluster = Cluster(config, home, rng, now_ms)
        node = node_of(config, cluster.topics.node_id)
        cluster.add_only(node)
    offsets_topic = OffsetsTopic(config, cluster, node.node_id, purgatory, counters)
    if config.offsets_topic_num_partitions != offsets_topic.partition_count:
        config = replace(config, offsets_topic_num_partitions=offsets_topic.partition_count)
    coordinator = Coordinator(
        config,
        rng,
        CatalogueView(cluster.topics),
        offsets_topic.append,
        options_of_group=cluster.group_options.of,
        check=check,
    )
    coordinator.wall = cluster.wall
    journal = GroupJournal(cluster, coordinator.committed)
    client_metrics = ClientMetrics(config, cluster, rng)
    users = ScramUsers(cluster.security)
    if config.add_scram:
        users.add_first(config.add_scram, rng)
    has_consumer_groups = "consumer" in config.group_coordinator_rebalance_protocols
    offered = {key: api for key, api in SERVED.items() if has_consumer_groups or key not in OF_CONSUMER_GROUPS}
    state = BrokerState(
        started_with=config,
        config=config,
        rng=rng,
        node=node,
        listeners={listener.name: listener for listener in listeners_of(config)},
        apis=served_as(offered, config.as_version),
        cluster=cluster,
        topics=cluster.topics,
        coordinator=coordinator,
        offsets_topic=offsets_topic,
        internal_topics={
            offsets_topic.name: offsets_topic.ensure,
            journal.name: journal.ensure_flushed,
            client_metrics.name: client_metrics.ensure,
            cluster.transactions.name: cluster.transactions.ensure,
        },
        sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, rng),
        purgatory=purgatory,
        unread=UnreadAnswers(config.queued_max_request_bytes),
        logins=LoginMechanisms(config, users, rng, now_ms, cluster.wall),
        quotas=ClientQuotas(config, cluster.quotas),
        connections=OpenConnections(config, cluster.quotas),
        client_metrics=client_metrics,
        intercept=intercept,
        access=cluster.access,
        counters=counters,
    )
    if cluster.broker_options.by_name:
        state.reconfigure()
        at_once(cluster.reconfigure())
    return state, journal


class CatalogueView:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def topic_id(self, name: str) -> bytes | None:
        topic = self._topics.get(name)
        return topic.topic_id if topic is not None else None

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._topics.by_id(topic_id)
        return topic.name if topic is not None else None

    def partition_count(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return len(topic.partitions) if topic is not None else None

    def names(self) -> Iterable[str]:
        return (topic.name for topic in self._topics)

    def end_offset(self, name: str, partition: int) -> int | None:
        topic = self._topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition].high_watermark

    def made_at_ms(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return topic.made_at_ms if topic is not None else None

    @property
    def version(self) -> int:
        return self._topics.version

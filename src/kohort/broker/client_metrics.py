"""Client metrics of one node (KIP-714), and the topic ``__kohort_client_metrics`` with each client's last push.

Record key: the client instance id. Record value: the metrics as JSON (kohort.telemetry.report). The topic has one
partition, is compacted, and limited in time and size. A failed write is logged and rejects no push.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.nodes import PartitionAppended
from kohort.clock import Rng
from kohort.config.broker import BrokerConfig
from kohort.errors import KohortError
from kohort.log.topics import Topic
from kohort.notes import Note, warning
from kohort.telemetry.instances import ClientInstance, ClientInstances
from kohort.telemetry.report import TOPIC, ClientReport, build_report
from kohort.telemetry.subscriptions import ClientFacts
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch

OVERRIDES: Final = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(24 * 60 * 60 * 1000),
    "retention.bytes": str(64 << 20),
    "segment.bytes": str(8 << 20),
    "max.message.bytes": str(4 << 20),
}
NAME_MOST: Final = 256


class ClientMetrics:
    """Software and last pushed metrics of each client of a node."""

    name = TOPIC

    def __init__(self, config: BrokerConfig, cluster: Cluster, rng: Rng) -> None:
        self._cluster = cluster
        self.instances = ClientInstances(
            cluster.subscriptions.in_force, rng, config.client_metrics_max_instances, config.client_metrics_max_values
        )
        self._software: dict[int, tuple[str, str]] = {}
        self._notes: list[Note] = []

    def set_software(self, connection: int, name: str, version: str) -> None:
        self._software[connection] = name[:NAME_MOST], version[:NAME_MOST]

    def facts_of(self, connection: int, client_id: str, host: str, port: int | None) -> ClientFacts:
        name, version = self._software.get(connection, (None, None))
        return ClientFacts(client_id[:NAME_MOST], host, port, name, version)

    def software_of(self, connection: int) -> str | None:
        """Return name and version of the client software of a connection, None if unknown."""
        software = self._software.get(connection)
        return None if software is None else f"{software[0]} {software[1]}"[:NAME_MOST]

    def forget_connection(self, connection: int) -> None:
        self._software.pop(connection, None)
        self.instances.forget_connection(connection)

    def ensure(self, now_ms: int) -> Topic:
        """Return the topic ``__kohort_client_metrics``; create it if missing. Raises KohortError."""
        topic = self._cluster.topics.get(TOPIC)
        return topic or self._cluster.topics.create(TOPIC, 1, OVERRIDES, now_ms, internal=True)

    def take(self, client: ClientInstance, report: ClientReport | None, now_ms: int) -> None:
        """Store the metrics of a client's last push, in memory and in ``__kohort_client_metrics``."""
        self.instances.take(client, report)
        if report is None:
            return
        try:
            topic = self.ensure(now_ms)
            record = NewRecord(client.text.encode(), build_report(report), (), self._cluster.wall.at(now_ms))
            batch = build_batch([record], codec=Codec.ZSTD)
            topic.partitions[0].append(batch, now_ms, from_client=False)
            leader = self._cluster.leader_of(topic, 0)
            self._cluster.notify_node(leader, PartitionAppended((topic.topic_id, 0), len(batch)))
        except KohortError as error:
            self._notes = [warning(f"the metrics that a client pushed are not stored: {error}", "client metrics")]

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes

"""Metrics of clients on one node: who pushes, with which software, and ``__kohort_client_metrics``, what they said.

Key: the client instance id. Value: its last report as JSON (kohort.telemetry.report). One partition, compacted, and
bounded in time and size. What cannot be written is told in the broker's log and refuses no push.
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
    """What a node knows of its clients by their pushes."""

    name = TOPIC

    def __init__(self, config: BrokerConfig, cluster: Cluster, rng: Rng) -> None:
        self._cluster = cluster
        self.instances = ClientInstances(
            cluster.subscriptions.in_force, rng, config.client_metrics_max_instances, config.client_metrics_max_values
        )
        self._software: dict[int, tuple[str, str]] = {}
        self._notes: list[Note] = []

    def set_software(self, connection: int, name: str, version: str) -> None:
        """Note what is behind a connection (KIP-511)."""
        self._software[connection] = name[:NAME_MOST], version[:NAME_MOST]

    def facts_of(self, connection: int, client_id: str, host: str, port: int | None) -> ClientFacts:
        """Return what is known of the client behind a connection."""
        name, version = self._software.get(connection, (None, None))
        return ClientFacts(client_id[:NAME_MOST], host, port, name, version)

    def software_of(self, connection: int) -> str | None:
        """Return what is behind a connection, name and version, for the journal of groups; None where it did not say.

        Both together are cut as each is: an entry stays small.
        """
        said = self._software.get(connection)
        return None if said is None else f"{said[0]} {said[1]}"[:NAME_MOST]

    def forget_connection(self, connection: int) -> None:
        """Forget who was behind a connection that is closed."""
        self._software.pop(connection, None)
        self.instances.forget_connection(connection)

    def ensure(self, now_ms: int) -> Topic:
        """Return the topic; create it if it is missing. Raises KohortError if that fails."""
        topic = self._cluster.topics.get(TOPIC)
        return topic or self._cluster.topics.create(TOPIC, 1, OVERRIDES, now_ms, internal=True)

    def take(self, client: ClientInstance, report: ClientReport | None, now_ms: int) -> None:
        """Keep what a client said, here and in the topic."""
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
            self._notes = [warning(f"a client's metrics are not kept: {error}", "client metrics")]

    def take_notes(self) -> list[Note]:
        """Return what to tell the operator, once."""
        notes, self._notes = self._notes, []
        return notes

"""Functions for both conversions: the migration policy, and the exchange of topic names for topic ids and back."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from kohort.config import BrokerConfig
from kohort.coordinator.outcome import TopicsView
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, build_assignment
from kohort.wire.messages.consumer_group_records import ClassicMemberMetadata

_VERSION = struct.Struct(">h")
BOTH_WAYS: Final = "bidirectional"


def may_mix(config: BrokerConfig) -> bool:
    return config.group_consumer_migration_policy != "disabled"


def may_upgrade(config: BrokerConfig) -> bool:
    return config.group_consumer_migration_policy in (BOTH_WAYS, "upgrade")


def may_downgrade(config: BrokerConfig) -> bool:
    return config.group_consumer_migration_policy in (BOTH_WAYS, "downgrade")


def partitions_by_id(partitions: Iterable[TopicPartition], topics: TopicsView) -> dict[bytes, frozenset[int]]:
    """Return partitions as a dict: topic id -> partition numbers. Unknown topics are omitted, as in Kafka."""
    by_id: dict[bytes, set[int]] = {}
    for topic, partition in partitions:
        topic_id = topics.topic_id(topic)
        if topic_id is not None:
            by_id.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in by_id.items()}


def assignment_for(
    metadata: ClassicMemberMetadata,
    partitions: Mapping[bytes, Iterable[int]],
    topics: TopicsView,
    protocol: str | None = None,
) -> bytes:
    """Encode a classic member's assignment, in the version of the member's subscription.

    ``protocol``: protocol name of this subscription; None: the member's first protocol.
    """
    named = ((topics.topic_name(topic_id), numbers) for topic_id, numbers in partitions.items())
    flat = [TopicPartition(name, p) for name, numbers in named if name is not None for p in sorted(numbers)]
    return build_assignment(Assignment(flat), _version_of(metadata, protocol))


def _version_of(metadata: ClassicMemberMetadata, protocol: str | None) -> int:
    blob = next((p.metadata for p in metadata.supported_protocols if protocol in (None, p.name)), b"")
    version: int = _VERSION.unpack_from(blob)[0] if len(blob) >= _VERSION.size else 0
    return min(version, 3)

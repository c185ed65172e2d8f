"""A topic's options, and which option of the broker each takes its default from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kohort.config.broker import COMPRESSION_TYPES, LONG_MAX, BrokerConfig
from kohort.config.options import option, options_of, unknown_option


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """How the log of a topic's partitions is kept."""

    cleanup_policy: list[str] = option(
        "cleanup.policy", ["delete"], "What happens to old segments.", choices=("delete", "compact")
    )
    segment_bytes: int = option("segment.bytes", 1073741824, "Size at which a segment is rolled.", low=1024)
    segment_ms: int = option("segment.ms", 604800000, "Age at which a segment is rolled.", low=1)
    index_interval_bytes: int = option("index.interval.bytes", 4096, "Bytes between index entries.", low=0)
    segment_index_bytes: int = option("segment.index.bytes", 10485760, "Largest index file.", low=4)
    retention_ms: int = option("retention.ms", 604800000, "Age after which records may go; -1: never.", low=-1)
    retention_bytes: int = option("retention.bytes", -1, "Size above which old segments go; -1: none.", low=-1)
    max_message_bytes: int = option("max.message.bytes", 1048588, "Largest record batch.", low=0)
    flush_messages: int = option("flush.messages", LONG_MAX, "Records after which the log is flushed.", low=1)
    flush_ms: int = option("flush.ms", LONG_MAX, "Time after which the log is flushed.", low=0)
    message_timestamp_type: str = option(
        "message.timestamp.type",
        "CreateTime",
        "Whether records keep the producer's time or take the broker's.",
        choices=("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms: int = option(
        "message.timestamp.before.max.ms", LONG_MAX, "How far a record's time may lie in the past.", low=0
    )
    message_timestamp_after_max_ms: int = option(
        "message.timestamp.after.max.ms", 3600000, "How far a record's time may lie in the future.", low=0
    )
    min_insync_replicas: int = option("min.insync.replicas", 1, "Replicas that must have a write; one exists.", low=1)
    compression_type: str = option(
        "compression.type", "producer", "Final codec; producer keeps what came.", choices=COMPRESSION_TYPES
    )
    delete_retention_ms: int = option("delete.retention.ms", 86400000, "How long compaction keeps a tombstone.", low=0)
    min_cleanable_dirty_ratio: float = option(
        "min.cleanable.dirty.ratio",
        0.5,
        "Share of a log that must be uncompacted before compaction starts.",
        low=0,
        high=1,
    )
    min_compaction_lag_ms: int = option(
        "min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", low=0
    )
    max_compaction_lag_ms: int = option(
        "max.compaction.lag.ms", LONG_MAX, "How long a record stays uncompacted at most.", low=1
    )


BROKER_SYNONYMS: dict[str, str] = {
    "cleanup_policy": "log_cleanup_policy",
    "segment_bytes": "log_segment_bytes",
    "segment_ms": "log_roll_ms",
    "index_interval_bytes": "log_index_interval_bytes",
    "segment_index_bytes": "log_index_size_max_bytes",
    "retention_ms": "log_retention_ms",
    "retention_bytes": "log_retention_bytes",
    "max_message_bytes": "message_max_bytes",
    "flush_messages": "log_flush_interval_messages",
    "flush_ms": "log_flush_interval_ms",
    "message_timestamp_type": "log_message_timestamp_type",
    "message_timestamp_before_max_ms": "log_message_timestamp_before_max_ms",
    "message_timestamp_after_max_ms": "log_message_timestamp_after_max_ms",
    "compression_type": "compression_type",
    "delete_retention_ms": "log_cleaner_delete_retention_ms",
    "min_cleanable_dirty_ratio": "log_cleaner_min_cleanable_ratio",
    "min_compaction_lag_ms": "log_cleaner_min_compaction_lag_ms",
    "max_compaction_lag_ms": "log_cleaner_max_compaction_lag_ms",
}
"""Attribute of TopicConfig to the attribute of BrokerConfig that it defaults to."""


def topic_defaults(broker: BrokerConfig) -> TopicConfig:
    """The configuration of a topic for which nothing is set."""
    return TopicConfig(**{ours: getattr(broker, theirs) for ours, theirs in BROKER_SYNONYMS.items()})


def topic_config(broker: BrokerConfig, given: Mapping[str, str | None]) -> TopicConfig:
    """The broker's defaults overlaid with ``given``. Raises ConfigError as Kafka refuses INVALID_CONFIG."""
    table = {o.name: o for o in options_of(TopicConfig)}
    values = {}
    for name, text in given.items():
        if name not in table:
            raise unknown_option(name, table)
        if text is not None:
            values[table[name].attribute] = table[name].parse(text)
    return replace(topic_defaults(broker), **values)

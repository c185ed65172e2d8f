"""A topic's options, and which option of the broker each takes its default from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kohort.config.broker import (
    COMPRESSION_TYPES,
    FILES_GROW,
    GO_AT_ONCE,
    GZIP_LEVELS,
    LONG_MAX,
    NO_TIERS,
    ON_TIME,
    ONE_STORAGE,
    USUAL_LEVEL,
    BrokerConfig,
)
from kohort.config.options import Rule, option, options_of, unknown_option
from kohort.errors import ConfigError


def _are_replicas(given: Any) -> bool:
    """Whether the list is what Kafka takes for throttled replicas: ``*``, or ``PARTITION:NODE`` each."""
    return given == ["*"] or all(re.fullmatch("[0-9]+:[0-9]+", one) for one in given)


THROTTLED: Final = Rule(_are_replicas, "*, or a comma-separated list of PARTITION:NODE")
OFF: Final = Rule(lambda value: value is False, "false: there is no tiered storage here")


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
    retention_bytes: int = option("retention.bytes", -1, "Size above which old segments go; -1: none.", bits=64)
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
    min_insync_replicas: int = option(
        "min.insync.replicas", 1, "Replicas that must have a write.", low=1, no_effect=ONE_STORAGE
    )
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
    compression_gzip_level: int = option(
        "compression.gzip.level", -1, "Level of gzip; -1: usual.", rule=GZIP_LEVELS, no_effect=USUAL_LEVEL
    )
    compression_lz4_level: int = option(
        "compression.lz4.level", 9, "Level of lz4.", low=1, high=17, no_effect=USUAL_LEVEL
    )
    compression_zstd_level: int = option(
        "compression.zstd.level", 3, "Level of zstd.", low=-131072, high=22, no_effect=USUAL_LEVEL
    )
    segment_jitter_ms: int = option(
        "segment.jitter.ms", 0, "Most by which a segment is rolled early.", low=0, no_effect=ON_TIME
    )
    preallocate: bool = option("preallocate", False, "Whether files are made whole.", no_effect=FILES_GROW)
    file_delete_delay_ms: int = option(
        "file.delete.delay.ms", 60000, "Time before a file is deleted.", low=0, no_effect=GO_AT_ONCE
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable", False, "Whether any replica may lead.", no_effect=ONE_STORAGE
    )
    leader_replication_throttled_replicas: list[str] = option(
        "leader.replication.throttled.replicas",
        [],
        "Replicas that are copied slowly from their leader.",
        rule=THROTTLED,
        no_effect=ONE_STORAGE,
    )
    follower_replication_throttled_replicas: list[str] = option(
        "follower.replication.throttled.replicas",
        [],
        "Replicas that copy slowly.",
        rule=THROTTLED,
        no_effect=ONE_STORAGE,
    )
    local_retention_ms: int = option(
        "local.retention.ms", -2, "Age after which segments go from here; -2: as all.", low=-2, no_effect=NO_TIERS
    )
    local_retention_bytes: int = option(
        "local.retention.bytes",
        -2,
        "Size above which segments go from here; -2: as all.",
        low=-2,
        bits=64,
        no_effect=NO_TIERS,
    )
    remote_storage_enable: bool = option(
        "remote.storage.enable", False, "Whether old segments are kept elsewhere.", rule=OFF
    )
    remote_log_copy_disable: bool = option(
        "remote.log.copy.disable", False, "Whether nothing more is kept elsewhere.", no_effect=NO_TIERS
    )
    remote_log_delete_on_disable: bool = option(
        "remote.log.delete.on.disable",
        False,
        "Whether what is kept elsewhere goes when that ends.",
        no_effect=NO_TIERS,
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
    "min_insync_replicas": "min_insync_replicas",
    "compression_gzip_level": "compression_gzip_level",
    "compression_lz4_level": "compression_lz4_level",
    "compression_zstd_level": "compression_zstd_level",
    "segment_jitter_ms": "log_roll_jitter_ms",
    "preallocate": "log_preallocate",
    "file_delete_delay_ms": "log_segment_delete_delay_ms",
    "unclean_leader_election_enable": "unclean_leader_election_enable",
    "local_retention_ms": "log_local_retention_ms",
    "local_retention_bytes": "log_local_retention_bytes",
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


def usable_overrides(broker: BrokerConfig, stored: Mapping[str, str]) -> tuple[dict[str, str], list[ConfigError]]:
    """What of ``stored``, which may come from another version or a damaged file, is an option; and what is wrong with
    the rest."""
    usable: dict[str, str] = {}
    problems = []
    for name, text in stored.items():
        try:
            topic_config(broker, {name: text})
        except ConfigError as error:
            problems.append(error)
        else:
            usable[name] = text
    return usable, problems


def check_lags(config: TopicConfig) -> None:
    """Raises ConfigError where nothing could be compacted in time: of what is given, as Kafka, not of what is kept."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
        raise ConfigError(f"min.compaction.lag.ms={least}: expected at most max.compaction.lag.ms, which is {most}")

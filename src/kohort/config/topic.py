"""Options of a topic; the broker's options are the defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.broker import NO_TIERS, ONE_STORAGE, BrokerConfig
from kohort.config.options import ValueRule, as_in, option, options_of, unknown_option
from kohort.errors import ConfigError


def _are_replicas(given: Any) -> bool:
    """Return True for ``*`` or a list of ``PARTITION:NODE``: Kafka's format of throttled replicas."""
    return given == ["*"] or all(re.fullmatch("[0-9]+:[0-9]+", one) for one in given)


THROTTLED: Final = ValueRule(_are_replicas, "*, or a comma-separated list of PARTITION:NODE")
OFF: Final = ValueRule(lambda value: value is False, "false: tiered storage is not supported")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    cleanup_policy: list[str] = as_in(BrokerConfig, "log_cleanup_policy")
    segment_bytes: int = as_in(BrokerConfig, "log_segment_bytes")
    segment_ms: int = as_in(BrokerConfig, "log_roll_ms")
    index_interval_bytes: int = as_in(BrokerConfig, "log_index_interval_bytes")
    segment_index_bytes: int = as_in(BrokerConfig, "log_index_size_max_bytes")
    retention_ms: int = as_in(BrokerConfig, "log_retention_ms")
    retention_bytes: int = as_in(BrokerConfig, "log_retention_bytes")
    max_message_bytes: int = as_in(BrokerConfig, "message_max_bytes")
    flush_messages: int = as_in(BrokerConfig, "log_flush_interval_messages")
    flush_ms: int = as_in(BrokerConfig, "log_flush_interval_ms")
    message_timestamp_type: str = as_in(BrokerConfig, "log_message_timestamp_type")
    message_timestamp_before_max_ms: int = as_in(BrokerConfig, "log_message_timestamp_before_max_ms")
    message_timestamp_after_max_ms: int = as_in(BrokerConfig, "log_message_timestamp_after_max_ms")
    min_insync_replicas: int = as_in(BrokerConfig, "min_insync_replicas")
    compression_type: str = as_in(BrokerConfig, "compression_type")
    delete_retention_ms: int = as_in(BrokerConfig, "log_cleaner_delete_retention_ms")
    min_cleanable_dirty_ratio: float = as_in(BrokerConfig, "log_cleaner_min_cleanable_ratio")
    min_compaction_lag_ms: int = as_in(BrokerConfig, "log_cleaner_min_compaction_lag_ms")
    max_compaction_lag_ms: int = as_in(BrokerConfig, "log_cleaner_max_compaction_lag_ms")
    compression_gzip_level: int = as_in(BrokerConfig, "compression_gzip_level")
    compression_lz4_level: int = as_in(BrokerConfig, "compression_lz4_level")
    compression_zstd_level: int = as_in(BrokerConfig, "compression_zstd_level")
    segment_jitter_ms: int = as_in(BrokerConfig, "log_roll_jitter_ms")
    preallocate: bool = as_in(BrokerConfig, "log_preallocate")
    file_delete_delay_ms: int = as_in(BrokerConfig, "log_segment_delete_delay_ms")
    unclean_leader_election_enable: bool = as_in(BrokerConfig, "unclean_leader_election_enable")
    leader_replication_throttled_replicas: list[str] = option(
        [], "Replicas throttled at their leader.", rule=THROTTLED, no_effect=ONE_STORAGE
    )
    follower_replication_throttled_replicas: list[str] = option(
        [], "Replicas throttled at the follower.", rule=THROTTLED, no_effect=ONE_STORAGE
    )
    local_retention_ms: int = as_in(BrokerConfig, "log_local_retention_ms")
    local_retention_bytes: int = as_in(BrokerConfig, "log_local_retention_bytes")
    remote_storage_enable: bool = option(False, "True to copy old segments to tiered storage.", rule=OFF)
    remote_copy_lag_ms: int = as_in(BrokerConfig, "log_remote_copy_lag_ms")
    remote_copy_lag_bytes: int = as_in(BrokerConfig, "log_remote_copy_lag_bytes")
    max_decompressed_message_bytes: int = as_in(BrokerConfig, "max_decompressed_message_bytes")
    errors_deadletterqueue_group_enable: bool = option(
        False, "True to let share groups write undeliverable records here.", no_effect="share groups are not supported"
    )
    remote_log_copy_disable: bool = option(False, "True to stop copies to tiered storage.", no_effect=NO_TIERS)
    remote_log_delete_on_disable: bool = option(
        False, "True to delete tiered segments when tiered storage is disabled.", no_effect=NO_TIERS
    )


_BY_NAME: Final = {o.name: o for o in options_of(TopicConfig)}
_FALLBACKS: Final = tuple((o.attribute, o.falls_back_to) for o in options_of(TopicConfig) if o.falls_back_to)


def topic_config(broker: BrokerConfig, given: Mapping[str, str | None]) -> TopicConfig:
    """Return a topic's options: ``given``, else the broker's defaults. Raises ConfigError as Kafka does."""
    values = {attribute: getattr(broker, model) for attribute, model in _FALLBACKS}
    return TopicConfig(**values | _parsed(given))


def _parsed(given: Mapping[str, str | None]) -> dict[str, Any]:
    values = {}
    for name, text in given.items():
        if name not in _BY_NAME:
            raise unknown_option(name, _BY_NAME)
        if text is not None:
            values[_BY_NAME[name].attribute] = _BY_NAME[name].parse(text)
    return values


def usable_overrides(stored: Mapping[str, str]) -> tuple[dict[str, str], list[ConfigError]]:
    """Return the valid options in ``stored``, and the problems of the others."""
    usable: dict[str, str] = {}
    problems = []
    for name, text in stored.items():
        try:
            _parsed({name: text})
        except ConfigError as error:
            problems.append(error)
        else:
            usable[name] = text
    return usable, problems


def check_lags(config: TopicConfig) -> None:
    """Raise ConfigError if the shortest compaction lag exceeds the longest. As in Kafka, stored options may."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
        raise ConfigError(f"min.compaction.lag.ms={least}: expected at most max.compaction.lag.ms, which is {most}")

"""Options of a Spark read. Spark passes the values as strings, and ignores case in option names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kohort.config.client import ConsumerConfig
from kohort.errors import ConfigError
from kohort.spark.options.changes import ChangeOptions
from kohort.spark.options.client import SERVERS, client_options
from kohort.spark.options.offsets import OffsetsByTopic
from kohort.spark.options.table import BY_LOWER_NAME, EARLIEST, LATEST, REFUSED, Start, parse_values


class ByTime(NamedTuple):
    """Start or end of a read, given as one timestamp for all partitions or one timestamp for each partition.

    ``strict`` concerns a partition without a record at or after its timestamp. True: raise an error. False: use the log
    end offset of the partition.
    """

    times: int | OffsetsByTopic
    strict: bool


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap_servers: str
    client: dict[str, Any] = field(default_factory=dict)
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str = ""
    assign: dict[str, tuple[int, ...]] = field(default_factory=dict)
    group_id: str = ""
    group_mode: str = "standalone"
    starting_offsets: Start | None = None
    starting_timestamp: int | None = None
    starting_times: OffsetsByTopic | None = None
    timestamp_strategy: str = "error"
    ending_offsets: Start = "latest"
    ending_timestamp: int | None = None
    ending_times: OffsetsByTopic | None = None
    group_fallback: str = "latest"
    commit_offsets: bool = True
    group_owner: str = ""
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    min_partitions: int = 1
    max_records_per_partition: int | None = None
    records_per_task: int = 100_000
    fail_on_data_loss: bool = True
    include_headers: bool = False
    isolation_level: str = "read_uncommitted"
    value_format: str = "raw"
    value_separator: str = ","
    time_zone: str = ""
    tombstones: str = "row"
    avro_schema: str = ""
    avro_framing: str = "none"
    debezium_envelope: bool = True
    debezium_decimals: str = ""
    debezium_times: dict[str, str] = field(default_factory=dict)
    debezium_key_schema: str = ""
    key_format: str = "raw"
    key_column: str = "key"
    key_avro_schema: str = ""
    bad_records: str = "fail"
    dead_letter_topic: str = ""
    idle_wait_ms: int = 250
    poll_timeout_ms: int = 60_000
    offset_retries: int = 3
    offset_retry_ms: int = 10

    @property
    def changes(self) -> ChangeOptions:
        """Settings of ``value.format=debezium``."""
        return ChangeOptions(
            self.debezium_envelope,
            self.debezium_decimals,
            self.debezium_times,
            self.avro_schema,
            self.debezium_key_schema,
            self.avro_framing == "confluent",
        )

    @property
    def commits(self) -> bool:
        return bool(self.group_id) and self.commit_offsets

    @property
    def stream_start(self) -> Start | ByTime:
        """Start position of a streaming query that has no checkpoint yet."""
        return self._start_by_time or self.starting_offsets or ("group" if self.group_id else "latest")

    @property
    def batch_start(self) -> Start | ByTime:
        return self._start_by_time or self.starting_offsets or "earliest"

    @property
    def batch_end(self) -> Start | ByTime:
        times = self.ending_times if self.ending_timestamp is None else self.ending_timestamp
        return self.ending_offsets if times is None else ByTime(times, strict=False)

    @property
    def task_rows(self) -> int:
        return min(self.records_per_task, self.max_records_per_partition or self.records_per_task)

    @property
    def _start_by_time(self) -> ByTime | None:
        times = self.starting_times if self.starting_timestamp is None else self.starting_timestamp
        return None if times is None else ByTime(times, self.timestamp_strategy == "error")

    @property
    def pin(self) -> str:
        """Metadata of the commit that stores the start offsets of a stream in its group.

        The metadata contains a digest of the options that select topics and start offsets.
        """
        what = [self.stream_start, self.subscribe, self.subscribe_pattern, self.assign, self.group_fallback]
        digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
        return f"kohort-init:{digest[:16]}"


def parse_source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check the options of a Spark read. Raises ConfigError for an unknown option or an invalid value."""
    values, client = parse_values(given, BY_LOWER_NAME, REFUSED, ("path",))
    settings = client_options(ConsumerConfig, client, values.pop("profile", ""))
    servers = settings.pop(SERVERS)
    bootstrap = ",".join(servers) if isinstance(servers, list) else str(servers)
    if values.get("group_mode") == "member":
        values.setdefault("group_fallback", "earliest")
    if "isolation_level" in values:
        settings["isolation.level"] = values["isolation_level"]
    options = SourceOptions(bootstrap, settings, **values)
    _check_together(options, streaming=streaming, given={n.lower() for n in given})
    if options.group_mode == "member":
        _check_member(options, streaming=streaming)
    if not streaming:
        _check_batch(options)
    return options


def _check_together(options: SourceOptions, *, streaming: bool, given: set[str]) -> None:
    chosen = [n for n in ("subscribe", "subscribePattern", "assign") if n.lower() in given]
    if len(chosen) != 1:
        what = "none is given" if not chosen else f"{' and '.join(chosen)} are given"
        raise ConfigError(f"give exactly one of the options subscribe, subscribePattern and assign: {what}")
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if streaming and name.lower() in given:
            raise ConfigError(
                f"option {name!r} is only for batch reads; to end a stream, use trigger(availableNow=True)"
            )
    for name, start in (("startingOffsets", options.starting_offsets), ("endingOffsets", options.ending_offsets)):
        if start == "group" and not options.group_id:
            raise ConfigError(f"{name}=group needs the option 'group.id'")
    most = options.max_offsets_per_trigger
    if most is not None and (options.min_offsets_per_trigger or 0) > most:
        raise ConfigError(
            f"minOffsetsPerTrigger={options.min_offsets_per_trigger} is more than maxOffsetsPerTrigger={most}"
        )
    if options.bad_records == "dlq" and not options.dead_letter_topic:
        raise ConfigError("badRecords=dlq needs the option 'deadLetterTopic'")
    if options.value_format == "raw" and "badrecords" in given:
        raise ConfigError("badRecords needs decoded values: set value.format to json, csv, avro or debezium")
    _check_formats(options)


def _check_formats(options: SourceOptions) -> None:
    if options.value_format != "debezium" and (options.value_format == "avro") != bool(options.avro_schema):
        raise ConfigError("value.format=avro and the option 'value.avro.schema' must be set together")
    if (options.key_format == "avro") != bool(options.key_avro_schema):
        raise ConfigError("key.format=avro and the option 'key.avro.schema' must be set together")
    if options.key_format != "raw" and options.value_format == "raw":
        raise ConfigError("key.format needs decoded values: set value.format to json, csv, avro or debezium")


def _check_member(options: SourceOptions, *, streaming: bool) -> None:
    """Raise ConfigError for options that contradict ``group.mode=member``."""
    if not streaming:
        raise ConfigError("group.mode=member does not support batch reads, which commit no offsets: use readStream")
    if not options.group_id:
        raise ConfigError("group.mode=member needs the option 'group.id'")
    if options.assign:
        raise ConfigError(
            "group.mode=member does not support assign, since the group assigns the partitions: use "
            "subscribe or subscribePattern"
        )
    if options.stream_start != "group":
        raise ConfigError(
            "group.mode=member starts at the committed offsets of the group: remove startingOffsets, "
            "startingTimestamp and startingOffsetsByTimestamp. For partitions without a committed offset, set "
            "groupFallback"
        )
    if not options.commit_offsets:
        raise ConfigError(
            "group.mode=member needs commitOffsets=true: without commits, all records are read again "
            "after each rebalance"
        )


def _check_batch(options: SourceOptions) -> None:
    if options.starting_offsets == "latest":
        raise ConfigError(
            "startingOffsets=latest: a batch read would return no records. Give earliest, group, or offsets as JSON"
        )
    for name, bound, mark, word in (
        ("startingOffsets", options.starting_offsets, LATEST, "latest (-1)"),
        ("endingOffsets", options.ending_offsets, EARLIEST, "earliest (-2)"),
    ):
        for topic, partitions in bound.items() if isinstance(bound, dict) else ():
            if mark in partitions.values():
                raise ConfigError(
                    f"{name}: {word} for topic {topic}: a batch read would return no records. Give another offset"
                )

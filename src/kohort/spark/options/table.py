"""Every option of ``format("kohort")`` as a source: the Kafka connector's names, what each accepts, what is refused.

A parser for each kind of value reads the text of an option; its errors name the option, the text and what is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kohort.errors import ConfigError
from kohort.spark.options.offsets import OffsetsByTopic, parse_offsets

Start = str | OffsetsByTopic
"""A word such as ``earliest``, or an offset for each partition (-2 earliest, -1 latest)."""

_DURATION: Final = re.compile(r"(\d+) *(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)?", re.IGNORECASE)
_MILLIS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000}
_BYTES: Final = re.compile(r"(\d+) *([kmg])?(i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3}


@dataclass(frozen=True, slots=True)
class SparkOption:
    """One option: its name as users write it, its default in words, what it does, and how its text is read.

    ``attribute``: where the value goes; empty for an option that is accepted and needs no effect here.
    """

    name: str
    attribute: str
    default: str
    doc: str
    parse: Callable[[str, str], Any]


def text(_name: str, given: str) -> str:
    return given


def topics(name: str, given: str) -> tuple[str, ...]:
    found = tuple(t.strip() for t in given.split(",") if t.strip())
    if not found:
        raise ConfigError(f"{name}={given!r}: expected one or more topic names, separated by commas")
    return found


def pattern(name: str, given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise ConfigError(f"{name}={given!r}: not a regular expression: {error}") from None
    return given


def assignment(name: str, given: str) -> dict[str, tuple[int, ...]]:
    """Read partitions by topic: ``{"orders": [0, 1]}``."""
    expected = f'{name}={given!r}: expected JSON such as {{"orders": [0, 1]}}'
    try:
        tree = json.loads(given)
    except ValueError:
        raise ConfigError(expected) from None
    if not isinstance(tree, dict) or not tree:
        raise ConfigError(expected)
    for partitions in tree.values():
        if not isinstance(partitions, list) or any(type(p) is not int or p < 0 for p in partitions):
            raise ConfigError(expected)
    return {topic: tuple(partitions) for topic, partitions in tree.items()}


def flag(name: str, given: str) -> bool:
    value = {"true": True, "false": False}.get(given.strip().lower())
    if value is None:
        raise ConfigError(f"{name}={given!r}: expected true or false")
    return value


def whole(low: int) -> Callable[[str, str], int]:
    """Read a whole number of at least ``low``."""

    def parse(name: str, given: str) -> int:
        try:
            value = int(given)
        except ValueError:
            value = low - 1
        if value < low:
            raise ConfigError(f"{name}={given!r}: expected a whole number of at least {low}")
        return value

    return parse


def choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, given: str) -> str:
        if given.strip().lower() not in allowed:
            raise ConfigError(f"{name}={given!r}: expected one of {', '.join(allowed)}")
        return given.strip().lower()

    return parse


def bound(*words: str) -> Callable[[str, str], Start]:
    """Read one of the words, or an offset for each partition."""

    def parse(name: str, given: str) -> Start:
        word = given.strip().lower()
        if word in words:
            return word
        try:
            return parse_offsets(given)
        except ValueError as error:
            raise ConfigError(
                f'{name}={given!r}: expected {", ".join(words)}, or JSON such as {{"orders": {{"0": 42}}}} ({error})'
            ) from None

    return parse


def times(name: str, given: str) -> OffsetsByTopic:
    """Read a time, in milliseconds since 1970, for each partition."""
    try:
        found = parse_offsets(given)
    except ValueError as error:
        raise ConfigError(
            f'{name}={given!r}: expected JSON such as {{"orders": {{"0": 1735689600000}}}} ({error})'
        ) from None
    if any(time < 0 for partitions in found.values() for time in partitions.values()):
        raise ConfigError(f"{name}={given!r}: a time is milliseconds since 1970, and not negative")
    return found


def duration_ms(name: str, given: str) -> int:
    """Read a duration: ``15m``, ``30 seconds``, ``250`` (milliseconds)."""
    found = _DURATION.fullmatch(given.strip())
    if not found:
        raise ConfigError(f"{name}={given!r}: expected a time such as 15m, 30s or 250ms")
    unit = (found[2] or "ms").lower()
    return int(found[1]) * (1 if unit.startswith(("ms", "mil")) else _MILLIS[unit[0]])


def time_zone(name: str, given: str) -> str:
    """Read the name of a time zone (``Europe/Paris``) or an offset (``+02:00``)."""
    from kohort.columns.conversions.times import zone_named

    try:
        zone_named(given.strip())
    except ValueError as error:
        raise ConfigError(f"{name}: {error}: expected a zone such as Europe/Paris or +02:00") from None
    return given.strip()


def separator(name: str, given: str) -> str:
    """Read one character; ``\\t`` is a tab, as in Spark."""
    found = "\t" if given == "\\t" else given
    if len(found) != 1 or found in '"\r\n':
        raise ConfigError(f"{name}={given!r}: expected one character, not a quote or a line end")
    return found


def size_bytes(name: str, given: str) -> int:
    """Read a size: ``64m``, ``64MiB``, ``1048576``."""
    found = _BYTES.fullmatch(given.strip())
    if not found or not int(found[1]):
        raise ConfigError(f"{name}={given!r}: expected a size such as 64m, 1g or 1048576")
    return int(found[1]) << 10 * _POWERS[(found[2] or "").lower()]


EARLIEST: Final = -2
LATEST: Final = -1

TABLE: Final = (
    SparkOption("subscribe", "subscribe", "", "the topics to read, separated by commas", topics),
    SparkOption(
        "subscribePattern",
        "subscribe_pattern",
        "",
        "read every topic whose whole name matches this expression",
        pattern,
    ),
    SparkOption("assign", "assign", "", 'the partitions to read: `{"orders": [0, 1]}`', assignment),
    SparkOption("profile", "profile", "", "a cluster of the driver's clusters.toml; kafka.* wins over it", text),
    SparkOption("group.id", "group_id", "", "the consumer group that shows this query's progress", text),
    SparkOption(
        "group.mode",
        "group_mode",
        "standalone",
        "standalone: the query reads every partition, and commits without membership. member: its driver joins the "
        "group, whose queries share the partitions and take over from each other",
        choice("standalone", "member"),
    ),
    SparkOption(
        "startingOffsets",
        "starting_offsets",
        "see text",
        "earliest, latest, group, or JSON (-2 earliest, -1 latest); a checkpoint wins over it. Default: group for a "
        "stream that has one, else latest for a stream and earliest for a batch",
        bound("earliest", "latest", "group"),
    ),
    SparkOption(
        "startingTimestamp",
        "starting_timestamp",
        "",
        "start each partition at its first record of this time (milliseconds); wins over the two below",
        whole(0),
    ),
    SparkOption(
        "startingOffsetsByTimestamp",
        "starting_times",
        "",
        'the same with a time for each partition: `{"orders": {"0": 1735689600000}}`; wins over startingOffsets',
        times,
    ),
    SparkOption(
        "startingOffsetsByTimestampStrategy",
        "timestamp_strategy",
        "error",
        "what a partition without a record of that time means: error, or latest",
        choice("error", "latest"),
    ),
    SparkOption(
        "endingOffsets",
        "ending_offsets",
        "latest",
        "batch only: where to stop, latest, group or JSON",
        bound("latest", "group"),
    ),
    SparkOption(
        "endingTimestamp", "ending_timestamp", "", "batch only: stop before this time (milliseconds)", whole(0)
    ),
    SparkOption(
        "endingOffsetsByTimestamp", "ending_times", "", "batch only: the same with a time for each partition", times
    ),
    SparkOption(
        "groupFallback",
        "group_fallback",
        "latest",
        "where startingOffsets=group begins a partition for which the group holds nothing: earliest or latest (in "
        "member mode earliest unless given)",
        choice("earliest", "latest"),
    ),
    SparkOption(
        "commitOffsets", "commit_offsets", "true", "commit the end of each completed micro-batch to group.id", flag
    ),
    SparkOption(
        "groupOwner",
        "group_owner",
        "",
        "text at the end of each commit's metadata; a pipeline gives its name and its checkpoint",
        text,
    ),
    SparkOption("maxOffsetsPerTrigger", "max_offsets_per_trigger", "", "the most records of one micro-batch", whole(1)),
    SparkOption(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        "",
        "about the most bytes of one micro-batch (64m, 1g): keys and values, judged by records read ahead",
        size_bytes,
    ),
    SparkOption(
        "minOffsetsPerTrigger",
        "min_offsets_per_trigger",
        "",
        "wait for this many records, but no longer than maxTriggerDelay; AvailableNow does not wait",
        whole(1),
    ),
    SparkOption("maxTriggerDelay", "max_trigger_delay_ms", "15m", "the longest such wait (15m, 30s)", duration_ms),
    SparkOption(
        "minPartitions", "min_partitions", "1", "the fewest Spark tasks to divide a micro-batch into", whole(1)
    ),
    SparkOption("maxRecordsPerPartition", "max_records_per_partition", "", "the most records of one task", whole(1)),
    SparkOption(
        "recordsPerTask",
        "records_per_task",
        "100000",
        "merge small partitions and split large ones to about this",
        whole(1),
    ),
    SparkOption(
        "failOnDataLoss", "fail_on_data_loss", "true", "fail where records were lost before they were read", flag
    ),
    SparkOption("includeHeaders", "include_headers", "false", "add the column headers", flag),
    SparkOption(
        "isolation.level",
        "isolation_level",
        "read_uncommitted",
        "read_committed leaves out what transactions aborted",
        choice("read_uncommitted", "read_committed"),
    ),
    SparkOption(
        "value.format",
        "value_format",
        "raw",
        "decode the value into the columns of `.schema(...)` in the worker: raw, json, csv, avro",
        choice("raw", "json", "csv", "avro"),
    ),
    SparkOption(
        "value.avro.schema", "avro_schema", "", "avro: the schema that values were written with, as JSON", text
    ),
    SparkOption(
        "value.avro.framing",
        "avro_framing",
        "none",
        "avro: confluent, if a zero byte and a schema id stand before each value (the id is not looked up)",
        choice("none", "confluent"),
    ),
    SparkOption(
        "value.separator", "value_separator", ",", "csv: the character between two fields; `\\t` is a tab", separator
    ),
    SparkOption(
        "value.timeZone",
        "time_zone",
        "session's",
        "json, csv: the zone of timestamps without one; by default `spark.sql.session.timeZone`",
        time_zone,
    ),
    SparkOption(
        "value.tombstones",
        "tombstones",
        "row",
        "a record without a value: row (NULL in the value's columns), drop, or bad (see badRecords)",
        choice("row", "drop", "bad"),
    ),
    SparkOption(
        "badRecords",
        "bad_records",
        "fail",
        "what becomes of a value that cannot be decoded: fail, drop, null, or dlq (send it to deadLetterTopic)",
        choice("fail", "drop", "null", "dlq"),
    ),
    SparkOption("deadLetterTopic", "dead_letter_topic", "", "the topic of badRecords=dlq", text),
    SparkOption(
        "idleWaitMs",
        "idle_wait_ms",
        "250",
        "how long an idle stream waits at the broker before it asks again",
        whole(0),
    ),
    SparkOption(
        "kafkaConsumer.pollTimeoutMs",
        "poll_timeout_ms",
        "60000",
        "how long a task waits for a record that must come",
        whole(1),
    ),
    SparkOption("fetchOffset.numRetries", "offset_retries", "3", "attempts more to ask for offsets", whole(0)),
    SparkOption("fetchOffset.retryIntervalMs", "offset_retry_ms", "10", "the wait between them", whole(0)),
    SparkOption(
        "groupIdPrefix", "", "", "accepted and not needed: reading does not make a group of its own here", text
    ),
)

BY_LOWER_NAME: Final = {o.name.lower(): o for o in TABLE} | {
    alias: next(o for o in TABLE if o.name == alias.removeprefix("kafka."))
    for alias in ("kafka.group.id", "kafka.isolation.level")
}

REFUSED: Final = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "offsets are committed as micro-batches complete; see commitOffsets",
    "kafka.key.deserializer": "keys arrive as bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "values arrive as bytes; see value.format, or decode them with DataFrame operations",
    "kafka.key.serializer": "keys arrive as bytes; decode them with DataFrame operations",
    "kafka.value.serializer": "values arrive as bytes; decode them with DataFrame operations",
    "kafka.interceptor.classes": "interceptors could change records that the source counts on",
}

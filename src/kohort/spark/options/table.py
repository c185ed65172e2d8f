"""Options of the source ``format("kohort")``, with a parser for each option, and the options that kohort rejects.

An option of Spark's Kafka connector keeps its name. A parser raises ConfigError with the option, its value and the
allowed values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kohort.config.options import unknown_option
from kohort.errors import ConfigError
from kohort.spark.options.changes import DECIMALS, KEY_TYPES, parse_times
from kohort.spark.options.offsets import OffsetsByTopic, parse_offsets

Start = str | OffsetsByTopic
"""Start or end of a read: a word such as ``earliest``, or an offset for each partition (-2: earliest, -1: latest)."""

_DURATION: Final = re.compile(r"(\d+) *(ms|milliseconds?|s|seconds?|m|min|minutes?|h|hours?)?", re.IGNORECASE)
_MILLIS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000}
_BYTES: Final = re.compile(r"(\d+) *([kmg])?(i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3}


class SparkOption(NamedTuple):
    """Option of the source or the sink: its name, a description of its default, and the parser of its value."""

    name: str
    default: str
    doc: str
    parse: Callable[[str, str], Any]
    special_field: str | None = None
    """Name of the dataclass field that stores the value. None: derived from the option name. "": no field."""

    @property
    def field(self) -> str:
        if self.special_field is not None:
            return self.special_field
        return re.sub("([A-Z])", r"_\1", self.name).replace(".", "_").lower()


def parse_values(
    given: Mapping[str, str], known: Mapping[str, SparkOption], refused: Mapping[str, str], of_spark: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse the options of a Spark read or write. Return a dict of kohort's options and a dict of client options.

    The first dict has the values of kohort's options, with field names as keys. The second dict has the ``kafka.``
    options without this prefix. ``known``: kohort's options. ``refused``: options that kohort rejects. ``of_spark``:
    options of Spark itself, which are skipped. All names in these arguments are in lower case. Raises ConfigError for
    any other option.
    """
    values: dict[str, Any] = {}
    client: dict[str, Any] = {}
    for name, content in given.items():
        lower = name.lower()
        if lower in refused:
            raise ConfigError(f"option {lower!r} is not supported: {refused[lower]}")
        if option := known.get(lower):
            parsed = option.parse(option.name, str(content))
            if option.field:
                values[option.field] = parsed
        elif lower.startswith("kafka."):
            client[lower.removeprefix("kafka.")] = str(content)
        elif lower not in of_spark:
            raise unknown_option(name, [*dict.fromkeys(o.name for o in known.values()), "kafka.bootstrap.servers"])
    return values, client


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
    """Return an option parser that accepts integers of at least ``low``."""

    def parse(name: str, given: str) -> int:
        try:
            value = int(given)
        except ValueError:
            value = low - 1
        if value < low:
            raise ConfigError(f"{name}={given!r}: expected an integer >= {low}")
        return value

    return parse


def choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, given: str) -> str:
        if given.strip().lower() not in allowed:
            raise ConfigError(f"{name}={given!r}: expected one of {', '.join(allowed)}")
        return given.strip().lower()

    return parse


def bound(*words: str) -> Callable[[str, str], Start]:
    """Return an option parser that accepts one of ``words``, or JSON with an offset for each partition."""

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
    try:
        found = parse_offsets(given)
    except ValueError as error:
        raise ConfigError(
            f'{name}={given!r}: expected JSON such as {{"orders": {{"0": 1735689600000}}}} ({error})'
        ) from None
    if any(time < 0 for partitions in found.values() for time in partitions.values()):
        raise ConfigError(f"{name}={given!r}: expected timestamps in milliseconds since 1970, found a negative number")
    return found


def duration_ms(name: str, given: str) -> int:
    """Parse a duration such as ``15m``, ``30 seconds`` or ``250`` (ms); return milliseconds."""
    found = _DURATION.fullmatch(given.strip())
    if not found:
        raise ConfigError(f"{name}={given!r}: expected a duration such as 15m, 30s or 250ms")
    unit = (found[2] or "ms").lower()
    return int(found[1]) * (1 if unit.startswith(("ms", "mil")) else _MILLIS[unit[0]])


def time_zone(name: str, given: str) -> str:
    """Parse the name of a time zone (``Europe/Paris``) or an offset from UTC (``+02:00``)."""
    from kohort.columns.conversions.times import zone_named

    try:
        zone_named(given.strip())
    except ValueError as error:
        raise ConfigError(f"{name}: {error}: expected a time zone such as Europe/Paris or +02:00") from None
    return given.strip()


def separator(name: str, given: str) -> str:
    r"""Parse a field separator: one character, or ``\t`` for a tab, as in Spark."""
    found = "\t" if given == "\\t" else given
    if len(found) != 1 or found in '"\r\n':
        raise ConfigError(f"{name}={given!r}: expected one character other than a quote or a line end")
    return found


def size_bytes(name: str, given: str) -> int:
    """Parse a size in bytes: ``64m``, ``64MiB``, ``1048576``."""
    found = _BYTES.fullmatch(given.strip())
    if not found or not int(found[1]):
        raise ConfigError(f"{name}={given!r}: expected a size such as 64m, 1g or 1048576")
    return int(found[1]) << 10 * _POWERS[(found[2] or "").lower()]


EARLIEST: Final = -2
LATEST: Final = -1

TABLE: Final = (
    SparkOption("subscribe", "", "topics to read, separated by commas", topics),
    SparkOption("subscribePattern", "", "regular expression; topics whose whole name matches are read", pattern),
    SparkOption("assign", "", 'partitions to read: `{"orders": [0, 1]}`', assignment),
    SparkOption("profile", "", "a cluster of the driver's clusters.toml; kafka.* options win over it", text),
    SparkOption("group.id", "", "consumer group that shows this query's progress", text),
    SparkOption(
        "group.mode",
        "standalone",
        "standalone: the query reads every partition, and commits without membership. member: its driver joins the "
        "group; queries of one group share the partitions and replace a failed one",
        choice("standalone", "member"),
    ),
    SparkOption(
        "startingOffsets",
        "see text",
        "earliest, latest, group, or JSON (-2 earliest, -1 latest); a checkpoint wins over it. Default: group for a "
        "stream with group.id, latest for any other stream, earliest for a batch",
        bound("earliest", "latest", "group"),
    ),
    SparkOption(
        "startingTimestamp", "", "start at the first record from this time on (ms); wins over the next two", whole(0)
    ),
    SparkOption(
        "startingOffsetsByTimestamp",
        "",
        'a start time for each partition: `{"orders": {"0": 1735689600000}}`; wins over startingOffsets',
        times,
        "starting_times",
    ),
    SparkOption(
        "startingOffsetsByTimestampStrategy",
        "error",
        "action for a partition without a record from that time on: error, or latest (start at its end)",
        choice("error", "latest"),
        "timestamp_strategy",
    ),
    SparkOption("endingOffsets", "latest", "batch only: end: latest, group or JSON", bound("latest", "group")),
    SparkOption("endingTimestamp", "", "batch only: end before this time (ms since 1970)", whole(0)),
    SparkOption("endingOffsetsByTimestamp", "", "batch only: end time of each partition (ms)", times, "ending_times"),
    SparkOption(
        "groupFallback",
        "latest",
        "with startingOffsets=group, start of a partition without a committed offset: earliest or latest (default in "
        "member mode: earliest)",
        choice("earliest", "latest"),
    ),
    SparkOption("commitOffsets", "true", "commit the end of each completed micro-batch to group.id", flag),
    SparkOption("groupOwner", "", "text at the end of commit metadata; a pipeline gives its name and checkpoint", text),
    SparkOption("maxOffsetsPerTrigger", "", "maximum records of a micro-batch", whole(1)),
    SparkOption(
        "maxBytesPerTrigger", "", "approximate maximum bytes of a micro-batch (64m, 1g), estimated", size_bytes
    ),
    SparkOption("minOffsetsPerTrigger", "", "wait for this many records; AvailableNow does not wait", whole(1)),
    SparkOption(
        "maxTriggerDelay",
        "15m",
        "maximum wait for minOffsetsPerTrigger records (15m, 30s)",
        duration_ms,
        "max_trigger_delay_ms",
    ),
    SparkOption("minPartitions", "1", "minimum number of Spark tasks of a micro-batch", whole(1)),
    SparkOption("maxRecordsPerPartition", "", "maximum records of a task", whole(1)),
    SparkOption("recordsPerTask", "100000", "target records of a task, of one or several partitions", whole(1)),
    SparkOption("failOnDataLoss", "true", "fail if records were deleted before they were read", flag),
    SparkOption("includeHeaders", "false", "add the column headers", flag),
    SparkOption(
        "isolation.level",
        "read_uncommitted",
        "read_committed skips records of aborted transactions",
        choice("read_uncommitted", "read_committed"),
    ),
    SparkOption(
        "value.format",
        "raw",
        "format from which workers decode values into the columns of `.schema(...)`: raw, json, csv, avro, debezium",
        choice("raw", "json", "csv", "avro", "debezium"),
    ),
    SparkOption("value.avro.schema", "", "avro, debezium: the writer's schema, as JSON", text, "avro_schema"),
    SparkOption(
        "value.avro.framing",
        "none",
        "avro, debezium: confluent if each value starts with a zero byte and a schema id (the id is not looked up)",
        choice("none", "confluent"),
        "avro_framing",
    ),
    SparkOption(
        "value.debezium.envelope",
        "true",
        "debezium: false for rows that the transformation ExtractNewRecordState unwrapped",
        flag,
        "debezium_envelope",
    ),
    SparkOption(
        "value.debezium.decimals",
        "",
        "debezium: the connector's decimal.handling.mode, for records without a schema: precise, string or double",
        choice(*DECIMALS),
        "debezium_decimals",
    ),
    SparkOption(
        "value.debezium.times",
        "",
        "debezium: unit of integer times, for records without a schema: milliseconds, microseconds, nanoseconds or "
        "isostring; or JSON with one for each column",
        parse_times,
        "debezium_times",
    ),
    SparkOption(
        "value.debezium.keySchema",
        "",
        "debezium: the writer's schema of Avro keys, as JSON",
        text,
        "debezium_key_schema",
    ),
    SparkOption(
        "key.format",
        "raw",
        "format from which workers decode keys into the column `key`: raw (no such column), text, int (4 bytes), "
        "long (8 bytes), json, avro or debezium (a struct)",
        choice("raw", *KEY_TYPES),
    ),
    SparkOption("key.column", "key", "name of the column of decoded keys", text),
    SparkOption("key.avro.schema", "", "avro: the writer's schema of keys, as JSON", text),
    SparkOption("value.separator", ",", "csv: the character between two fields; `\\t` is a tab", separator),
    SparkOption(
        "value.timeZone",
        "session's",
        "json, csv: time zone of timestamps without one; default `spark.sql.session.timeZone`",
        time_zone,
        "time_zone",
    ),
    SparkOption(
        "value.tombstones",
        "row",
        "action for a record without a value: row (NULL in the value's columns), drop, bad (see badRecords), or skip "
        "(a row with the reason in `_error`)",
        choice("row", "drop", "bad", "skip"),
        "tombstones",
    ),
    SparkOption(
        "badRecords",
        "fail",
        "action for a value that cannot be decoded: fail, drop, null, or dlq (send it to deadLetterTopic)",
        choice("fail", "drop", "null", "dlq"),
    ),
    SparkOption("deadLetterTopic", "", "topic of badRecords=dlq", text),
    SparkOption("idleWaitMs", "250", "wait of an idle stream for new records before the next query, in ms", whole(0)),
    SparkOption("kafkaConsumer.pollTimeoutMs", "60000", "maximum wait for a record", whole(1), "poll_timeout_ms"),
    SparkOption("fetchOffset.numRetries", "3", "retries of an offset query", whole(0), "offset_retries"),
    SparkOption(
        "fetchOffset.retryIntervalMs",
        "10",
        "wait between retries of an offset query, in ms",
        whole(0),
        "offset_retry_ms",
    ),
    SparkOption("groupIdPrefix", "", "accepted without effect: the source creates no group of its own", text, ""),
)

BY_LOWER_NAME: Final = {o.name.lower(): o for o in TABLE} | {
    alias: next(o for o in TABLE if o.name == alias.removeprefix("kafka."))
    for alias in ("kafka.group.id", "kafka.isolation.level")
}

REFUSED: Final = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "the query commits each completed micro-batch; see commitOffsets",
    "kafka.key.deserializer": "keys arrive as bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "values arrive as bytes; see value.format, or decode them with DataFrame operations",
    "kafka.key.serializer": "keys arrive as bytes; decode them with DataFrame operations",
    "kafka.value.serializer": "values arrive as bytes; decode them with DataFrame operations",
    "kafka.interceptor.classes": "interceptors could change records, and the source relies on their offsets",
}

"""The options of ``format("kohort")``: the Kafka connector's names, what each accepts, and what is refused.

Spark hands options over as text with case-insensitive names, so the table is looked up in lower case.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.config.options import unknown_option
from kohort.errors import ConfigError
from kohort.spark.offsets import Offsets, parse_offsets

EARLIEST: Final = -2
LATEST: Final = -1

Start = str | Offsets
"""``earliest``, ``latest``, ``group``, or an offset for each partition (-2 earliest, -1 latest)."""


@dataclass(frozen=True, slots=True)
class SourceOption:
    """One option: its name as users write it, what it does, and how its text is read."""

    name: str
    default: str
    doc: str
    parse: Callable[[str, str], Any]


def _text(_name: str, text: str) -> str:
    return text


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(t.strip() for t in text.split(",") if t.strip())
    if not topics:
        raise ConfigError(f"{name}={text!r}: expected one or more topic names, separated by commas")
    return topics


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"{name}={text!r}: not a regular expression: {error}") from None
    return text


def _assign(name: str, text: str) -> dict[str, tuple[int, ...]]:
    expected = f'{name}={text!r}: expected JSON such as {{"orders": [0, 1]}}'
    try:
        given = json.loads(text)
    except ValueError:
        raise ConfigError(expected) from None
    if not isinstance(given, dict) or not given:
        raise ConfigError(expected)
    for partitions in given.values():
        if not isinstance(partitions, list) or any(type(p) is not int or p < 0 for p in partitions):
            raise ConfigError(expected)
    return {topic: tuple(partitions) for topic, partitions in given.items()}


def _flag(name: str, text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ConfigError(f"{name}={text!r}: expected true or false")
    return value


def _whole(low: int) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise ConfigError(f"{name}={text!r}: expected a whole number of at least {low}")
        return value

    return parse


def _choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ConfigError(f"{name}={text!r}: expected one of {', '.join(allowed)}")
        return text.strip().lower()

    return parse


def _bound(*words: str) -> Callable[[str, str], Start]:
    def parse(name: str, text: str) -> Start:
        word = text.strip().lower()
        if word in words:
            return word
        try:
            return parse_offsets(text)
        except ValueError as error:
            raise ConfigError(
                f'{name}={text!r}: expected {", ".join(words)}, or JSON such as {{"orders": {{"0": 42}}}} ({error})'
            ) from None

    return parse


TABLE: Final = (
    SourceOption("subscribe", "", "the topics to read, separated by commas", _topics),
    SourceOption("subscribePattern", "", "read every topic whose whole name matches this expression", _pattern),
    SourceOption("assign", "", 'the partitions to read: {"orders": [0, 1]}', _assign),
    SourceOption("group.id", "", "the consumer group that shows this query's progress", _text),
    SourceOption(
        "startingOffsets",
        "",
        "earliest, latest, group, or JSON; a checkpoint wins over it. Default: group for a stream that has one, "
        "else latest for a stream and earliest for a batch",
        _bound("earliest", "latest", "group"),
    ),
    SourceOption("endingOffsets", "latest", "batch only: where to stop, latest or JSON", _bound("latest")),
    SourceOption(
        "groupFallback",
        "latest",
        "where startingOffsets=group begins a partition for which the group holds nothing",
        _choice("earliest", "latest"),
    ),
    SourceOption("commitOffsets", "true", "commit the end of each completed micro-batch to group.id", _flag),
    SourceOption("maxOffsetsPerTrigger", "", "the most records of one micro-batch", _whole(1)),
    SourceOption("failOnDataLoss", "true", "fail where records were deleted before they were read", _flag),
    SourceOption("includeHeaders", "false", "add the column headers", _flag),
    SourceOption("recordsPerTask", "100000", "merge small partitions and split large ones to about this", _whole(1)),
    SourceOption("idleWaitMs", "250", "how long an idle stream waits at the broker before it asks again", _whole(0)),
)

_BY_LOWER_NAME: Final = {o.name.lower(): o for o in TABLE} | {"kafka.group.id": TABLE[3]}

REFUSED: Final = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "offsets are committed as micro-batches complete; see commitOffsets",
    "kafka.key.deserializer": "keys arrive as bytes; decode them with DataFrame operations",
    "kafka.value.deserializer": "values arrive as bytes; decode them with DataFrame operations",
    "kafka.key.serializer": "keys arrive as bytes; decode them with DataFrame operations",
    "kafka.value.serializer": "values arrive as bytes; decode them with DataFrame operations",
    "kafka.interceptor.classes": "interceptors could change records that the source counts on",
}

NOT_YET: Final = {
    name.lower(): name
    for name in (
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "maxRecordsPerPartition",
        "groupIdPrefix",
    )
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a query asked for, checked."""

    bootstrap_servers: str
    client: dict[str, str] = field(default_factory=dict)
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str = ""
    assign: dict[str, tuple[int, ...]] = field(default_factory=dict)
    group_id: str = ""
    starting_offsets: Start | None = None
    ending_offsets: Start = "latest"
    group_fallback: str = "latest"
    commit_offsets: bool = True
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    records_per_task: int = 100_000
    idle_wait_ms: int = 250

    @property
    def commits(self) -> bool:
        """Whether progress is committed to a group."""
        return bool(self.group_id) and self.commit_offsets

    @property
    def stream_start(self) -> Start:
        """Where a stream begins that has no checkpoint."""
        return self.starting_offsets or ("group" if self.group_id else "latest")

    @property
    def batch_start(self) -> Start:
        """Where a batch read begins."""
        return self.starting_offsets or "earliest"

    @property
    def pin(self) -> str:
        """What marks the group's offsets as the start that these options resolved to (see stream.py)."""
        what = [self.stream_start, self.subscribe, self.subscribe_pattern, self.assign, self.group_fallback]
        digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
        return f"kohort-init:{digest[:16]}"


_ATTRIBUTES: Final = {
    "subscribe": "subscribe",
    "subscribePattern": "subscribe_pattern",
    "assign": "assign",
    "group.id": "group_id",
    "startingOffsets": "starting_offsets",
    "endingOffsets": "ending_offsets",
    "groupFallback": "group_fallback",
    "commitOffsets": "commit_offsets",
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "failOnDataLoss": "fail_on_data_loss",
    "includeHeaders": "include_headers",
    "recordsPerTask": "records_per_task",
    "idleWaitMs": "idle_wait_ms",
}


def parse_source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check what ``.option(...)`` gave. Raises ConfigError naming the option and what is allowed."""
    values: dict[str, Any] = {}
    client: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        if lower in REFUSED:
            raise ConfigError(f"option {lower!r} is refused: {REFUSED[lower]}")
        if lower in NOT_YET:
            raise ConfigError(f"option {NOT_YET[lower]!r} of the Kafka connector is not served by format kohort")
        known = _BY_LOWER_NAME.get(lower)
        if known is not None:
            values[_ATTRIBUTES[known.name]] = known.parse(known.name, str(text))
        elif lower.startswith("kafka."):
            client[lower.removeprefix("kafka.")] = str(text)
        elif lower != "path":
            raise unknown_option(name, [o.name for o in TABLE] + ["kafka.bootstrap.servers"])
    bootstrap = client.pop("bootstrap.servers", "")
    if not bootstrap:
        raise ConfigError("option 'kafka.bootstrap.servers' is missing: give HOST:PORT of a broker")
    options = SourceOptions(bootstrap, client, **values)
    _check_together(options, streaming=streaming, given={n.lower() for n in given})
    return options


def _check_together(options: SourceOptions, *, streaming: bool, given: set[str]) -> None:
    chosen = [n for n in ("subscribe", "subscribePattern", "assign") if n.lower() in given]
    if len(chosen) != 1:
        what = "none is given" if not chosen else f"{' and '.join(chosen)} are given"
        raise ConfigError(f"give exactly one of subscribe, subscribePattern and assign: {what}")
    if streaming and "endingoffsets" in given:
        raise ConfigError("option 'endingOffsets' is for batch reads; a stream ends with trigger(availableNow=True)")
    if not streaming and options.starting_offsets == "latest":
        raise ConfigError("startingOffsets=latest reads nothing in a batch: give earliest, group or JSON")
    if options.starting_offsets == "group" and not options.group_id:
        raise ConfigError("startingOffsets=group needs the option 'group.id'")
    if not streaming and isinstance(options.starting_offsets, dict):
        for topic, partitions in options.starting_offsets.items():
            if LATEST in partitions.values():
                raise ConfigError(f"startingOffsets: latest (-1) for {topic} reads nothing in a batch")
    if isinstance(options.ending_offsets, dict):
        for topic, partitions in options.ending_offsets.items():
            if EARLIEST in partitions.values():
                raise ConfigError(f"endingOffsets: earliest (-2) for {topic} is no end")

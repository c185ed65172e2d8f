"""Read and search records of a topic, within limits. Joins no group and commits no offsets."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kohort.errors import UsageError
from kohort.model import Record, TopicPartition
from kohort.results.console import ConsoleRecords, FoundHeader, FoundRecord, SearchedRange
from kohort.verbs.peeking import PEEK_OPTIONS, ConsumerWith, text_of
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.client.admin.model import LogEnds

MOST_RECORDS: Final = 10_000
MOST_BYTES: Final = 16 << 20
MOST_S: Final = 8.0
"""Maximum time of one search in seconds. It then returns the matches so far, and where to continue."""
MOST_MATCHES: Final = 50
MOST_PARTITIONS: Final = 500
LONGEST: Final = 16 << 10
"""Maximum size in bytes of a key or value in an answer."""
LONGEST_HEADER: Final = 1 << 10
MOST_HEADERS: Final = 20
LONGEST_TEXT: Final = 1_000
POLL_MS: Final = 250
FETCH_OPTIONS: Final = {**PEEK_OPTIONS, "fetch.max.bytes": 4 << 20, "max.partition.fetch.bytes": 1 << 20}
PARTS: Final = ("key", "value", "headers")
Limit = Literal["records", "bytes", "time", "matches"]
Span = tuple[int, int]
"""Offsets of a partition: first offset (included) and end (excluded)."""
Ranges = Mapping[int, Span]


class Start(NamedTuple):
    """Start of a search: ``last`` or ``first`` records, an ``offset``, or a ``time`` in ms."""

    at: Literal["last", "first", "offset", "time"] = "last"
    value: int = 0


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Text to search, in some parts of a record. An empty text matches all records.

    The case of ASCII letters does not matter.
    """

    text: str = ""
    parts: Sequence[str] = PARTS

    def __post_init__(self) -> None:
        wrong = [part for part in self.parts if part not in PARTS]
        if wrong or not self.parts:
            raise UsageError(f"in: expected some of {', '.join(PARTS)}, not {', '.join(wrong) or 'none'!r}")
        if len(self.text) > LONGEST_TEXT:
            raise UsageError(f"text: expected at most {LONGEST_TEXT} characters, not {len(self.text)}")

    def matcher(self) -> Callable[[Record], bool]:
        if not self.text:
            return lambda _: True
        wanted = self.text.encode("utf-8", "surrogatepass").lower()
        return lambda record: any(wanted in part.lower() for part in self._searched(record))

    def _searched(self, record: Record) -> Iterable[bytes]:
        if "key" in self.parts and record.key is not None:
            yield record.key
        if "value" in self.parts and record.value is not None:
            yield record.value
        if "headers" in self.parts:
            for name, value in record.headers:
                yield name.encode("utf-8", "surrogatepass")
                yield value or b""


def log_ends(admin: Admin, topic: str, partition: int | None) -> dict[int, LogEnds]:
    """Return the log ends of a topic's partitions, or of one. Raises ApiError; UsageError for too many partitions."""
    if partition is None:
        count = len(admin.describe_topics([topic], timeout_ms=ADMIN_MS)[topic].partitions)
        if count > MOST_PARTITIONS:
            raise UsageError(f"topic {topic!r} has {count} partitions: choose one of them")
        chosen = range(count)
    else:
        chosen = range(partition, partition + 1)
    ends = admin.list_ends([TopicPartition(topic, n) for n in chosen], timeout_ms=ADMIN_MS).check()
    return {n: ends[TopicPartition(topic, n)] for n in chosen}


def ranges_from(admin: Admin, topic: str, ends: Mapping[int, LogEnds], start: Start, width: int) -> dict[int, Span]:
    """Return the offsets to read: at most ``width`` in all, an equal share of each partition."""
    each = max(1, width // max(1, len(ends)))
    times: Mapping[TopicPartition, int] = {}
    if start.at == "time":
        places = {TopicPartition(topic, n): start.value for n in ends}
        found = admin.list_offsets(places, timeout_ms=ADMIN_MS).check()
        times = {place: found[place].offset for place in places}
    ranges = {}
    for n, log in ends.items():
        first = {"last": log.log_end - each, "first": log.log_start, "offset": start.value}.get(start.at, 0)
        if start.at == "time":
            at = times[TopicPartition(topic, n)]
            first = log.log_end if at < 0 else at  # no record since that time
        first = min(log.log_end, max(log.log_start, first))
        ranges[n] = first, min(log.log_end, first + each)
    return ranges


def parse_ranges(text: str) -> dict[int, Span]:
    """Parse ranges such as ``0:20-40,1:7-9``. Raises UsageError."""
    ranges: dict[int, Span] = {}
    for part in text.split(","):
        partition, _, offsets = part.partition(":")
        first, _, until = offsets.partition("-")
        if not all(one.isascii() and one.isdecimal() and len(one) < 19 for one in (partition, first, until)):
            raise UsageError(f"ranges: expected PARTITION:FIRST-UNTIL, not {part[:40]!r}")
        ranges[int(partition)] = int(first), int(until)
    if len(ranges) > MOST_PARTITIONS:
        raise UsageError(f"ranges: expected at most {MOST_PARTITIONS} partitions, not {len(ranges)}")
    return ranges


@dataclass(slots=True)
class RecordSearch:
    """A search in progress. ``reached``: next offset to read of each partition."""

    reached: dict[int, int]
    found: list[FoundRecord] = field(default_factory=list)
    records: int = 0
    size: int = 0
    stopped: Limit | None = None

    def limit(self, most_matches: int) -> Limit | None:
        if len(self.found) >= most_matches:
            return "matches"
        if self.records >= MOST_RECORDS:
            return "records"
        return "bytes" if self.size >= MOST_BYTES else None


def search(
    consumer: Consumer, topic: str, ranges: Ranges, matches: Callable[[Record], bool], most_matches: int
) -> RecordSearch:
    """Read ranges of a topic until their ends, or until a limit of records, bytes, matches or time."""
    state = RecordSearch({n: first for n, (first, _) in ranges.items()})
    due_s = time.monotonic() + MOST_S
    left = {n: until for n, (first, until) in ranges.items() if first < until}
    if not left:
        return state
    consumer.assign([TopicPartition(topic, n) for n in left])
    for n in left:
        consumer.seek(TopicPartition(topic, n), ranges[n][0])
    while left:
        for record in consumer.poll(POLL_MS, max_records=500):
            if record.offset >= left.get(record.partition, 0):
                continue
            if (stopped := state.limit(most_matches)) is not None:
                state.stopped = stopped
                return state
            state.reached[record.partition] = record.offset + 1
            state.records += 1
            state.size += _size(record)
            if matches(record):
                state.found.append(found_record(record))
        for n, until in list(left.items()):
            place = TopicPartition(topic, n)
            state.reached[n] = min(until, max(state.reached[n], consumer.position(place, timeout_ms=ADMIN_MS)))
            if state.reached[n] >= until:
                del left[n]
                consumer.pause([place])
        if left and time.monotonic() > due_s:
            state.stopped = "time"
            return state
    return state


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def find_records(
    consumer_with: ConsumerWith,
    topic: str,
    ends: Mapping[int, LogEnds],
    ranges: Ranges,
    wanted: SearchFilter,
    width: int,
) -> ConsoleRecords:
    """Search ranges of a topic. ``width``: maximum number of offsets of the ranges that continue the search."""
    ranges = {n: _within(ends[n], span) for n, span in ranges.items() if n in ends}
    with consumer_with(FETCH_OPTIONS) as consumer:
        done = search(consumer, topic, ranges, wanted.matcher(), MOST_MATCHES)
    each = max(1, width // max(1, len(ranges)))
    before = {n: (max(ends[n].log_start, first - each), first) for n, (first, _) in ranges.items()}
    after = {n: (at, min(ends[n].log_end, at + each)) for n, at in done.reached.items()}
    return ConsoleRecords(
        topic=topic,
        records=sorted(done.found, key=lambda one: (one.timestamp_ms or 0, one.partition, one.offset)),
        searched=[
            SearchedRange(
                partition=n,
                log_start_offset=ends[n].log_start,
                log_end_offset=ends[n].log_end,
                first=first,
                until=done.reached[n],
            )
            for n, (first, _) in ranges.items()
        ],
        searched_records=done.records,
        searched_bytes=done.size,
        stopped=done.stopped,
        earlier=_text_of_ranges(before),
        later=_text_of_ranges(after),
    )


def _within(log: LogEnds, span: Span) -> Span:
    first = min(log.log_end, max(log.log_start, span[0]))
    return first, min(log.log_end, max(first, span[1]))


def _text_of_ranges(ranges: Ranges) -> str | None:
    return ",".join(f"{n}:{first}-{until}" for n, (first, until) in ranges.items() if first < until) or None


def found_record(record: Record) -> FoundRecord:
    return FoundRecord(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=None if record.timestamp_ms < 0 else record.timestamp_ms,
        key=cut_text_of(record.key, LONGEST),
        key_size=len(record.key or b""),
        value=cut_text_of(record.value, LONGEST),
        value_size=len(record.value or b""),
        headers=[
            FoundHeader(name=name[:LONGEST_HEADER], value=cut_text_of(value, LONGEST_HEADER), size=len(value or b""))
            for name, value in record.headers[:MOST_HEADERS]
        ],
        headers_left_out=max(0, len(record.headers) - MOST_HEADERS),
    )


def cut_text_of(data: bytes | None, longest: int) -> str | dict[str, str] | None:
    """Return the first ``longest`` bytes as text, or as base64 if they are not UTF-8."""
    if data is None or len(data) <= longest:
        return text_of(data)
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data[:longest])  # ignores a character that is cut
    except UnicodeDecodeError:
        return text_of(data[:longest])

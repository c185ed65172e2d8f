"""Count, show and replay dead letters of handlers, brokers (KIP-1191) and Kafka Connect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kohort.client.handling.failures import REPLAYED, Failure, failure_of, without_failure
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, Record, TopicPartition
from kohort.results.dead_letters import (
    DeadLetterCount,
    DeadLetterShown,
    DeadLettersListed,
    DeadLettersReplayed,
    NextOffset,
    ReplayedCount,
)
from kohort.results.groups import PeekedHeader
from kohort.verbs.groups import ends_of
from kohort.verbs.peeking import PEEK_OPTIONS, read_between, text_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.producing.producer import Producer

ConsumerWith = Callable[[Mapping[str, Any]], "Consumer"]
POLL_MS: Final = 1000
SUFFIX: Final = "-dlt"
"""Suffix of dead-letter topics of handlers."""
PREFIX: Final = "dlq."
"""Prefix of dead-letter topics of share groups (KIP-1191)."""


def unread_records(
    consumer: Consumer, partitions: Sequence[TopicPartition], starts: Mapping[TopicPartition, int] | None = None
) -> Iterator[list[Record]]:
    """Yield the records of dead-letter partitions up to the log end offsets at the time of the call.

    ``starts``: first offsets; without one, the group's committed offset or else the log start. A replayed record that
    fails again becomes a new dead letter. Its offset is above these log end offsets.
    """
    given = starts or {}
    committed = consumer.committed(list(partitions)) if len(given) < len(partitions) else {}
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    for tp in partitions:
        at = committed.get(tp)
        if tp in given:
            consumer.seek(tp, min(given[tp], ends[tp]))  # above the log end, the reset policy would read all records
        elif at is not None:
            consumer.seek(tp, at.offset)
        else:
            consumer.seek_to_beginning([tp])
    while any(consumer.position(tp) < end for tp, end in ends.items()):
        records = consumer.poll(POLL_MS)
        yield [r for r in records if r.offset < ends[TopicPartition(r.topic, r.partition)]]


def partitions_of(admin: Admin, topic: str) -> list[TopicPartition]:
    found = admin.describe_topics([topic])[topic]
    return [TopicPartition(topic, number) for number in range(len(found.partitions))]


def dead_letter_topics(admin: Admin) -> list[str]:
    """Return the topics with the usual names of dead-letter topics."""
    names = [listing.name for listing in admin.list_topics()]
    return [name for name in names if name.endswith(SUFFIX) or name.startswith(PREFIX)]


def count_dead_letters(
    admin: Admin, consumer_with: ConsumerWith, topics: Sequence[str], most: int
) -> DeadLettersListed:
    """Count the newest dead letters of topics, up to ``most`` offsets in each partition."""
    counts: Counter[tuple[str, str | None, str | None, str]] = Counter()
    oldest: dict[tuple[str, str | None, str | None, str], int] = {}
    newest: dict[tuple[str, str | None, str | None, str], int] = {}
    unread = 0
    for topic in topics:
        partitions = partitions_of(admin, topic)
        first, ends = ends_of(admin, partitions, "earliest"), ends_of(admin, partitions, "latest")
        starts = {tp: max(first[tp], ends[tp] - most) for tp in partitions}
        unread += sum(starts[tp] - first[tp] for tp in partitions)
        with consumer_with(PEEK_OPTIONS) as consumer:
            for records in unread_records(consumer, partitions, starts):
                for record in records:
                    failure = failure_of(record)
                    origin = (failure.topic, failure.group or None) if failure else (None, None)
                    key = (topic, *origin, failure.reason if failure else "no reason")
                    counts[key] += 1
                    if (at_ms := record.timestamp_ms) >= 0:
                        oldest[key] = min(oldest.get(key, at_ms), at_ms)
                        newest[key] = max(newest.get(key, at_ms), at_ms)
    found = [
        DeadLetterCount(
            topic=topic,
            origin=origin,
            group=group,
            reason=reason,
            count=count,
            oldest_ms=oldest.get(key),
            newest_ms=newest.get(key),
        )
        for key, count in counts.items()
        for topic, origin, group, reason in [key]
    ]
    found.sort(key=lambda c: (c.topic, -c.count, c.reason))
    return DeadLettersListed(dead_letters=found, unread=unread)


def dead_letter_at(admin: Admin, consumer_with: ConsumerWith, place: TopicPartition, offset: int) -> DeadLetterShown:
    """Read a dead letter. Raises NothingThere."""
    starts, ends = ends_of(admin, [place], "earliest"), ends_of(admin, [place], "latest")
    if place not in ends:
        raise NothingThere(f"{place}: the partition does not exist")
    if not starts[place] <= offset < ends[place]:
        raise NothingThere(f"{place} has offsets {starts[place]} to {ends[place]} (excluded), not {offset}")
    with consumer_with(PEEK_OPTIONS) as consumer:
        records = [r for r in read_between(consumer, place, offset, offset + 1) if r.offset == offset]
    if not records:
        raise NothingThere(f"{place} has no record at offset {offset}: it was compacted, or it is a marker")
    return shown(records[0], failure_of(records[0]))


def shown(record: Record, failure: Failure | None) -> DeadLetterShown:
    origin = None
    if failure is not None:
        origin = failure.topic
        if failure.partition >= 0 and failure.offset >= 0:
            origin = f"{failure.topic}-{failure.partition} at offset {failure.offset}"
    return DeadLetterShown(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=None if record.timestamp_ms < 0 else record.timestamp_ms,
        origin=origin,
        group=(failure.group or None) if failure else None,
        attempts=failure.attempts if failure and failure.attempts >= 0 else None,
        stage=(failure.stage or None) if failure else None,
        reason=failure.reason if failure else None,
        message=(failure.message or None) if failure else None,
        stack=(failure.stack or None) if failure else None,
        key=text_of(record.key),
        value=text_of(record.value),
        headers=[PeekedHeader(name=name, value=text_of(value)) for name, value in record.headers],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Dead letters to replay: of these origins and reasons, from ``first`` up to ``last`` (included), at most ``most``.

    ``is_part``: a filter leaves out records, so the group commits no offsets.
    """

    origins: Collection[str]
    reasons: Collection[str] = ()
    first: int | None = None
    last: int | None = None
    most: int | None = None
    tombstones: bool = False

    @property
    def is_part(self) -> bool:
        return bool(self.reasons) or self.first is not None or self.last is not None


def default_origin(topic: str) -> str:
    """Return the origin topic by the name of a dead-letter topic. Raises UsageError for another name."""
    if not topic.endswith(SUFFIX) or topic == SUFFIX:
        raise UsageError(f"topic {topic!r} does not end in {SUFFIX}: name the origin topic with --origin")
    return topic.removesuffix(SUFFIX)


@dataclass(slots=True)
class Replay:
    """Replay of the dead letters of one topic; without a producer, it only counts them."""

    topic: str
    selection: Selection
    consumer: Consumer
    producer: Producer | None
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: int = 0
    tombstones: int = 0
    next: dict[TopicPartition, int] = field(default_factory=dict)

    def run(self, partitions: Sequence[TopicPartition], group: str) -> DeadLettersReplayed:
        """Replay until the log end or the limit. Raises KohortError if a broker rejects a record."""
        starts = None if self.selection.first is None else dict.fromkeys(partitions, self.selection.first)
        commits = self.producer is not None and not self.selection.is_part
        for records in unread_records(self.consumer, partitions, starts):
            sent = [delivery for record in records if not self.is_full and (delivery := self._replay(record))]
            for delivery in sent:
                delivery.result()
            if commits and self.next:
                self.consumer.commit({tp: OffsetAndMetadata(offset) for tp, offset in self.next.items()})
            if self.is_full:
                break
        return DeadLettersReplayed(
            topic=self.topic,
            dry_run=self.producer is None,
            replayed=[
                ReplayedCount(origin=origin, reason=reason, count=count)
                for (origin, reason), count in self.counts.most_common()
            ],
            others=self.others,
            tombstones=self.tombstones,
            group=group if commits else None,
            next=[NextOffset(partition=tp.partition, offset=offset) for tp, offset in sorted(self.next.items())],
        )

    @property
    def is_full(self) -> bool:
        return self.selection.most is not None and self.counts.total() >= self.selection.most

    def _replay(self, record: Record) -> Any:
        """Send a record if it is selected; return its delivery, or None."""
        chosen = self.selection
        if chosen.last is not None and record.offset > chosen.last:
            return None
        self.next[TopicPartition(record.topic, record.partition)] = record.offset + 1
        failure = failure_of(record)
        if failure is None or failure.topic not in chosen.origins:
            self.others += 1
            return None
        if chosen.reasons and failure.reason not in chosen.reasons:
            return None
        if record.value is None and not chosen.tombstones:
            self.tombstones += 1
            return None
        self.counts[failure.topic, failure.reason] += 1
        return None if self.producer is None else self._send(self.producer, record, failure)

    @staticmethod
    def _send(producer: Producer, record: Record, failure: Failure) -> Any:
        own = [header for header in without_failure(record.headers) if header[0] != REPLAYED]
        place = f"{record.topic}-{record.partition}:{record.offset}"
        known = 0 <= failure.partition < producer.partitions_for(failure.topic)
        return producer.send(
            failure.topic,
            record.value,
            record.key,
            partition=failure.partition if known else None,
            headers=[*own, (REPLAYED, place)],
        )

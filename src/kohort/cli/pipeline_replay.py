"""``kohort pipeline replay``: dead letters back into the topics that they came from. No Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.producing.producer import Producer
    from kohort.spark.pipeline.definition import DeadLetters

_ERROR: Final = "kohort-error."
_POLL_MS: Final = 1000


@click.command(short_help="Send dead letters back into the topics that they came from.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only count them, by reason.")
def replay(file: Path, dry_run: bool) -> None:
    """Send the dead letters of the pipeline of FILE back into the topics that they came from, as they were, for its
    next run to read. The group NAME-replay remembers what was sent: a second replay sends what came since.

    It is at least once, and other readers of those topics see the records again too.
    """
    from kohort import Consumer, Producer
    from kohort.spark.pipeline.document.parse import load_pipeline

    found = load_pipeline(file)
    letters = found.dead_letters
    if letters is None:
        raise KohortError(f"pipeline {found.name} has no dlq")
    options = {
        **letters.client,
        "group.id": f"{found.name}-replay",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
    }
    with ExitStack() as stack:
        consumer = stack.enter_context(Consumer(options))
        clusters = {} if dry_run else {source.brokers: source.client for source in found.sources}
        producers = {at: stack.enter_context(Producer(client)) for at, client in clusters.items()}
        to = {topic: producers.get(source.brokers) for source in found.sources for topic in source.topics}
        reasons, others = _replayed(found.name, _waiting(consumer, letters), to)
    for reason, count in reasons.most_common():
        click.echo(f"{count:,} {reason}")
    of_others = f"; {others:,} of other pipelines are passed over" if others else ""
    click.echo(f"{reasons.total():,} dead letters {'wait' if dry_run else 'sent back'}{of_others}", err=True)


class _Waiting(NamedTuple):
    """What of a topic is to be read: from where the consumer is, up to the ends that the topic had."""

    consumer: Consumer
    ends: dict[TopicPartition, int]

    def polls(self) -> Iterator[list[Record]]:
        """Records behind the ends are left: perhaps what was just sent, and failed again."""
        while any(self.consumer.position(tp) < end for tp, end in self.ends.items()):
            records = self.consumer.poll(_POLL_MS)
            yield [r for r in records if r.offset < self.ends[TopicPartition(r.topic, r.partition)]]


def _waiting(consumer: Consumer, letters: DeadLetters) -> _Waiting:
    """Return the dead letters that the group has not sent back, up to the end that their topic has now."""
    from kohort import Admin

    with Admin(letters.client) as admin:
        count = len(admin.describe_topics([letters.topic])[letters.topic].partitions)
    partitions = [TopicPartition(letters.topic, number) for number in range(count)]
    held = consumer.committed(partitions)
    consumer.assign(partitions)
    for tp in partitions:
        at = held.get(tp)
        if at is not None:
            consumer.seek(tp, at.offset)
        else:
            consumer.seek_to_beginning([tp])
    return _Waiting(consumer, consumer.end_offsets(partitions))


def _replayed(name: str, waiting: _Waiting, to: Mapping[str, Producer | None]) -> tuple[Counter[str], int]:
    """Send what waits to the topics of the pipeline; how many for each reason, and how many are of others. Where there
    is no producer they are only counted. Raises KohortError for one that is not taken: it waits then, and what follows.
    """
    reasons: Counter[str] = Counter()
    others = 0
    for records in waiting.polls():
        sent = []
        for record in records:
            about = error_headers(record)
            topic = about.get("topic", "")
            if topic not in to or about.get("pipeline", name) != name or "left-out" in about:
                others += 1
                continue
            reasons[about.get("reason", "no reason")] += 1
            producer = to[topic]
            if producer is not None:
                own = [(key, value) for key, value in record.headers if not key.startswith(_ERROR)]
                sent.append(producer.send(topic, record.value, record.key, headers=own))
        for delivery in sent:
            delivery.result()
        if records and any(to.values()):
            done = {TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1) for r in records}
            waiting.consumer.commit(done)
    return reasons, others


def error_headers(record: Record) -> dict[str, str]:
    """Return what a dead letter says of itself: reason, topic, offset, ..."""
    return {
        name.removeprefix(_ERROR): (value or b"").decode(errors="replace")
        for name, value in record.headers
        if name.startswith(_ERROR)
    }

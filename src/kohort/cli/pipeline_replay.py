"""``kohort pipeline replay``: dead letters back into the topics that they came from. No Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    from kohort.aio.consumer import Consumer
    from kohort.aio.producer import Producer
    from kohort.spark.pipeline.definition import Pipeline

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
    from kohort.spark.pipeline.parse import load_pipeline

    found = load_pipeline(file)
    letters = found.dead_letters
    if letters is None:
        raise KohortError(f"pipeline {found.name} has no dlq")
    options = {
        "bootstrap.servers": letters.brokers,
        "group.id": f"{found.name}-replay",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
    }
    with Consumer(options) as consumer, Producer({"bootstrap.servers": found.stream.brokers}) as producer:
        reasons, others = _replayed(found, consumer, None if dry_run else producer)
    for reason, count in reasons.most_common():
        click.echo(f"{count:,} {reason}")
    of_others = f"; {others:,} of other pipelines are passed over" if others else ""
    click.echo(f"{reasons.total():,} dead letters {'wait' if dry_run else 'sent back'}{of_others}", err=True)


def _replayed(pipeline: Pipeline, consumer: Consumer, producer: Producer | None) -> tuple[Counter[str], int]:
    """Send what waits up to the end that the topic has now; how many for each reason, and how many are not of this
    pipeline. Without a producer they are only counted."""
    letters = pipeline.dead_letters
    reasons: Counter[str] = Counter()
    others = 0
    if letters is None:
        return reasons, others
    partitions = [TopicPartition(letters.topic, p) for p in range(_partition_count(letters.brokers, letters.topic))]
    ends = consumer.end_offsets(partitions)
    held = consumer.committed(partitions)
    consumer.assign(partitions)
    for tp in partitions:
        at = held.get(tp)
        if at is not None:
            consumer.seek(tp, at.offset)
        else:
            consumer.seek_to_beginning([tp])
    while any(consumer.position(tp) < end for tp, end in ends.items()):
        done = {}
        for record in consumer.poll(_POLL_MS):
            tp = TopicPartition(record.topic, record.partition)
            if record.offset >= ends[tp]:
                continue  # came while this goes on: perhaps what was just sent, and failed again
            done[tp] = OffsetAndMetadata(record.offset + 1)
            about = error_headers(record)
            if not _is_of(pipeline, about):
                others += 1
                continue
            reasons[about.get("reason", "no reason")] += 1
            if producer is not None:
                own = [(name, value) for name, value in record.headers if not name.startswith(_ERROR)]
                producer.send(about["topic"], record.value, record.key, headers=own)
        if producer is not None and done:
            producer.flush()
            consumer.commit(done)
    return reasons, others


def error_headers(record: Record) -> dict[str, str]:
    """What a dead letter says of itself: reason, topic, offset, ..."""
    return {
        name.removeprefix(_ERROR): (value or b"").decode(errors="replace")
        for name, value in record.headers
        if name.startswith(_ERROR)
    }


def _is_of(pipeline: Pipeline, about: dict[str, str]) -> bool:
    topics = {topic for source in pipeline.sources for topic in source.topics}
    return about.get("topic") in topics and about.get("pipeline", pipeline.name) == pipeline.name


def _partition_count(brokers: str, topic: str) -> int:
    from kohort import Admin

    with Admin(bootstrap_servers=brokers) as admin:
        return len(admin.describe_topics([topic])[topic].partitions)

"""``kohort pipeline replay``: send dead letters back to their source topics. Spark is not needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kohort.cli.terminal.options import FILE
from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.producing.producer import Producer
    from kohort.spark.pipeline.definition import DeadLetters

_ERROR: Final = "kohort-error."


@click.command(short_help="Send dead letters back to their source topics.")
@click.argument("file", type=FILE)
@click.option("--dry-run", is_flag=True, help="Only count the dead letters for each reason.")
@click.option("--tombstones", is_flag=True, help="Also send tombstones (records without a value).")
def replay(file: Path, dry_run: bool, tombstones: bool) -> None:
    """Send the dead letters of the pipeline in FILE back to their source topics, unchanged. The next run reads them.

    The group NAME-replay commits how far the dead letters were sent, so the next replay sends only newer ones. Delivery
    is at least once, and other consumers of the source topics read the records again.

    A replayed record gets a higher offset than newer records of its key. In a compacted topic it replaces these
    records. A replayed tombstone would delete the key there, so tombstones are sent only with --tombstones.
    """
    from kohort import Consumer, Producer
    from kohort.spark.pipeline.parse import load_pipeline

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
        targets = {topic: producers.get(source.brokers) for source in found.sources for topic in source.topics}
        done = _replay(found.name, consumer, letters, targets, tombstones=tombstones)
    for reason, count in done.reasons.most_common():
        click.echo(f"{count:,} {reason}")
    of_others = f"; {done.others:,} of other pipelines skipped" if done.others else ""
    state = "to send back" if dry_run else "sent back"
    click.echo(f"{done.reasons.total():,} dead letters {state}{of_others}", err=True)
    if done.tombstones:
        click.echo(f"{done.tombstones:,} tombstones skipped: --tombstones sends them and deletes their keys", err=True)
    if done.reasons and not dry_run:
        click.echo("replayed records now come after newer records of their keys: check these keys", err=True)


class _Replayed(NamedTuple):
    reasons: Counter[str]
    others: int
    tombstones: int


def _replay(
    name: str, consumer: Consumer, letters: DeadLetters, targets: Mapping[str, Producer | None], *, tombstones: bool
) -> _Replayed:
    """Send dead letters to their source topics. If a topic has no producer, only count its dead letters.

    If a broker rejects a record, raises KohortError and commits none of the dead letters of the same poll.
    """
    from kohort import Admin
    from kohort.verbs.dead_letters import partitions_of, unread_records

    reasons: Counter[str] = Counter()
    others = left_out = 0
    with Admin(letters.client) as admin:
        partitions = partitions_of(admin, letters.topic)
    for records in unread_records(consumer, partitions):
        sent = []
        for record in records:
            about = error_headers(record)
            topic = about.get("topic", "")
            if topic not in targets or about.get("pipeline", name) != name or "left-out" in about:
                others += 1
                continue
            if record.value is None and not tombstones:
                left_out += 1
                continue
            reasons[about.get("reason", "no reason")] += 1
            producer = targets[topic]
            if producer is not None:
                own = [(key, value) for key, value in record.headers if not key.startswith(_ERROR)]
                sent.append(producer.send(topic, record.value, record.key, headers=own))
        for delivery in sent:
            delivery.result()
        if records and any(targets.values()):
            done = {TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1) for r in records}
            consumer.commit(done)
    return _Replayed(reasons, others, left_out)


def error_headers(record: Record) -> dict[str, str]:
    return {
        name.removeprefix(_ERROR): (value or b"").decode(errors="replace")
        for name, value in record.headers
        if name.startswith(_ERROR)
    }

"""The asyncio faces under test: each works until SIGTERM, and reports its progress."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from faults.faces import INPUTS, OUTPUTS, POLL_MS, SEND_EVERY_S, Face, Listener, begin_history, group_options, listed
from faults.report import AGAIN_S, Report, Task, history, now_us
from kohort import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncConsumerGroup,
    AsyncGroupHandler,
    AsyncProducer,
    KohortError,
    OffsetAndMetadata,
    TopicPartition,
)

AsyncFace = Callable[[Task, dict[str, Any], threading.Event, Report], Awaitable[None]]


def on_a_loop(face: AsyncFace) -> Face:
    """Return the face as a blocking function."""

    def run(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
        asyncio.run(face(of, options, over, report))

    return run


async def close(end: Callable[[], Awaitable[object]], report: Report) -> None:
    at = now_us()
    try:
        await end()
    except KohortError as error:
        report.failed(error)
    report.closed(at)


def consume(protocol: str) -> AsyncFace:
    """Return a face that reads, and commits its positions."""

    async def run(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
        written = begin_history(of)
        consumer = AsyncConsumer({**options, **group_options(of, protocol)})
        listener = Listener(consumer, written, of.group)
        consumer.subscribe([INPUTS], listener)
        while not over.is_set():
            at, offsets, generation = now_us(), {}, -1
            try:
                found = defaultdict(list)
                for record in await consumer.poll(POLL_MS):
                    found[record.topic, record.partition].append((record.offset, record.value.decode()))
                for where, records in found.items():
                    written.read(at, where, records)
                offsets = {where: records[-1][0] + 1 for where, records in found.items()}
                if not offsets:
                    continue
                generation = consumer.group_metadata().generation_id
                await consumer.commit(
                    {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()}
                )
                written.committed(at, of.group, offsets, "ok", generation=generation)
                report.done(at)
            except KohortError as error:
                report.failed(error)
                if offsets:
                    written.committed(at, of.group, offsets, "unknown", generation=generation)
                await asyncio.sleep(AGAIN_S)
        listener.closing = True
        await close(consumer.close, report)

    return run


def handle(protocol: str) -> AsyncFace:
    """Return a face with partition handlers as tasks; its commits are not in the history."""

    async def run(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
        written = begin_history(of, forgets=True)

        class Take(AsyncGroupHandler):
            async def setup(self, session: Any) -> None:
                at = now_us()
                written.ownership(
                    "assigned", at, of.group, listed(session.partitions), generation=session.generation_id
                )

            async def consume_claim(self, session: Any, claim: Any) -> None:
                at = now_us()
                async for record in claim:
                    written.read(at, (record.topic, record.partition), [(record.offset, record.value.decode())])
                    session.mark_message(record)
                    begun = now_us()
                    try:
                        await session.commit()
                        report.done(begun)
                    except KohortError as error:
                        report.failed(error)
                    at = now_us()

            async def cleanup(self, session: Any) -> None:
                written.ownership("lost", now_us(), of.group, listed(session.partitions))

        group = AsyncConsumerGroup({**options, **group_options(of, protocol)})
        runner = asyncio.create_task(_run_group(group, Take(), over, report))
        await asyncio.to_thread(over.wait)
        group.stop()
        await close(group.close, report)
        await runner

    return run


async def _run_group(
    group: AsyncConsumerGroup, handler: AsyncGroupHandler, over: threading.Event, report: Report
) -> None:
    while not over.is_set():
        try:
            await group.run([INPUTS], handler)
        except KohortError as error:
            report.failed(error)
            await asyncio.sleep(AGAIN_S)


async def produce(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
    """Send a record periodically, and await its acknowledgement."""
    written = history(of, idempotent=True)
    producer = AsyncProducer(options)
    for number in itertools.count():
        if over.is_set():
            break
        await asyncio.sleep(SEND_EVERY_S)
        at, where, value = now_us(), (OUTPUTS, number % 3), f"{of.name}:{number}"
        written.sent(at, where, value, "begun")
        try:
            delivery = await producer.send(OUTPUTS, value, partition=where[1])
            offset = (await delivery).offset
            written.sent(at, where, value, "ok", offset=offset if offset >= 0 else None)
            report.done(at)
        except KohortError as error:
            report.failed(error)
    await close(producer.close, report)


async def administer(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
    """Query the end offsets of a topic repeatedly."""
    written = history(of)
    admin = AsyncAdmin(options)
    partition = TopicPartition(INPUTS, 0)
    while not over.is_set():
        await asyncio.sleep(SEND_EVERY_S)
        at = now_us()
        try:
            offset = (await admin.list_offsets({partition: "latest"}))[partition].offset
            written.write("ends", topic=INPUTS, partition=0, offset=offset, at=at, done=now_us())
            report.done(at)
        except KohortError as error:
            report.failed(error)
    await close(admin.close, report)

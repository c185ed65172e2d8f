"""Recorded asyncio clients of kohort: the same command line as ``with_kohort.py``, without ``copy``."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import defaultdict

from recording import POLL_MS, SEND_EVERY_S, SESSION_MS, Task, history, now_us, task, until_stopped
from with_kohort import CALL_MS, INPUTS, Listener

from kohort import AsyncConsumer, AsyncProducer, KohortError, OffsetAndMetadata, TopicPartition, UsageError


async def produce(of: Task, over: threading.Event) -> None:
    idempotent = of.kind == "idempotent"
    written = history(of, "kohort asyncio", idempotent=idempotent)
    async with AsyncProducer(bootstrap_servers=of.bootstrap, enable_idempotence=idempotent) as producer:
        partitions = await producer.partitions_for(INPUTS)
        for number in itertools.count():
            if over.is_set():
                break
            await asyncio.sleep(SEND_EVERY_S)
            where, value, at = (INPUTS, number * 7 % partitions), f"{of.name}:{number}", now_us()
            written.sent(at, where, value, "begun")
            delivery = await producer.send(where[0], value, partition=where[1])
            try:
                offset = (await delivery).offset
                written.sent(at, where, value, "ok", offset=offset if offset >= 0 else None)
            except KohortError:
                written.sent(at, where, value, "unknown")


async def consume(of: Task, over: threading.Event) -> None:
    only, group = "read_committed", f"readers-{of.kind}"
    written = history(of, "kohort asyncio", isolation=only, session_us=SESSION_MS * 1000)
    options = {"session_timeout_ms": SESSION_MS} if of.kind == "classic" else {}
    consumer = AsyncConsumer(
        bootstrap_servers=of.bootstrap,
        group_id=group,
        group_protocol=of.kind,
        isolation_level=only,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    listener = Listener(consumer, written, group)
    async with consumer:
        consumer.subscribe([INPUTS], listener)
        while not over.is_set():
            at, found = now_us(), defaultdict(list)
            for record in await consumer.poll(POLL_MS, max_records=50):
                found[record.topic, record.partition].append((record.offset, record.value.decode()))
            for where, records in found.items():
                written.read(at, where, records)
            if not found:
                continue
            offsets = {where: records[-1][0] + 1 for where, records in found.items()}
            offsets_to_commit = {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()}
            at, generation = now_us(), consumer.group_metadata().generation_id
            written.committed(at, group, offsets, "begun", generation=generation, id=at)
            try:
                await consumer.commit(offsets_to_commit, timeout_ms=CALL_MS)
                written.committed(at, group, offsets, "ok", generation=generation, id=at)
            except UsageError:
                raise
            except KohortError:
                written.committed(at, group, offsets, "unknown", generation=generation, id=at)
        listener.closing = True


if __name__ == "__main__":
    mine = task()
    asyncio.run({"produce": produce, "consume": consume}[mine.verb](mine, until_stopped()))

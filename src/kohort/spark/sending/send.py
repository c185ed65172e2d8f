"""Sends Arrow batches from a Spark task with a producer kept per worker process, and counts the acknowledged rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import KohortError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.aio.producing.delivery import Delivery
    from kohort.aio.producing.producer import Producer

_HELD_MOST: Final = 256
"""Deliveries that are waited for before more is sent: a task's memory is the producer's buffer, not its rows."""

_kept: dict[tuple[int, tuple[tuple[str, Any], ...]], Producer] = {}


def kept_producer(settings: Mapping[str, Any]) -> Producer:
    """Return the producer of these settings, kept for the life of this process: workers are reused, and forked."""
    key = (os.getpid(), tuple(sorted(settings.items())))
    if key not in _kept:
        from kohort.aio.producing.producer import Producer

        _kept[key] = Producer(settings)
    return _kept[key]


def drop_producer(settings: Mapping[str, Any]) -> None:
    """Close a producer that failed: the next task begins with a new one, and a new producer id."""
    producer = _kept.pop((os.getpid(), tuple(sorted(settings.items()))), None)
    if producer is not None:
        with suppress(KohortError):  # what it has not delivered is the failure that is being told already
            producer.close(timeout_ms=0)


class RowSender:
    """One task's rows on their way. ``finish`` returns only when every row is acknowledged."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._producer = kept_producer(settings)
        self._pending: list[Delivery] = []
        self.rows = 0

    def send(self, topic: str, batch: pa.RecordBatch) -> None:
        """Send a batch of key, value, headers, partition (those that it has). Raises what an earlier one met."""
        self.rows += batch.num_rows
        self._pending += self._producer.send_arrow(topic, batch)
        if len(self._pending) > _HELD_MOST:
            self._wait_for(self._pending[: _HELD_MOST // 2])
            del self._pending[: _HELD_MOST // 2]

    def finish(self) -> int:
        """Wait for all of it and return the number of rows that were acknowledged."""
        self._producer.flush()
        self._wait_for(self._pending)
        self._pending = []
        return self.rows

    def fail(self) -> None:
        """Forget what is under way: the task failed."""
        drop_producer(self._settings)

    @staticmethod
    def _wait_for(deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            delivery.result()


def send_by_topic(sender: RowSender, batch: pa.RecordBatch, topic: str) -> None:
    """Send rows to ``topic``, or each to the topic that its column names. Raises UsageError for a row without one."""
    if topic:
        sender.send(topic, batch)
        return
    import pyarrow.compute as pc

    topics = batch.column("topic")
    if topics.null_count:
        raise UsageError("a row has no topic: give the option topic, or a value in the column topic")
    names = pc.unique(topics).to_pylist()
    for name in names:
        sender.send(name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name)))


def send_rows(batches: Iterable[pa.RecordBatch], settings: Mapping[str, Any], make: type[RowSender] = RowSender) -> int:
    """Send rows of (topic, key, value, headers) and return the number acknowledged, all or an error."""
    sender = make(settings)
    try:
        for batch in batches:
            if batch.num_rows:
                send_by_topic(sender, batch, "")
        return sender.finish()
    except KohortError:
        sender.fail()
        raise

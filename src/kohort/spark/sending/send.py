"""Sends Arrow batches from a Spark task with the producer of the worker process, and counts acknowledged rows.

The sink is at least once: Spark repeats failed tasks and micro-batches. Headers name the query, micro-batch, task and
row number of each row. A repeated row has the same headers if Spark gives the same rows to the task, as it does for
sources with offsets. Consumers that remember these four headers can drop duplicates.

A dead letter has more headers than its record and may exceed the topic's size limit. It is then sent without the value;
the header ``kohort-error.left-out`` names the missing parts, and the other headers name the offset of the record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ApiError, ErrorCode, KohortError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.aio.producing.delivery import Delivery
    from kohort.aio.producing.producer import Producer


@dataclass(frozen=True, slots=True)
class Origin:
    query: str
    batch: str
    task: int


def delivery_headers(origin: Origin, first_row: int, rows: int) -> list[tuple[str, pa.Array]]:
    import numpy as np
    import pyarrow as pa

    same = {"kohort-query": origin.query, "kohort-batch": origin.batch, "kohort-task": str(origin.task)}
    headers = [(name, pa.repeat(pa.scalar(text.encode(), pa.binary()), rows)) for name, text in same.items()]
    numbers = pa.array(np.arange(first_row, first_row + rows)).cast(pa.string()).cast(pa.binary())
    return [*headers, ("kohort-row", numbers)]


def add_headers(own: pa.Array | None, rows: int, more: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """Append headers to each record, after its own headers. ``more``: pairs of header name and value for each row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [pa.repeat(pa.scalar(name, pa.string()), rows) for name, _ in more]
    values = [value for _, value in more]
    counts = np.zeros(rows, np.int64)
    taken = 0
    if own is not None and len(own):
        counts = pc.fill_null(pc.list_value_length(own), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = own.flatten()
        names.insert(0, flat.field(0).cast(pa.string()))
        values.insert(0, flat.field(1).cast(pa.binary()))
        taken = len(flat)
    # ``names`` and ``values`` have the original headers of all records first, then one header for each record and
    # each entry of ``more``. ``order`` sorts them by record: its original headers, then its new ones.
    starts = np.concatenate(([0], np.cumsum(counts + len(more))))
    order = np.empty(starts[-1], np.int64)
    is_new = np.zeros(starts[-1], bool)
    for place in range(len(more)):
        at = starts[1:] - len(more) + place
        order[at] = taken + place * rows + np.arange(rows)
        is_new[at] = True
    order[~is_new] = np.arange(taken)
    items = pa.StructArray.from_arrays(
        [pa.concat_arrays(names).take(pa.array(order)), pa.concat_arrays(values).take(pa.array(order))],
        ["key", "value"],
    )
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), items)


_MAX_PENDING_DELIVERIES: Final = 256
"""Maximum number of unacknowledged record batches of a task. A task with more batches waits."""

_producers: dict[tuple[int, tuple[tuple[str, Any], ...]], Producer] = {}


def shared_producer(settings: Mapping[str, Any]) -> Producer:
    """Return the producer for these settings. All tasks in this process share it.

    Spark reuses worker processes, and forks them: a forked process gets its own producer.
    """
    key = (os.getpid(), tuple(sorted(settings.items())))
    if key not in _producers:
        from kohort.aio.producing.producer import Producer

        _producers[key] = Producer(settings)
    return _producers[key]


def drop_producer(settings: Mapping[str, Any]) -> None:
    """Close a failed producer. The next task creates a new producer, with a new producer id."""
    producer = _producers.pop((os.getpid(), tuple(sorted(settings.items()))), None)
    if producer is not None:
        with suppress(KohortError):  # the current error already reports the undelivered records
            producer.close(timeout_ms=0)


class RowSender:
    """Sends the rows of one task. ``finish`` returns when all rows are acknowledged."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._producer = shared_producer(settings)
        self._pending: list[Delivery] = []
        self.rows = 0

    def send(self, topic: str, batch: pa.RecordBatch) -> None:
        """Send rows with any of the columns key, value, headers, partition. Raises errors of earlier rows."""
        self.rows += batch.num_rows
        self._pending += self._producer.send_arrow(topic, batch)
        if len(self._pending) > _MAX_PENDING_DELIVERIES:
            self._wait_for(self._pending[: _MAX_PENDING_DELIVERIES // 2])
            del self._pending[: _MAX_PENDING_DELIVERIES // 2]

    def finish(self) -> int:
        self._producer.flush()
        self._wait_for(self._pending)
        self._pending = []
        return self.rows

    def fail(self) -> None:
        drop_producer(self._settings)

    @staticmethod
    def _wait_for(deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            delivery.result()


def send_by_topic(sender: RowSender, batch: pa.RecordBatch, topic: str) -> None:
    """Send rows to ``topic``. If ``topic`` is "", use the topic in each row. Raises UsageError for a NULL topic."""
    if topic:
        sender.send(topic, batch)
        return
    import pyarrow.compute as pc

    topics = batch.column("topic")
    if topics.null_count:
        raise UsageError("a row has no topic: set the option topic, or a value in the column topic")
    names = pc.unique(topics).to_pylist()
    for name in names:
        sender.send(name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name)))


def send_rows(batches: Iterable[pa.RecordBatch], settings: Mapping[str, Any], make: type[RowSender] = RowSender) -> int:
    """Send rows with the columns topic, key, value and headers. Return the number of acknowledged rows.

    Raises an error if a row is not acknowledged.
    """
    sender = make(settings)
    try:
        for batch in batches:
            if batch.num_rows:
                send_by_topic(sender, batch, "")
        return sender.finish()
    except KohortError:
        sender.fail()
        raise


ERROR: Final = "kohort-error."
LEFT_OUT: Final = f"{ERROR}left-out"
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_MAX_PENDING_BATCHES: Final = 8
"""Maximum number of Arrow batches with unacknowledged dead letters, for each task.

The batches stay in memory, since a batch that is too large is sent again in halves.
"""


class LetterSender(RowSender):
    """Sends the dead letters of one task. ``finish`` returns when all dead letters are acknowledged."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._sent: list[tuple[str, pa.RecordBatch, list[Delivery]]] = []

    def send(self, topic: str, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._sent.append((topic, batch, self._producer.send_arrow(topic, batch)))
        if len(self._sent) > _MAX_PENDING_BATCHES:
            self._acknowledge(*self._sent.pop(0))

    def finish(self) -> int:
        self._producer.flush()
        while self._sent:
            self._acknowledge(*self._sent.pop(0))
        return self.rows

    def _acknowledge(self, topic: str, batch: pa.RecordBatch, deliveries: list[Delivery]) -> None:
        """Wait until the brokers acknowledge a batch.

        A batch that is too large is resent in halves. A single dead letter that is too large is resent without its
        value.
        """
        try:
            self._wait_for(deliveries)
        except ApiError as error:
            if error.code not in _TOO_LARGE:
                raise
            if batch.num_rows > 1:
                half = batch.num_rows // 2
                for part in (batch.slice(0, half), batch.slice(half)):
                    self._acknowledge(topic, part, self._producer.send_arrow(topic, part))
                return
            self._send_smaller(topic, batch)

    def _send_smaller(self, topic: str, letter: pa.RecordBatch) -> None:
        """Send a dead letter without its value. If it is still too large, also omit key and headers.

        Raises ApiError.
        """
        without_value, without_record = smaller_letters(letter)
        try:
            self._wait_for(self._producer.send_arrow(topic, without_value))
        except ApiError as error:
            if error.code not in _TOO_LARGE:
                raise
            self._wait_for(self._producer.send_arrow(topic, without_record))


def smaller_letters(letter: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield two smaller forms of a dead letter.

    The first form omits the value. The second form also omits the key and the source headers.
    """
    import pyarrow as pa

    key, value, headers = (letter.column(name) for name in ("key", "value", "headers"))
    own = pa.array([[h for h in headers[0].as_py() or [] if h["key"].startswith(ERROR)]], headers.type)
    no_value, no_key = (f"{len(column[0].as_py() or b''):,} bytes" for column in (value, key))
    for kept_key, kept_headers, left_out in (
        (key, headers, f"value ({no_value})"),
        (pa.nulls(1, key.type), own, f"value ({no_value}), key ({no_key}) and headers of the record"),
    ):
        note = (LEFT_OUT, pa.array([left_out.encode()], pa.binary()))
        columns = [kept_key, pa.nulls(1, value.type), add_headers(kept_headers, 1, [note])]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])

"""Sends Arrow batches from a Spark task with a producer kept per worker process, and counts the acknowledged rows.

A sink that is at least once may send a row twice: when Spark repeats a task or a micro-batch. Headers name the query,
micro-batch, task and row number of each row, and a repeated row carries the same (as long as the plan gives the same
task the same rows, which sources with offsets and their projections do). A reader that remembers these four can drop
it.

A dead letter is the record and some headers more, so a record near the limit of its topic makes a letter above it. Such
a letter goes without its value, and ``kohort-error.left-out`` names the missing part; the record itself is in its
topic, at the offset that the letter names.
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

QUERY: Final = "kohort-query"
BATCH: Final = "kohort-batch"
TASK: Final = "kohort-task"
ROW: Final = "kohort-row"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who sends: the query's id, the micro-batch, and the task's number in it."""

    query: str
    batch: str
    task: int


def delivery_headers(origin: Origin, first_row: int, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the headers of ``rows`` rows, the first of which is the task's row number ``first_row``."""
    import numpy as np
    import pyarrow as pa

    def constant(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text.encode(), pa.binary()), rows)

    numbers = pa.array(np.arange(first_row, first_row + rows)).cast(pa.string()).cast(pa.binary())
    return [
        (QUERY, constant(origin.query)),
        (BATCH, constant(origin.batch)),
        (TASK, constant(str(origin.task))),
        (ROW, numbers),
    ]


def add_headers(own: pa.Array | None, rows: int, more: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """Return a column list<struct<key, value>>: each row's own headers, then one of each of ``more`` (name, value by
    row)."""
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
    # Row r holds its own items and then len(more) new ones; the new ones lie behind all own items, name by name.
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


ERROR: Final = "kohort-error."
"""Prefix of the headers that a dead letter has beside those of the record."""
LEFT_OUT: Final = f"{ERROR}left-out"
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_HELD_LETTERS_MOST: Final = 8
"""Arrow batches that are kept until they are acknowledged, in case one of their rows is too large."""


class LetterSender(RowSender):
    """One task's dead letters in flight. ``finish`` returns only when every letter is acknowledged."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._sent: list[tuple[str, pa.RecordBatch, list[Delivery]]] = []

    def send(self, topic: str, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._sent.append((topic, batch, self._producer.send_arrow(topic, batch)))
        if len(self._sent) > _HELD_LETTERS_MOST:
            self._acknowledge(*self._sent.pop(0))

    def finish(self) -> int:
        self._producer.flush()
        while self._sent:
            self._acknowledge(*self._sent.pop(0))
        return self.rows

    def _acknowledge(self, topic: str, batch: pa.RecordBatch, deliveries: list[Delivery]) -> None:
        """Wait for a batch; send the halves of one that is too large again, and a single letter without its value."""
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
        """Send one letter with as much of it as the topic takes. Raises ApiError where it takes none."""
        smaller = list(smaller_letters(letter))
        for last, part in zip((*[False] * (len(smaller) - 1), True), smaller, strict=True):
            try:
                self._wait_for(self._producer.send_arrow(topic, part))
            except ApiError as error:
                if last or error.code not in _TOO_LARGE:
                    raise
            else:
                return


def smaller_letters(letter: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a letter without its value; then without its key and the record's own headers as well."""
    import pyarrow as pa

    key, value, headers = (letter.column(name) for name in ("key", "value", "headers"))
    own = pa.array([[h for h in headers[0].as_py() or [] if h["key"].startswith(ERROR)]], headers.type)
    bytes_of = {"value": _size(value), "key": _size(key)}
    for kept_key, kept_headers, left in (
        (key, headers, f"value ({bytes_of['value']:,} bytes)"),
        (
            pa.nulls(1, key.type),
            own,
            f"value ({bytes_of['value']:,} bytes), key ({bytes_of['key']:,} bytes) and headers of the record",
        ),
    ):
        note = (LEFT_OUT, pa.array([left.encode()], pa.binary()))
        columns = [kept_key, pa.nulls(1, value.type), add_headers(kept_headers, 1, [note])]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])


def _size(column: pa.Array) -> int:
    content = column[0].as_py()
    return len(content) if content is not None else 0

"""Sends dead letters: one that is too large for its topic is sent without its value.

A dead letter is the record and some headers more, so a record near the limit of its topic makes a letter above it. The
letter then says in ``kohort-error.left-out`` what is missing; the record itself is in its topic, at the offset that the
letter names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ApiError, ErrorCode
from kohort.spark.sending.delivery_headers import add_headers
from kohort.spark.sending.send import RowSender

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.aio.producing.delivery import Delivery

ERROR: Final = "kohort-error."
"""Prefix of the headers that a dead letter has beside those of the record."""
LEFT_OUT: Final = f"{ERROR}left-out"
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_HELD_MOST: Final = 8
"""Arrow batches that are kept until they are acknowledged, in case one of their rows is too large."""


class LetterSender(RowSender):
    """One task's dead letters in flight. ``finish`` returns only when every letter is acknowledged."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._sent: list[tuple[str, pa.RecordBatch, list[Delivery]]] = []

    def send(self, topic: str, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._sent.append((topic, batch, self._producer.send_arrow(topic, batch)))
        if len(self._sent) > _HELD_MOST:
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

"""What users hand a producer, in its short forms, and how it is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kohort.client.producer import to_bytes, to_headers
from kohort.errors import UsageError
from kohort.model import Header

Text = bytes | str | None
Headers = Sequence[tuple[str, Text]] | Mapping[str, Text]
RecordLike = Text | tuple[Text, Text] | tuple[Text, Text, Headers] | tuple[Text, Text, Headers, int]
"""A value, or (key, value[, headers[, timestamp_ms]])."""
Checked = tuple[bytes | None, bytes | None, Sequence[Header], int]
"""Key, value, headers, and the timestamp, -1 for now."""
CHUNK: Final = 1000


def checked_chunks(records: Iterable[RecordLike], size: int = CHUNK) -> Iterator[list[Checked]]:
    """Checked records in pieces small enough to be added at one go. Raises UsageError for what is no record."""
    chunk = []
    for record in records:
        chunk.append(_checked(record))
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _checked(record: RecordLike) -> Checked:
    if not isinstance(record, tuple):
        return None, to_bytes("value", record), (), -1
    if not 2 <= len(record) <= 4:
        raise UsageError(f"a record is a value or (key, value[, headers[, timestamp_ms]]), not {record!r}")
    key, value = to_bytes("key", record[0]), to_bytes("value", record[1])
    headers = to_headers(record[2]) if len(record) > 2 and record[2] else ()
    return key, value, headers, record[3] if len(record) > 3 else -1

"""What users hand a producer, in its short forms, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import NoneType
from typing import Any, Final

from kohort.aio.system import wall_ms
from kohort.client.producer import to_bytes, to_headers
from kohort.client.user_input import checked_timestamp, shown
from kohort.client.writing.accumulator import Lot
from kohort.errors import UsageError
from kohort.model import Header

Text = bytes | str | None
Headers = Sequence[tuple[str, Text]] | Mapping[str, Text]
RecordLike = Text | tuple[Text, Text] | tuple[Text, Text, Headers] | tuple[Text, Text, Headers, int]
"""A value, or (key, value[, headers[, timestamp_ms]])."""
CHUNK: Final = 1000
BLOBS: Final = {bytes, NoneType}


def checked_lots(records: Iterable[RecordLike], now_ms: Callable[[], int], size: int = CHUNK) -> Iterator[Lot]:
    """Return records in lots small enough to be added at one go; ``now_ms`` tells the time of those without one.

    Raises UsageError for what is no record.
    """
    given = iter(records)
    while chunk := list(islice(given, size)):
        at_ms = now_ms()
        yield _plain_lot(chunk, at_ms) or _lot(chunk, at_ms)


def _plain_lot(records: list[Any], now_ms: int) -> Lot | None:
    """Return the lot, if all records are values, or all are pairs, of bytes and None; otherwise None.

    These can be checked without a look at each of them.
    """
    kinds = set(map(type, records))
    keys: Sequence[bytes | None] = [None] * len(records)
    values: Sequence[bytes | None] = records
    if kinds == {tuple} and set(map(len, records)) == {2}:
        keys, values = zip(*records, strict=True)
        kinds = set(map(type, keys)) | set(map(type, values))
    return Lot(keys, values, [now_ms] * len(records), {}) if kinds <= BLOBS else None


def time_of_record(given: int | None) -> int:
    """Return the timestamp that a record goes with: the one it was given, or the wall's. Raises UsageError."""
    if given is None or (at_ms := checked_timestamp(given)) < 0:
        return wall_ms()
    return at_ms


def _lot(records: list[RecordLike], now_ms: int) -> Lot:
    keys, values, timestamps, headers = zip(*map(_checked, records), strict=True)
    times = [now_ms if at_ms < 0 else at_ms for at_ms in timestamps]
    return Lot(keys, values, times, {place: some for place, some in enumerate(headers) if some})


def _checked(record: RecordLike) -> tuple[bytes | None, bytes | None, int, Sequence[Header]]:
    """Return key, value, timestamp (-1 for none) and headers. Raises UsageError for what is no record."""
    if not isinstance(record, tuple):
        return None, to_bytes("value", record), -1, ()
    if not 2 <= len(record) <= 4:
        raise UsageError(f"a record is a value or (key, value[, headers[, timestamp_ms]]), not {shown(record)}")
    key, value = to_bytes("key", record[0]), to_bytes("value", record[1])
    headers = to_headers(record[2]) if len(record) > 2 and record[2] else ()
    return key, value, checked_timestamp(record[3]) if len(record) > 3 else -1, headers

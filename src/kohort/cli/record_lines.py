"""Records as lines: raw, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from kohort.model import Record
from kohort.verbs.peeking import text_of

Writer = Callable[[Iterable[Record]], bytes]

CSV_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value")


def writer_of(
    kind: str, *, key_separator: bytes | None = None, null_value: bytes = b"", headers: bool = False
) -> Writer:
    """Return what makes lines of records, many at a time; ``headers``: in front of raw lines too."""
    if kind == "json":
        return lambda records: b"".join(json_line(record) for record in records)
    if kind == "csv":
        return csv_lines
    if headers:
        return lambda records: b"".join(
            headers_text(record) + raw_line(record, key_separator, null_value) for record in records
        )
    return lambda records: b"".join(raw_line(record, key_separator, null_value) for record in records)


def raw_line(record: Record, key_separator: bytes | None, null_value: bytes) -> bytes:
    """Return the value as it is, after the key if a separator is given."""
    value = null_value if record.value is None else record.value
    if key_separator is None:
        return value + b"\n"
    key = null_value if record.key is None else record.key
    return b"".join((key, key_separator, value, b"\n"))


def headers_text(record: Record) -> bytes:
    """``name:value,name:value`` and a tab, as Kafka's console consumer prints them (print.headers)."""
    pairs = [name.encode() + b":" + (b"null" if value is None else value) for name, value in record.headers]
    return (b",".join(pairs) or b"NO_HEADERS") + b"\t"


def json_line(record: Record) -> bytes:
    """Return all there is to a record as one JSON object. Bytes that are no text become ``{"base64": ...}``."""
    about: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": None if record.timestamp_ms < 0 else record.timestamp_ms,
        "key": text_of(record.key),
        "value": text_of(record.value),
        "headers": [[name, text_of(value)] for name, value in record.headers],
    }
    return json.dumps(about, ensure_ascii=False).encode() + b"\n"


def csv_lines(records: Iterable[Record]) -> bytes:
    """Return rows of CSV_COLUMNS; null is an empty field, bytes that are no text are base64."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for record in records:
        fields = [text_of(record.key), text_of(record.value)]
        shown = [field["base64"] if isinstance(field, dict) else field for field in fields]
        timestamp_ms = "" if record.timestamp_ms < 0 else record.timestamp_ms
        rows.writerow([record.topic, record.partition, record.offset, timestamp_ms, *shown])
    return out.getvalue().encode()

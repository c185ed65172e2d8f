"""Numbers out of a ``MetricsData`` of OpenTelemetry's protocol (OTLP), which is what clients push (KIP-714).

A small reader of our own: the packages that exist parse a whole message at once, hold all of it as objects, and cannot
be told where to stop. Here work is done in steps, and what is kept is bounded while it is read: a stranger's mebibyte
of data points costs no more than its scan.

Gauges and sums are kept, the kinds that clients push; histograms and summaries are passed over. The numbers of fields
are those of ``opentelemetry/proto/metrics/v1/metrics.proto``, version 1.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kohort.errors import ProtocolError
from kohort.steps import Pace, Steps
from kohort.telemetry.report import MetricValue

VALUES_MOST: Final = 2_000
"""Kept of one push."""
LABELS_MOST: Final = 16
"""Kept of one data point, and of the client."""
TEXT_MOST: Final = 256
"""Characters of a name or a label that are kept."""
FIELDS_MOST: Final = 1_000
"""Of a message without messages in it that this version reads: what has more is rubbish."""
FIELD_US: Final = 0.8

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_double = struct.Struct("<d")
_int64 = struct.Struct("<q")

RESOURCE_METRICS: Final = 1  # of MetricsData
RESOURCE, SCOPE_METRICS = 1, 2  # of ResourceMetrics
ATTRIBUTES: Final = 1  # of Resource
METRICS: Final = 2  # of ScopeMetrics
NAME, GAUGE, SUM = 1, 5, 7  # of Metric
DATA_POINTS: Final = 1  # of Gauge and Sum
AS_DOUBLE, AS_INT, POINT_ATTRIBUTES = 4, 6, 7  # of NumberDataPoint
KEY, VALUE = 1, 2  # of KeyValue
STRING, BOOL, INT, DOUBLE = 1, 2, 3, 4  # of AnyValue

Field = tuple[int, int, int, int]
"""Number, type on the wire, and where its content begins and ends; of a number its value instead of both."""


class BadTelemetry(ProtocolError):
    """A push that is no message of OpenTelemetry's protocol."""


@dataclass(slots=True)
class PushedMetrics:
    """What one push says. ``is_cut``: it had more values than are kept."""

    labels: dict[str, str] = field(default_factory=dict)
    values: list[MetricValue] = field(default_factory=list)
    is_cut: bool = False


def parse_metrics(data: bytes) -> Steps[PushedMetrics]:
    """Read the numbers of a push, in steps. Raises BadTelemetry for what is no ``MetricsData``."""
    pushed, pace = PushedMetrics(), Pace()
    for number, kind, begin, stop in _fields(data, 0, len(data)):
        if number == RESOURCE_METRICS and kind == BYTES:
            yield from _resource(data, begin, stop, pushed, pace)
        if pace.is_due(FIELD_US):
            yield
    return pushed


def _resource(data: bytes, at: int, end: int, pushed: PushedMetrics, pace: Pace) -> Steps[None]:
    for number, kind, begin, stop in _fields(data, at, end):
        if kind != BYTES:
            continue
        if number == RESOURCE:
            pushed.labels |= _labels(data, begin, stop, ATTRIBUTES)
            for name in list(pushed.labels)[LABELS_MOST:]:
                del pushed.labels[name]
            if pace.is_due(_scan_us(begin, stop)):
                yield
        elif number == SCOPE_METRICS:
            yield from _scope(data, begin, stop, pushed, pace)
        if pace.is_due(FIELD_US):
            yield


def _scope(data: bytes, at: int, end: int, pushed: PushedMetrics, pace: Pace) -> Steps[None]:
    for number, kind, begin, stop in _fields(data, at, end):
        if number == METRICS and kind == BYTES:
            yield from _metric(data, begin, stop, pushed, pace)
        if pace.is_due(FIELD_US):
            yield


def _metric(data: bytes, at: int, end: int, pushed: PushedMetrics, pace: Pace) -> Steps[None]:
    name = ""
    held: list[tuple[int, int]] = []
    scan_us = 0.0
    for number, kind, begin, stop in _leaf(data, at, end):
        scan_us += FIELD_US
        if kind == BYTES and number == NAME:
            name = _text(data, begin, stop)
        elif kind == BYTES and number in (GAUGE, SUM):
            held.append((begin, stop))
    if pace.is_due(scan_us):
        yield
    for begin, stop in held:
        for number, kind, point, point_end in _fields(data, begin, stop):
            if number == DATA_POINTS and kind == BYTES:
                _keep(data, point, point_end, name, pushed)
            if pace.is_due(_scan_us(point, point_end)):
                yield


def _scan_us(at: int, end: int) -> float:
    """Return about how long it takes at most to read a message, or a number: no field has less than two bytes."""
    return FIELD_US * (1 + max(end - at, 0) / 2)


def _keep(data: bytes, at: int, end: int, name: str, pushed: PushedMetrics) -> None:
    value: float | None = None
    for number, kind, begin, _ in _leaf(data, at, end):
        if kind == FIXED64 and number == AS_DOUBLE:
            (value,) = _double.unpack_from(data, begin)
        elif kind == FIXED64 and number == AS_INT:
            value = float(_int64.unpack_from(data, begin)[0])
    if value is None or not math.isfinite(value) or not name:
        return  # said to have no value, as Kafka's clients have it of an average of nothing
    if len(pushed.values) >= VALUES_MOST:
        pushed.is_cut = True
        return
    pushed.values.append(MetricValue(name, value, _labels(data, at, end, POINT_ATTRIBUTES)))


def _labels(data: bytes, at: int, end: int, wanted: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    for number, kind, begin, stop in _leaf(data, at, end):
        if number == wanted and kind == BYTES and len(labels) < LABELS_MOST:
            name, value = _label(data, begin, stop)
            labels[name] = value
    return labels


def _label(data: bytes, at: int, end: int) -> tuple[str, str]:
    name = value = ""
    for number, kind, begin, stop in _leaf(data, at, end):
        if kind != BYTES:
            continue
        if number == KEY:
            name = _text(data, begin, stop)
        elif number == VALUE:
            value = _any_value(data, begin, stop)
    return name, value


def _any_value(data: bytes, at: int, end: int) -> str:
    """Return a value as text; nothing for lists and the like."""
    text = ""
    for number, kind, begin, stop in _leaf(data, at, end):
        if number == STRING and kind == BYTES:
            text = _text(data, begin, stop)
        elif number == BOOL and kind == VARINT:
            text = "true" if begin else "false"
        elif number == INT and kind == VARINT:
            text = str(begin - (1 << 64) if begin >> 63 else begin)
        elif number == DOUBLE and kind == FIXED64:
            text = repr(_double.unpack_from(data, begin)[0])
    return text


def _text(data: bytes, at: int, end: int) -> str:
    try:
        return data[at:end].decode()[:TEXT_MOST]
    except UnicodeDecodeError:
        raise BadTelemetry(f"text at byte {at} that is not UTF-8") from None


def _leaf(data: bytes, at: int, end: int) -> Iterator[Field]:
    for count, found in enumerate(_fields(data, at, end)):
        if count >= FIELDS_MOST:
            raise BadTelemetry(f"a message at byte {at} of more than {FIELDS_MOST} fields")
        yield found


def _fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    while at < end:
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise BadTelemetry(f"field number {number} at byte {at}")
        if kind == VARINT:
            value, at = _varint(data, at, end)
            yield number, kind, value, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at, end)
        else:
            size = _SIZES.get(kind, -1)
            if size < 0:
                raise BadTelemetry(f"wire type {kind} at byte {at}")
        if size > end - at:
            raise BadTelemetry(f"a field of {size} bytes with {end - at} left, at byte {at}")
        yield number, kind, at, at + size
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise BadTelemetry(f"a number of more than ten bytes, before byte {at}")
    raise BadTelemetry(f"a number that ends with its message, at byte {end}")

"""Parse the numbers of an OpenTelemetry ``MetricsData`` message (OTLP), which clients push (KIP-714).

Existing parsers decode a whole message at once and without limits. This one works in steps and bounds the kept values
while parsing, so a hostile message of a megabyte costs no more than its scan.

It keeps gauges and sums, which clients push, and skips histograms and summaries. Field numbers are those of
``opentelemetry/proto/metrics/v1/metrics.proto``, version 1.
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
LABELS_MOST: Final = 16
TEXT_MOST: Final = 256
"""Maximum length of a name or label, in characters."""
FIELDS_MOST: Final = 1_000
"""Maximum number of fields in a resource, data point or label; a push with more is malformed."""
FIELD_US: Final = 0.8

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_double = struct.Struct("<d")
_int64 = struct.Struct("<q")

RESOURCE_METRICS: Final = 1  # field of MetricsData
RESOURCE, SCOPE_METRICS = 1, 2  # fields of ResourceMetrics
ATTRIBUTES: Final = 1  # field of Resource
METRICS: Final = 2  # field of ScopeMetrics
NAME, GAUGE, SUM = 1, 5, 7  # fields of Metric
DATA_POINTS: Final = 1  # field of Gauge and Sum
AS_DOUBLE, AS_INT, POINT_ATTRIBUTES = 4, 6, 7  # fields of NumberDataPoint
KEY, VALUE = 1, 2  # fields of KeyValue
STRING, BOOL, INT, DOUBLE = 1, 2, 3, 4  # fields of AnyValue

Field = tuple[int, int, int, int]
"""Field number, wire type, start and end. For a varint, start and end are both its value."""


class BadTelemetry(ProtocolError):
    pass


@dataclass(slots=True)
class PushedMetrics:
    """Content of a push. ``is_cut``: values beyond the maximum were dropped."""

    labels: dict[str, str] = field(default_factory=dict)
    values: list[MetricValue] = field(default_factory=list)
    is_cut: bool = False


def parse_metrics(data: bytes) -> Steps[PushedMetrics]:
    """Parse a push in steps. Raises BadTelemetry for an invalid ``MetricsData``."""
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
    """Estimate the time to parse a message, in microseconds: a field has at least two bytes."""
    return FIELD_US * (1 + max(end - at, 0) / 2)


def _keep(data: bytes, at: int, end: int, name: str, pushed: PushedMetrics) -> None:
    value: float | None = None
    for number, kind, begin, _ in _leaf(data, at, end):
        if kind == FIXED64 and number == AS_DOUBLE:
            (value,) = _double.unpack_from(data, begin)
        elif kind == FIXED64 and number == AS_INT:
            value = float(_int64.unpack_from(data, begin)[0])
    if value is None or not math.isfinite(value) or not name:
        return  # Kafka's clients push NaN as the average of no measurements
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
    """Return a value as text; empty for lists and maps."""
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
        raise BadTelemetry(f"invalid UTF-8 at byte {at}") from None


def _leaf(data: bytes, at: int, end: int) -> Iterator[Field]:
    for count, found in enumerate(_fields(data, at, end)):
        if count >= FIELDS_MOST:
            raise BadTelemetry(f"message at byte {at} has more than {FIELDS_MOST} fields")
        yield found


def _fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    while at < end:
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise BadTelemetry(f"invalid field number {number} at byte {at}")
        if kind == VARINT:
            value, at = _varint(data, at, end)
            yield number, kind, value, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at, end)
        else:
            size = _SIZES.get(kind, -1)
            if size < 0:
                raise BadTelemetry(f"invalid wire type {kind} at byte {at}")
        if size > end - at:
            raise BadTelemetry(f"field at byte {at} has {size} bytes, but {end - at} are left")
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
            raise BadTelemetry(f"varint of more than ten bytes before byte {at}")
    raise BadTelemetry(f"incomplete varint at byte {end}")

"""Encode OpenTelemetry's ``MetricsData`` by hand, as clients push it."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    """Encode a message or string field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def label(name: str, value: str) -> bytes:
    return field(1, name.encode()) + field(2, field(1, value.encode()))


def double_point(value: float, labels: Mapping[str, str]) -> bytes:
    return b"\x21" + struct.pack("<d", value) + b"".join(field(7, label(*pair)) for pair in labels.items())


def int_point(value: int, labels: Mapping[str, str]) -> bytes:
    return b"\x31" + struct.pack("<q", value) + b"".join(field(7, label(*pair)) for pair in labels.items())


def gauge(name: str, value: float, **labels: str) -> bytes:
    return field(1, name.encode()) + field(5, field(1, double_point(value, labels)))


def total(name: str, value: int, **labels: str) -> bytes:
    """Encode a monotonic sum of integers."""
    return field(1, name.encode()) + field(7, field(1, int_point(value, labels)) + b"\x10\x02\x18\x01")


def metrics_data(*metrics: bytes, **resource: str) -> bytes:
    """Encode metrics of a client with the given resource attributes."""
    about = field(1, b"".join(field(1, label(*pair)) for pair in resource.items()))
    return field(1, about + field(2, b"".join(field(2, metric) for metric in metrics)))

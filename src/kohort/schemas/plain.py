"""Serializers and deserializers by name, without a schema: Kafka's strings and numbers, and JSON."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

Convert = Callable[[Any], Any]


def _as_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"expected a str, not {type(value).__name__}")
    return value.encode()


def _numbers(form: str) -> tuple[Convert, Convert]:
    layout = struct.Struct(form)

    def decode(data: bytes) -> Any:
        if len(data) != layout.size:
            raise ValueError(f"{len(data)} bytes, expected {layout.size}")
        return layout.unpack(data)[0]

    return layout.pack, decode


PLAIN: Final[Mapping[str, tuple[Convert, Convert]]] = {
    "text": (_as_text, bytes.decode),
    "json": (msgspec.json.Encoder().encode, msgspec.json.Decoder().decode),
    "int32": _numbers(">i"),
    "int64": _numbers(">q"),
    "float64": _numbers(">d"),
}
"""Encoder and decoder by name. Numbers are big-endian, as in Kafka's serializers."""
REGISTERED: Final = ("avro", "json-schema")
"""Names of serializers with the registry of ``schema.registry.url``."""
NAMES: Final = (*PLAIN, *REGISTERED)

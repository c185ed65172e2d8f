"""Change events in Avro: reads values without Avro's logical types, and finds Connect's types in the Avro schema.

Kafka Connect's AvroConverter writes the type of a value as ``connect.name`` and ``connect.parameters``. The logical
types ``decimal``, ``date`` and ``timestamp-millis`` stand for Connect's own types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from kohort.spark.values.avro import AvroError, compile_schema
from kohort.spark.values.connect_schema import DECIMAL, Node

_FRAME: Final = 5
_TYPES: Final = {"int": "int32", "long": "int64", "float": "float", "double": "double", "enum": "string"}
_LOGICAL: Final = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "decimal": DECIMAL,
}

ReadAvro = Callable[[bytes], tuple[Any, Node]]


@lru_cache(maxsize=64)
def avro_reader(text: str, *, framed: bool) -> ReadAvro:
    """Return a function that reads a value and the Connect schema of its type.

    ``framed``: True if a zero byte and a schema id precede each value. Raises ConfigError for an invalid schema.
    """
    read, node = compile_schema(_without_logical_types(text)), _Nodes().node(json.loads(text), "")

    def read_value(value: bytes) -> tuple[Any, Node]:
        if framed:
            if len(value) < _FRAME or value[0]:
                raise AvroError("the Avro value has no schema id: expected a zero byte and a schema id at its start")
            value = value[_FRAME:]
        found, end = read(value)
        if end != len(value):
            raise AvroError(f"{len(value) - end} bytes follow the Avro value")
        return found, node

    return read_value


def _without_logical_types(text: str) -> str:
    compile_schema(text)  # check the schema first, so that an error quotes it unchanged

    def strip(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: strip(value) for key, value in schema.items() if key not in ("logicalType", "default")}
        return [strip(item) for item in schema] if isinstance(schema, list) else schema

    return json.dumps(strip(json.loads(text)))


class _Nodes:
    """Converter of one Avro schema, with the named types that it has seen."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}

    def node(self, schema: Any, space: str) -> dict[str, Any]:
        """Return the Connect schema of an Avro schema. A union of NULL and one type is that type."""
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            return self.node(branches[0], space) if len(branches) == 1 else {"type": "union"}
        if isinstance(schema, str):
            return self._named.get(schema) or self._named.get(f"{space}.{schema}") or {"type": _connect_type(schema)}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.node(kind, space)
        found: dict[str, Any] = {"type": _connect_type(kind), **_semantics(schema)}
        if "name" in schema:
            space = schema["name"].rpartition(".")[0] or schema.get("namespace", space)
            name = schema["name"].rpartition(".")[2]
            self._named[f"{space}.{name}" if space else name] = found
        if kind == "record":
            fields = ({**self.node(field["type"], space), "field": field["name"]} for field in schema["fields"])
            found |= {"type": "struct", "fields": list(fields)}
        elif kind == "array":
            found["items"] = self.node(schema["items"], space)
        elif kind == "map":
            found["values"] = self.node(schema["values"], space)
        return found


def _connect_type(kind: str) -> str:
    return "bytes" if kind == "fixed" else _TYPES.get(kind, kind)


def _semantics(schema: Mapping[str, Any]) -> dict[str, Any]:
    name = schema.get("connect.name") or _LOGICAL.get(str(schema.get("logicalType")))
    if name is None:
        return {}
    parameters = schema.get("connect.parameters") or {}
    if name == DECIMAL:
        parameters = {"scale": schema.get("scale", 0), **parameters}
    return {"name": name, "parameters": parameters}

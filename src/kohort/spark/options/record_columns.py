"""Columns of ``format("kohort")`` and their types in Spark: those of the Kafka connector, and ``redelivered``."""

from __future__ import annotations

from typing import Final

TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "redelivered": "boolean",
}
REDELIVERED: Final = "redelivered"
"""Whether the row may have been delivered before; made here, not the record's, and only for a schema that names it."""

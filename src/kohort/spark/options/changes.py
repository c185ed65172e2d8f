"""Options of change events: the columns that ``value.format=debezium`` adds, and encodings of values without a schema.

This module needs neither Spark nor pyarrow, so that pipeline files can be checked without both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.errors import ConfigError

DECIMALS: Final = ("precise", "string", "double")
TIMES: Final = ("milliseconds", "microseconds", "nanoseconds", "isostring")
KEY_TYPES: Final = {"text": "string", "int": "int", "long": "bigint", "json": "", "avro": "", "debezium": ""}
"""Formats of keys with the type of the decoded column; "" for a struct."""
_SOURCE: Final = (
    "struct<connector:string,name:string,db:string,schema:string,table:string,snapshot:string,ts:timestamp,"
    "txId:string,lsn:bigint,gtid:string,file:string,pos:bigint,row:int>"
)
META_TYPES: Final = {
    "__op": "string",
    "__before": "struct<{}>",
    "__unchanged": "array<string>",
    "__ts": "timestamp",
    "__position": "string",
    "__source": _SOURCE,
}
"""Metadata columns of change events with their Spark types. ``{}`` stands for the columns of the table."""


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Settings of change events.

    ``envelope``: False for rows that ExtractNewRecordState unwrapped. ``decimals``: decimal.handling.mode of the
    connector. ``times``: units of integer times, by column; "" for all other columns. Decimals and times concern only
    values without a schema. ``avro``, ``avro_key``: writer's schemas of value and key; "" for JSON. ``framed``: True if
    a zero byte and a schema id precede the Avro data.
    """

    envelope: bool = True
    decimals: str = ""
    times: Mapping[str, str] = field(default_factory=dict)
    avro: str = ""
    avro_key: str = ""
    framed: bool = False

    def unit_of(self, column: str) -> str:
        return self.times.get(column, self.times.get("", ""))


def parse_times(name: str, given: str) -> dict[str, str]:
    """Parse units of times: one for all columns, or JSON with one for each column. Raises ConfigError."""
    expected = f"expected {', '.join(TIMES)}, or JSON with one of them for each column"
    try:
        found: Any = json.loads(given) if given.lstrip().startswith("{") else {"": given.strip()}
    except ValueError:
        raise ConfigError(f"{name}={given!r}: {expected}") from None
    if not found or any(unit not in TIMES for unit in found.values()):
        raise ConfigError(f"{name}={given!r}: {expected}")
    return {str(column): str(unit) for column, unit in found.items()}


def with_metadata(columns: str) -> str:
    """Return the Spark schema of change events of a table with these columns."""
    meta = (f"{name} {kind.replace('{}', columns)}" for name, kind in META_TYPES.items())
    return ", ".join((columns, *meta))

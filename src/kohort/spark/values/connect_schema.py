"""Schemas of Kafka Connect, as change events carry them, and the errors for values that do not fit a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kohort.columns.conversions.scalars import shown

Convert = Callable[[Any], Any]
Node = Mapping[str, Any]
"""Connect schema of a value: ``type``, and optionally ``name``, ``parameters``, ``fields``, ``items``, ``values``."""
CONNECT: Final = "org.apache.kafka.connect.data."
DECIMAL: Final = f"{CONNECT}Decimal"
VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"


@dataclass(frozen=True, slots=True)
class Encodings:
    """Encodings of values in records without a schema: Debezium's ``decimal.handling.mode`` and units of times."""

    decimals: str = ""
    times: str = ""


def refused(node: Node, kind: pa.DataType, instead: str = "") -> ValueError:
    hint = f": declare the column as {instead}" if instead else ""
    return ValueError(f"{node.get('name') or node.get('type')} does not fit a column of {kind}{hint}")


def wrong(expected: str, value: Any) -> ValueError:
    return ValueError(f"expected {expected}, found {shown(str(value))}")


def name_of(node: Node | None) -> str:
    return str(node.get("name") or "") if node else ""


def child_of(node: Node | None, key: str) -> Node | None:
    """Return the schema of a list's items or a map's values; None without a schema."""
    found = node.get(key) if node else None
    return found if isinstance(found, Mapping) else None


def fields_of(node: Node | None) -> dict[str, Node]:
    """Return the schema of each field of a struct; {} without a schema."""
    fields = node.get("fields") if node else None
    if not isinstance(fields, list):
        return {}
    return {str(field.get("field")): field for field in fields if isinstance(field, Mapping)}

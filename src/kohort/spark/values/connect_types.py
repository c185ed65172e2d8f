"""Converts values of Kafka Connect's types, with the semantic types of Debezium, to column types.

A record that carries its schema (``schemas.enable=true``) names the type of each field, such as
``io.debezium.time.MicroTimestamp``. Without a schema, the type of the column decides. Two kinds of values then need a
setting: a decimal as text, and a time as an integer. Without the setting they are errors, since a guess can be wrong.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from datetime import UTC
from decimal import Context, Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions.scalars import checked_text, is_binary, is_text, json_float, scalar_of, shown
from kohort.spark.values.connect_schema import (
    DECIMAL,
    VARIABLE,
    Convert,
    Encodings,
    Node,
    child_of,
    fields_of,
    name_of,
    refused,
    wrong,
)
from kohort.spark.values.connect_times import INTEGER_TIMES, clock_of, date_of, instant_of, local_of

_DECIMAL_BYTES_MOST: Final = 64
_EXACT: Final = Context(prec=160)
_EXPONENT_MOST: Final = 1000
_LONG_DIGITS: Final = 20
_JSON: Final = msgspec.json.Encoder(decimal_format="number")
"""JSON encoder that keeps all digits of numbers; bytes become base64, as in JsonConverter."""


def converter(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    """Return the function that converts a value to the type ``kind``; it raises ValueError.

    ``node``: schema of the value; None without a schema. Raises ValueError if the column cannot hold the schema's type.
    """
    make = _maker(kind)
    convert = make(kind, node, given)
    return lambda value: None if value is None else convert(value)


def check_column(kind: pa.DataType) -> None:
    """Raise TypeError if no change event can fill a column of this type."""
    _maker(kind)
    for i in range(kind.num_fields):
        check_column(kind.field(i).type)


def _maker(kind: pa.DataType) -> Callable[[pa.DataType, Node | None, Encodings], Convert]:
    makers = (
        (is_text(kind), _text),
        (is_binary(kind), _binary),
        (is_type.is_boolean(kind), _boolean),
        (is_type.is_integer(kind), _integer),
        (is_type.is_floating(kind), _floating),
        (is_type.is_decimal(kind), _decimal),
        (is_type.is_date32(kind), date_of),
        (is_type.is_time(kind), clock_of),
        (is_type.is_timestamp(kind) and kind.tz is not None, instant_of),
        (is_type.is_timestamp(kind), local_of),
        (is_type.is_list(kind), _list),
        (is_type.is_map(kind) and is_text(getattr(kind, "key_type", kind)), _map),
        (is_type.is_struct(kind), _struct),
    )
    found = next((make for fits, make in makers if fits), None)
    if found is None:
        raise TypeError(str(kind))
    return found


def _text(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    name = name_of(node)
    if node and name in (DECIMAL, VARIABLE):
        read = _exact(node, "")
        return lambda value: format(read(value), "f")
    if node and (name in INTEGER_TIMES or node.get("type") == "bytes"):
        raise refused(node, kind, "bigint" if name in INTEGER_TIMES else "binary")
    return lambda value: checked_text(value if isinstance(value, str) else _as_json(value))


def _as_json(value: Any) -> str:
    return (
        str(value)
        if isinstance(value, int | Decimal) and not isinstance(value, bool)
        else msgspec.json.format(_JSON.encode(value), indent=0).decode()
    )


def _binary(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    if node and node.get("type") != "bytes":
        raise refused(node, kind, "string")
    return _bytes


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return b64decode(value, validate=True)
    except (TypeError, Base64Error, ValueError):
        raise wrong("base64", value) from None


def _boolean(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    if node and node.get("type") != "boolean":
        raise refused(node, kind)

    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise wrong("true or false", value)
        return value

    return convert


def _integer(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    low, high = -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
    read = _exact(node, "") if node and name_of(node) in (DECIMAL, VARIABLE) else None

    def convert(value: Any) -> int:
        number = read(value) if read else value
        if isinstance(number, Decimal) and number.adjusted() < _LONG_DIGITS and number == int(number):
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise wrong(f"an integer from {low} to {high}", number)
        return number

    return convert


def _floating(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    if node and name_of(node) in (DECIMAL, VARIABLE):
        raise refused(node, kind, "decimal")
    fit = _of_text(kind)

    def convert(value: Any) -> float:
        if isinstance(value, str):
            return json_float(value)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise wrong("a number", value)
        return float(fit(str(value)))

    return convert


def _of_text(kind: pa.DataType) -> Callable[[str], Any]:
    """Return the reader of a number's text, which checks the range of the type."""
    scalar = scalar_of(kind, UTC)
    if scalar is None or scalar.text is None:
        raise TypeError(str(kind))
    return scalar.text


def _decimal(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    read = _exact(node, given.decimals, kind.scale)
    fit = _of_text(kind)
    return lambda value: fit(str(read(value)))


def _exact(node: Node | None, mode: str, scale: int = 0) -> Callable[[Any], Decimal]:
    """Return the reader of decimals in each of Debezium's forms. ``mode``, ``scale``: of values without a schema."""
    if node and name_of(node) == DECIMAL:
        mode = "precise"
        try:
            scale = int((node.get("parameters") or {})["scale"])
        except (LookupError, TypeError, ValueError, OverflowError):
            raise ValueError(f"{DECIMAL} has no scale in its parameters") from None
    elif node and node.get("type") == "string":
        mode = "string"

    def read(value: Any) -> Decimal:
        if isinstance(value, Decimal):
            return _bounded(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Decimal(str(value))
        if isinstance(value, Mapping) and set(value) == {"scale", "value"} and isinstance(value["scale"], int):
            return _unscaled(_bytes(value["value"]), value["scale"])
        if isinstance(value, bytes) or (isinstance(value, str) and mode == "precise"):
            return _unscaled(_bytes(value), scale)
        if isinstance(value, str) and mode == "string":
            try:
                return Decimal(value)
            except ArithmeticError:
                raise wrong("a number", value) from None
        if isinstance(value, str) and not mode:
            raise ValueError(
                f"the record has no schema, so the decimal {shown(value)!r} has two meanings: set decimals to "
                "precise or string, the connector's decimal.handling.mode"
            )
        raise wrong("a decimal", value)

    return read


def _bounded(value: Decimal) -> Decimal:
    if abs(value.adjusted()) > _EXPONENT_MOST:
        raise wrong(f"a smaller exponent than {_EXPONENT_MOST}", value)
    return value


def _unscaled(raw: bytes, scale: int) -> Decimal:
    if len(raw) > _DECIMAL_BYTES_MOST or abs(scale) > _EXPONENT_MOST:
        raise ValueError(f"a decimal of {len(raw)} bytes with scale {scale}, expected at most {_DECIMAL_BYTES_MOST}")
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _EXACT)


def _list(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    if node and node.get("type") != "array":
        raise refused(node, kind)
    item = converter(kind.value_type, child_of(node, "items"), given)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise wrong("an array", value)
        return [item(one) for one in value]

    return convert


def _map(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    if node and node.get("type") != "map":
        raise refused(node, kind, "string")
    item = converter(kind.item_type, child_of(node, "values"), given)

    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, Mapping):
            raise wrong("an object", value)
        return [(checked_text(key), item(one)) for key, one in value.items()]

    return convert


def _struct(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    if node and node.get("type") != "struct":
        raise refused(node, kind)
    nodes = fields_of(node)
    fields = {
        kind.field(i).name: converter(kind.field(i).type, nodes.get(kind.field(i).name), given)
        for i in range(kind.num_fields)
    }

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise wrong("an object", value)
        return {name: read(value.get(name)) for name, read in fields.items()}

    return convert

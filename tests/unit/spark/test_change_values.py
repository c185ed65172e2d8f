"""Values of change events in columns: the types of Kafka Connect and Debezium, with and without a schema."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.spark.values.connect_types import Encodings, converter  # noqa: E402 - behind importorskip
from support.values.change_values import CHANGE_VALUES, ChangeValue, precise  # noqa: E402 - behind importorskip
from support.values.plain import ARROW_TYPES, plain  # noqa: E402 - behind importorskip
from support.values.value import BAD  # noqa: E402 - behind importorskip

DEBEZIUM, CONNECT = "io.debezium.", "org.apache.kafka.connect.data."
LOCAL, INSTANT, MONEY = ARROW_TYPES["timestamp_ntz"], ARROW_TYPES["timestamp"], ARROW_TYPES["decimal(10,2)"]
DECIMAL = {"type": "bytes", "name": f"{CONNECT}Decimal"}
VARIABLE = {"type": "struct", "name": f"{DEBEZIUM}data.VariableScaleDecimal"}
MICRO = {"type": "int64", "name": f"{DEBEZIUM}time.MicroTimestamp"}


def read(kind: Any, schema: dict[str, Any] | None, value: Any, **encodings: str) -> Any:
    found = converter(kind, schema, Encodings(**encodings))(value)
    return plain(pa.array([found], kind))[0]


@pytest.mark.parametrize("entry", CHANGE_VALUES, ids=lambda e: f"{e.type} {e.schema} {e.value}"[:60])
def test_values_of_change_events_become_the_results_of_the_value_table(entry: ChangeValue) -> None:
    kind = ARROW_TYPES[entry.type]
    if entry.kohort is BAD:
        with pytest.raises(
            ValueError,
            match=r"expected|declare|outside|too large|more than|unknown|two meanings|no zone|"
            "not a time of day|does not fit|without a zone",
        ):
            read(kind, entry.node, entry.value, **entry.settings)
        return
    assert read(kind, entry.node, entry.value, **entry.settings) == entry.kohort
    assert read(kind, entry.node, None, **entry.settings) is None


def test_numbers_and_bytes_within_a_text_column_keep_their_json_form() -> None:
    value = {"x": Decimal("1.10"), "y": [1.5, 2], "wkb": b"\x01", "text": "é"}

    assert read(pa.string(), None, value) == '{"x": 1.10, "y": [1.5, 2], "wkb": "AQ==", "text": "é"}'
    assert [read(pa.string(), None, one) for one in (True, 7, Decimal("1.10"), 1 << 70)] == [
        "true", "7", "1.10", str(1 << 70),
    ]  # fmt: skip


def test_struct_is_read_field_by_field_with_the_types_of_its_schema() -> None:
    fields = [{"type": "bytes", "field": "wkb"}, {**DECIMAL, **precise(1), "field": "size"}]
    kind = pa.struct([("wkb", pa.binary()), ("size", MONEY), ("srid", pa.int32())])

    found = read(kind, {"type": "struct", "fields": fields}, {"wkb": "AQ==", "size": "Dw==", "more": 1})

    assert found == {"wkb": b"\x01", "size": Decimal("1.50"), "srid": None}


@pytest.mark.parametrize(
    ("kind", "schema", "value", "problem"),
    [
        (INSTANT, MICRO, 1, "io.debezium.time.MicroTimestamp does not fit a column of timestamp[us, tz=UTC]: "
         "declare the column as timestamp_ntz"),
        (LOCAL, {"type": "string", "name": f"{DEBEZIUM}time.ZonedTimestamp"}, "", "declare the column as timestamp"),
        (LOCAL, {"type": "int64"}, 1, "int64 does not fit"),
        (LOCAL, {"type": "int32", "name": f"{DEBEZIUM}time.Date"}, 1, "declare the column as date"),
        (pa.string(), {"type": "bytes"}, "AQ==", "declare the column as binary"),
        (pa.float64(), {**DECIMAL, **precise(2)}, "AQ==", "declare the column as decimal"),
        (pa.binary(), {"type": "string"}, "a", "declare the column as string"),
        (MONEY, DECIMAL, "AQ==", "has no scale"),
        (MONEY, {**DECIMAL, **precise(3)}, "MDk=", "more than the 2 decimal places"),
        (MONEY, {**DECIMAL, **precise(2)}, b64encode(b"\x7f" * 65).decode(), "a decimal of 65 bytes"),
        (MONEY, VARIABLE, {"scale": -(1 << 31), "value": "AQ=="}, "scale -2147483648"),
        (MONEY, {**DECIMAL, **precise(2)}, "a", "expected base64"),
        (LOCAL, MICRO, "x", "expected a timestamp"),
        (pa.int64(), {"type": "boolean"}, True, "expected an integer"),
        (pa.int64(), {"type": "double"}, Decimal("1.5"), "expected an integer"),
        (pa.int64(), {"type": "double"}, Decimal("1e999999"), "expected an integer"),
        (pa.int64(), {"type": "double"}, Decimal("1e10000000"), "expected an integer"),
        (pa.string(), {**DECIMAL, **precise(2)}, Decimal("1e999999999"), "expected a smaller exponent than 1000"),
        (pa.float32(), {"type": "double"}, Decimal("1e39"), "too large"),
        (pa.float64(), {"type": "double"}, Decimal("1e999999"), "too large"),
        (pa.list_(pa.int32()), {"type": "array", "items": {"type": "int32"}}, 5, "expected an array"),
        (pa.string(), {"type": "string"}, "\ud800", "lone surrogate"),
        (MONEY, None, "1234", "the decimal '1234' has two meanings: set decimals to precise or string"),
        (LOCAL, None, 1000, "unit of the time 1000 is unknown: set times to milliseconds, microseconds, nanoseconds"),
        (INSTANT, None, "2023-11-14T22:13:20", "has no zone: declare the column as timestamp_ntz"),
    ],
)  # fmt: skip
def test_error_of_a_value_names_what_was_expected(kind: Any, schema: Any, value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("[", r"\[")):
        read(kind, schema, value)

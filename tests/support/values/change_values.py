"""Values of change events: the type in the event's schema, the column, the value in JSON, and the result."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from support.values.value import BAD

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
MICROS: Final = 1_700_000_000_123_456
AT, SHORT_AT = "2023-11-14 22:13:20.123456", "2023-11-14 22:13:20.123000"
AMOUNT: Final = b64encode((12345).to_bytes(2, "big")).decode()
LARGE: Final = b64encode(b"\x7f" * 8).decode()


@dataclass(frozen=True)
class ChangeValue:
    """A field of a change event. Without ``schema`` the record has no schema; then ``settings`` of decode count.

    ``schema``: the Connect type, or the semantic type. ``more``: further keys of the schema.
    """

    type: str
    schema: str
    value: Any
    kohort: Any
    more: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def node(self) -> dict[str, Any] | None:
        """Schema of the field in the record; None without a schema."""
        if not self.schema:
            return None
        if "." not in self.schema:
            return {"type": self.schema, **self.more}
        return {"type": _TYPES.get(self.schema, "string"), "name": self.schema, **self.more}


_INT32 = (f"{TIME}Date", f"{TIME}Time", f"{TIME}Year", f"{CONNECT}Date", f"{CONNECT}Time")
_INT64 = ("MicroTime", "NanoTime", "Timestamp", "MicroTimestamp", "NanoTimestamp", "MicroDuration")
_TYPES: Final = {
    **dict.fromkeys(_INT32, "int32"),
    **{f"{TIME}{name}": "int64" for name in _INT64},
    f"{CONNECT}Timestamp": "int64",
    f"{CONNECT}Decimal": "bytes",
    f"{DATA}Bits": "bytes",
    f"{DATA}VariableScaleDecimal": "struct",
    f"{DATA}geometry.Point": "struct",
}


def precise(scale: int) -> dict[str, Any]:
    return {"parameters": {"scale": str(scale)}}


CHANGE_VALUES: Final = (
    ChangeValue("timestamp_ntz", f"{TIME}Timestamp", MICROS // 1000, SHORT_AT),
    ChangeValue("timestamp_ntz", f"{TIME}MicroTimestamp", MICROS, AT),
    ChangeValue("timestamp_ntz", f"{TIME}NanoTimestamp", MICROS * 1000 + 789, AT),
    ChangeValue("timestamp_ntz", f"{CONNECT}Timestamp", MICROS // 1000, SHORT_AT),
    ChangeValue("timestamp_ntz", f"{TIME}IsoTimestamp", "2023-11-14T22:13:20.123456Z", AT),
    ChangeValue("timestamp_ntz", f"{TIME}ZonedTimestamp", "2023-11-14T22:13:20Z", BAD),
    ChangeValue("timestamp_ntz", f"{TIME}MicroTimestamp", 1 << 62, BAD),
    ChangeValue("timestamp", f"{TIME}ZonedTimestamp", "2023-11-14T23:13:20.123456+01:00", f"{AT}Z"),
    ChangeValue("timestamp", f"{TIME}MicroTimestamp", MICROS, BAD),
    ChangeValue("bigint", f"{TIME}MicroTimestamp", MICROS, MICROS),
    ChangeValue("string", f"{TIME}MicroTimestamp", MICROS, BAD),
    ChangeValue("date", f"{TIME}Date", 19675, "2023-11-14"),
    ChangeValue("date", f"{CONNECT}Date", -1, "1969-12-31"),
    ChangeValue("date", f"{TIME}IsoDate", "2023-11-14Z", "2023-11-14"),
    ChangeValue("date", f"{TIME}Timestamp", MICROS // 1000, BAD),
    ChangeValue("time", f"{TIME}Time", 1001, "00:00:01.001000"),
    ChangeValue("time", f"{TIME}MicroTime", 1_000_001, "00:00:01.000001"),
    ChangeValue("time", f"{TIME}NanoTime", 1_000_001_000, "00:00:01.000001"),
    ChangeValue("time", f"{CONNECT}Time", 1001, "00:00:01.001000"),
    ChangeValue("time", f"{TIME}IsoTime", "00:00:01Z", "00:00:01"),
    ChangeValue("time", f"{TIME}Time", 86_400_000, BAD),
    ChangeValue("string", f"{TIME}ZonedTime", "10:15:30Z", "10:15:30Z"),
    ChangeValue("bigint", f"{TIME}MicroDuration", 5, 5),
    ChangeValue("string", f"{TIME}Interval", "P1Y2M", "P1Y2M"),
    ChangeValue("int", f"{TIME}Year", 2024, 2024),
    ChangeValue("decimal(10,2)", f"{CONNECT}Decimal", AMOUNT, "123.45", precise(2)),
    ChangeValue("decimal(10,2)", f"{CONNECT}Decimal", "/w==", "-0.10", precise(1)),
    ChangeValue("decimal(10,2)", f"{CONNECT}Decimal", "AQ==", "100.00", precise(-2)),
    ChangeValue("decimal(10,2)", f"{CONNECT}Decimal", AMOUNT, BAD, precise(3)),
    ChangeValue("decimal(10,2)", f"{CONNECT}Decimal", LARGE, BAD, precise(2)),
    ChangeValue("string", f"{CONNECT}Decimal", AMOUNT, "123.45", precise(2)),
    ChangeValue("bigint", f"{CONNECT}Decimal", AMOUNT, 12345, precise(0)),
    ChangeValue("double", f"{CONNECT}Decimal", AMOUNT, BAD, precise(2)),
    ChangeValue("decimal(10,2)", f"{DATA}VariableScaleDecimal", {"scale": 1, "value": "Dw=="}, "1.50"),
    ChangeValue("decimal(10,2)", "string", "123.45", "123.45"),
    ChangeValue("decimal(10,2)", "double", Decimal("0.1"), "0.10"),
    ChangeValue("double", "double", Decimal("0.1"), 0.1),
    ChangeValue("double", "double", "-Infinity", "-inf"),
    ChangeValue("float", "float", Decimal("0.5"), 0.5),
    ChangeValue("bigint", "int64", 5, 5),
    ChangeValue("int", "int64", 1 << 31, BAD),
    ChangeValue("string", "int64", 5, "5"),
    ChangeValue("boolean", "boolean", True, True),
    ChangeValue("boolean", "int16", 1, BAD),
    ChangeValue("binary", "bytes", "/wA=", b"\xff\x00"),
    ChangeValue("string", "bytes", "/wA=", BAD),
    ChangeValue("binary", f"{DATA}Bits", "BQ==", b"\x05"),
    ChangeValue(
        "string", f"{DATA}Uuid", "3f0c6e9a-0b6e-4d2c-9e0f-1a2b3c4d5e6f", "3f0c6e9a-0b6e-4d2c-9e0f-1a2b3c4d5e6f"
    ),
    ChangeValue("string", f"{DATA}Json", '{"a": 1}', '{"a": 1}'),
    ChangeValue("string", f"{DATA}Enum", "b", "b"),
    ChangeValue("string", f"{DATA}EnumSet", "a,b", "a,b"),
    ChangeValue("string", f"{DATA}geometry.Point", {"x": 1, "srid": None}, '{"x": 1, "srid": null}'),
    ChangeValue("array<int>", "array", [1, None], [1, None], {"items": {"type": "int32"}}),
    ChangeValue("map<string,int>", "map", {"a": 1}, [("a", 1)], {"values": {"type": "int32"}}),
    ChangeValue("decimal(10,2)", "", AMOUNT, "123.45", settings={"decimals": "precise"}),
    ChangeValue("decimal(10,2)", "", "123.45", "123.45", settings={"decimals": "string"}),
    ChangeValue("decimal(10,2)", "", "1234", BAD),
    ChangeValue("decimal(10,2)", "", Decimal("123.45"), "123.45"),
    ChangeValue("decimal(10,2)", "", {"scale": 0, "value": "AQ=="}, "1.00"),
    ChangeValue("timestamp_ntz", "", MICROS // 1000, SHORT_AT, settings={"times": "milliseconds"}),
    ChangeValue("timestamp_ntz", "", MICROS, AT, settings={"times": "microseconds"}),
    ChangeValue("timestamp_ntz", "", MICROS * 1000, AT, settings={"times": "nanoseconds"}),
    ChangeValue("timestamp_ntz", "", "2023-11-14T22:13:20.123456Z", AT, settings={"times": "isostring"}),
    ChangeValue("timestamp_ntz", "", MICROS, BAD),
    ChangeValue("timestamp_ntz", "", "2023-11-14T22:13:20Z", BAD),
    ChangeValue("timestamp", "", "2023-11-14T22:13:20.123456Z", f"{AT}Z"),
    ChangeValue("timestamp", "", MICROS, BAD, settings={"times": "microseconds"}),
    ChangeValue("timestamp", "", "2023-11-14T22:13:20", BAD),
    ChangeValue("time", "", 1000, "00:00:01", settings={"times": "milliseconds"}),
    ChangeValue("time", "", 1000, BAD),
    ChangeValue("date", "", 19675, "2023-11-14"),
    ChangeValue("date", "", MICROS, BAD),
    ChangeValue("binary", "", "/wA=", b"\xff\x00"),
)

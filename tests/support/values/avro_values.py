"""Avro values: the type in the writer's schema, the bytes, the type of the column, the results and the differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.values.value import BAD, SAME


@dataclass(frozen=True)
class AvroValue:
    """A field v of a record. ``written``: its type in the writer's schema, a name or JSON. ``spark``: the result of
    Spark's own reader with the column's type, where that differs, and ``why``."""

    written: str
    value: bytes
    type: str
    kohort: Any
    spark: Any = SAME
    why: str = ""

    @property
    def schema(self) -> str:
        """The writer's schema, as JSON."""
        kind = self.written if self.written[:1] in "{[" else f'"{self.written}"'
        return f'{{"type": "record", "name": "R", "fields": [{{"name": "v", "type": {kind}}}]}}'

    @property
    def of_spark(self) -> Any:
        return self.kohort if self.spark is SAME else self.spark


AVRO_VALUES = (
    AvroValue("null", b"", "string", None, BAD, "Spark has no conversion of null to string"),
    AvroValue("boolean", b"\x01", "boolean", True),
    AvroValue("int", b"\x01", "int", -1),
    AvroValue("int", b"\x90\x03", "tinyint", BAD),
    AvroValue("int", b"\xc8\x01", "tinyint", 100, BAD, "Spark has no conversion of int to tinyint"),
    AvroValue("long", b"\x80\x80\x80\x80\x80@", "bigint", 1099511627776),
    AvroValue("long", b"\x80\x80\x80\x80\x80@", "int", BAD),
    AvroValue("float", b"\xcd\xcc\xcc=", "float", 0.10000000149011612),
    AvroValue("float", b"\xcd\xcc\xcc=", "double", 0.10000000149011612),
    AvroValue("double", b"\x9a\x99\x99\x99\x99\x99\xb9?", "double", 0.1),
    AvroValue("double", b"\x00\x00\x00\x00\x00\x00\xf8\x7f", "double", "nan"),
    AvroValue("bytes", b"\x02\xff", "binary", b"\xff"),
    AvroValue("bytes", b"\x04hi", "string", "hi", BAD, "Spark has no conversion of bytes to string"),
    AvroValue("string", b"\x04\xc3\xa9", "string", "é"),
    AvroValue("string", b"\x021", "int", BAD),
    AvroValue("int", b"\x02", "string", BAD),
    AvroValue("int", b"\x02", "double", 1.0),
    AvroValue("long", b"\x02", "boolean", BAD),
    AvroValue('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', b"\x02", "string", "B"),
    AvroValue('{"type": "fixed", "name": "F", "size": 2}', b"ab", "binary", b"ab"),
    AvroValue('{"type": "array", "items": "int"}', b"\x04\x02\x04\x00", "array<int>", [1, 2]),
    AvroValue('{"type": "map", "values": "int"}', b"\x02\x02a\x02\x00", "map<string,int>", [("a", 1)]),
    AvroValue('["null", "string"]', b"\x00", "string", None),
    AvroValue('["null", "string"]', b"\x02\x02a", "string", "a"),
    AvroValue(
        '{"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}',
        b"\x02\x02a",
        "struct<x:int,y:string>",
        {"x": 1, "y": "a"},
    ),
    AvroValue('{"type": "int", "logicalType": "date"}', b"\xb2\xb4\x02", "date", "2024-01-15"),
    AvroValue(
        '{"type": "long", "logicalType": "timestamp-millis"}',
        b"\xd6\xc8\x98\xca\xa1c",
        "timestamp",
        "2024-01-15 10:20:30.123000Z",
    ),
    AvroValue(
        '{"type": "long", "logicalType": "timestamp-micros"}',
        b"\x80\xe7\xf7\xcf\xab\xbe\x87\x06",
        "timestamp",
        "2024-01-15 10:20:30.123456Z",
    ),
    AvroValue(
        '{"type": "long", "logicalType": "local-timestamp-micros"}',
        b"\x80\xe7\xf7\xcf\xab\xbe\x87\x06",
        "timestamp_ntz",
        "2024-01-15 10:20:30.123456",
    ),
    AvroValue(
        '{"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}',
        b"\x04\x00\x96",
        "decimal(10,2)",
        "1.50",
    ),
    AvroValue(
        '{"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3}',
        b"\x04\x03\xed",
        "decimal(10,2)",
        BAD,
        "1.01",
        "Spark rounds; a result is exact",
    ),
    AvroValue(
        '{"type": "string", "logicalType": "uuid"}',
        b"Hd5b1c1a0-0000-4000-8000-000000000001",
        "string",
        "d5b1c1a0-0000-4000-8000-000000000001",
    ),
    AvroValue("long", b"\xe0\xc6\x98\xca\xa1c", "timestamp", "2024-01-15 10:20:30Z"),
    AvroValue("bytes", b"\x02\xff", "string", BAD),
)

"""Avro values to columns: Arrow types, schema resolution, references to schemas, malformed values and schemas."""

from __future__ import annotations

import io
import json
import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")
fastavro = pytest.importorskip("fastavro")

import kohort  # noqa: E402 - behind importorskip
from kohort import AvroFormat, UndecodableValue, UsageError  # noqa: E402 - behind importorskip
from kohort.columns.avro_values.decoder import decoder_of  # noqa: E402 - behind importorskip
from kohort.columns.avro_values.schema import parse_schema  # noqa: E402 - behind importorskip
from kohort.columns.layout import Layout  # noqa: E402 - behind importorskip
from kohort.schemas.framing import VALUE_HEADER, reference_bytes  # noqa: E402 - behind importorskip
from support.schema_registry import fake_registry  # noqa: E402 - behind importorskip

HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
"""The highest long."""


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def finished(avro: AvroFormat, values: list[bytes | None], headers: list[Any] | None = None, **options: Any) -> Any:
    """Decode the values of a batch that begins at offset 100."""
    layout = Layout(columns=["offset"], avro=avro, **options)
    columns = {"offset": pa.array(range(100, 100 + len(values)), pa.int64()), "value": pa.array(values, pa.binary())}
    if headers is not None:
        columns["headers"] = pa.array(headers, layout.decoded.field("headers").type)
    batch = layout.finish(pa.RecordBatch.from_pydict(columns), "orders", 3)
    batch.validate(full=True)
    return batch.drop_columns(["offset"])


def read(values: list[bytes | None], writer: Any, reader: Any = None) -> list[dict[str, Any]]:
    avro = AvroFormat(json.dumps(reader or writer), registry={7: json.dumps(writer)})
    found = finished(avro, [None if value is None else framed(7, value) for value in values])
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def reason(values: list[bytes], writer: Any, reader: Any = None) -> str:
    with pytest.raises(UndecodableValue) as error:
        read(values, writer, reader)
    return error.value.problem


def framed(schema_id: int, value: bytes) -> bytes:
    return reference_bytes(schema_id) + value


def one(kind: Any, value: Any) -> tuple[Any, Any]:
    """Return the Arrow type of a field, and its value."""
    raw = {k: v for k, v in kind.items() if k != "logicalType"} if isinstance(kind, dict) else kind
    data = encoded(record(field("f", raw)), {"f": value})
    found = finished(AvroFormat(json.dumps(record(field("f", kind))), framing="none"), [data])
    return found.schema.field("f").type, found.column("f")[0]


@pytest.mark.parametrize(
    ("kind", "value", "type_", "result"),
    [
        ("boolean", True, pa.bool_(), True),
        ("int", -(2**31), pa.int32(), -(2**31)),
        ("long", 2**63 - 1, pa.int64(), 2**63 - 1),
        ("float", 0.5, pa.float32(), 0.5),
        ("double", -0.1, pa.float64(), -0.1),
        ("bytes", b"\xff", pa.binary(), b"\xff"),
        ("string", "né", pa.string(), "né"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(2), b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", pa.dictionary(pa.int32(), pa.string()), "b"),
        ({"type": "int", "logicalType": "date"}, 19_000, pa.date32(), date(2022, 1, 8)),
        ({"type": "int", "logicalType": "time-millis"}, 1500, pa.time32("ms"), time(0, 0, 1, 500_000)),
        ({"type": "long", "logicalType": "time-micros"}, 1, pa.time64("us"), time(0, 0, 0, 1)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            1000,
            pa.timestamp("ms", "UTC"),
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            5,
            pa.timestamp("us"),
            datetime(1970, 1, 1, 0, 0, 0, 5),  # noqa: DTZ001 - no zone
        ),
        ({"type": "string", "logicalType": "uuid"}, "not checked", pa.string(), "not checked"),
        ({"type": "string", "logicalType": "unknown"}, "x", pa.string(), "x"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 80}, b"\1", pa.binary(), b"\1"),
        ({"type": "array", "items": "int"}, [1, 2], pa.list_(pa.field("item", pa.int32(), nullable=False)), [1, 2]),
        ("null", None, pa.null(), None),
        (["null"], None, pa.null(), None),
        (["int", "long"], 5, pa.int64(), 5),
        (["null", "float", "double"], None, pa.float64(), None),
    ],
)
def test_avro_type_becomes_arrow_type(kind, value, type_, result):
    assert (type_, result) == ((found := one(kind, value))[0], found[1].as_py())


def test_nanoseconds_maps_and_uuids_become_columns():
    nanos, value = one({"type": "long", "logicalType": "timestamp-nanos"}, 1)
    assert (nanos, value.value) == (pa.timestamp("ns", "UTC"), 1)
    map_type, pairs = one({"type": "map", "values": ["null", "int"]}, {"a": 1, "b": None})
    assert map_type == pa.map_(pa.string(), pa.int32())
    assert pairs.as_py() == [("a", 1), ("b", None)]
    number = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
    text, shown = one({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, number.bytes)
    assert (text, shown.as_py()) == (pa.string(), str(number))


@pytest.mark.parametrize("precision", [9, 38, 39, 76])
@pytest.mark.parametrize("size", [None, 33])
def test_decimals_are_exact_up_to_precision(precision, size):
    kind: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    if size:
        kind = {**kind, "type": "fixed", "size": size, "name": "D"}
    schema = record(field("d", kind))
    highest = 10**precision - 1

    def raw(number: int) -> bytes:
        data = number.to_bytes(size or (number.bit_length() + 8) // 8, "big", signed=True)
        return data if size else bytes([2 * len(data)]) + data

    numbers = [highest, -highest, 0, -1]
    assert read([raw(number) for number in numbers], schema) == [
        {"d": Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -2))} for number in numbers
    ]
    assert "precision" in reason([raw(highest + 1)], schema)
    assert "precision" in reason([raw(-highest - 1)], schema)


def test_wide_unions_become_structs_with_member_per_branch():
    schema = record(field("u", ["null", "int", "string", record(field("x", "long"), name="S")]))
    values = [{"u": 5}, {"u": None}, {"u": "a"}, {"u": {"x": 2}}]

    assert [row["u"] for row in read([encoded(schema, value) for value in values], schema)] == [
        {"member0": 5, "member1": None, "member2": None},
        None,
        {"member0": None, "member1": "a", "member2": None},
        {"member0": None, "member1": None, "member2": {"x": 2}},
    ]


def test_value_of_plain_type_becomes_column_value():
    assert read([encoded("string", "a"), None], "string") == [{"value": "a"}, {"value": None}]


def test_reader_fields_are_found_by_name_and_alias_and_others_get_defaults():
    writer = record(
        field("gone", {"type": "map", "values": ["null", "string"]}), field("old", "int"), field("b", "float")
    )
    reader = record(
        field("b", "double"),
        field("new", "long", aliases=["old"]),
        field("text", "string", default="né"),
        field("raw", "bytes", default="ÿ"),
        field("none", ["null", "int"], default=None),
        field("some", ["null", "int"], default=4),
        field("inner", record(field("x", "int"), field("y", "int", default=2), name="I"), default={"x": 1}),
    )
    value = encoded(writer, {"gone": {"k": "v", "n": None}, "old": 9, "b": 0.5})
    inner = {"x": 1, "y": 2}

    assert read([value], writer, reader) == [
        {"b": 0.5, "new": 9, "text": "né", "raw": b"\xff", "none": None, "some": 4, "inner": inner}
    ]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "result"),
    [
        ("timestamp-millis", "timestamp-micros", 7, 7000),
        ("timestamp-nanos", "timestamp-millis", -1, -1),
        ("local-timestamp-micros", "local-timestamp-nanos", 3, 3000),
        ("timestamp-millis", None, 7, 7),
        (None, "timestamp-millis", 7, 7),
    ],
)
def test_timestamps_are_converted_between_units(writer, reader, value, result):
    kinds = [{"type": "long", "logicalType": unit} if unit else "long" for unit in (writer, reader)]
    schemas = [record(field("at", kind)) for kind in kinds]
    avro = AvroFormat(json.dumps(schemas[1]), registry={1: json.dumps(schemas[0])})
    found = finished(avro, [framed(1, encoded(record(field("at", "long")), {"at": value}))])

    assert found.column("at").cast(pa.int64()).to_pylist() == [result]


def test_enum_symbols_are_mapped_and_unknown_ones_take_reader_default():
    writer = {"type": "enum", "name": "E", "symbols": ["a", "b", "c"]}
    reader = {"type": "enum", "name": "E", "symbols": ["c", "b"]}
    data = [encoded(writer, symbol) for symbol in "abc"]

    assert [row["value"] for row in read(data, writer, {**reader, "default": "b"})] == ["b", "b", "c"]
    assert read(data[1:], writer, reader) == [{"value": "b"}, {"value": "c"}]
    assert "neither the symbol nor a default" in reason(data, writer, reader)


def test_writer_union_fails_only_for_branch_that_reader_lacks():
    writer, reader = ["null", "int", {"type": "array", "items": "int"}], "long"

    assert read([encoded(writer, 5)], writer, reader) == [{"value": 5}]
    assert "the writer's union" in reason([encoded(writer, None)], writer, reader)
    assert "the writer's union" in reason([encoded(writer, [1])], writer, reader)


def test_reader_union_prefers_same_type_then_same_record_name():
    first, second = record(field("x", "int"), name="a.A"), record(field("x", "int"), name="a.B")

    assert read([encoded("int", 5)], "int", ["double", "long", "int"])[0]["value"] == {
        "member0": None,
        "member1": None,
        "member2": 5,
    }
    row = read([encoded(second, {"x": 1})], second, ["null", first, second])[0]
    assert row["value"] == {"member0": None, "member1": {"x": 1}}


def test_several_writers_schemas_in_one_batch_keep_order_of_rows():
    schemas = {
        1: record(field("a", "int")),
        2: record(field("b", "string"), field("a", "long")),
        40_000_000: record(field("a", "int"), field("c", ["null", "int"])),
    }
    values = [framed(1, b"\2"), framed(2, b"\2x\4"), None, framed(40_000_000, b"\6\0"), framed(1, b"\x08")]
    asked: list[int] = []

    def registry(schema_id: int) -> str:
        asked.append(schema_id)
        return json.dumps(schemas[schema_id])

    reader = record(field("a", "long"), field("b", "string", default="-"))
    avro = AvroFormat(json.dumps(reader), registry=registry)

    for _ in range(2):
        assert [tuple(row.values()) for row in finished(avro, values).to_pylist()] == [
            (1, "-"),
            (2, "x"),
            (None, None),
            (3, "-"),
            (4, "-"),
        ]
    assert sorted(asked) == [1, 2, 40_000_000]


def test_without_schema_the_newest_schema_of_first_batch_is_the_readers():
    schemas = {
        1: json.dumps(record(field("a", "int"))),
        2: json.dumps(record(field("a", "long"), field("b", "int", default=0))),
    }
    avro = AvroFormat(registry=schemas)
    layout = Layout(columns=["offset"], avro=avro, avro_errors=True)

    assert finished(avro, [None]).schema.names == []
    assert layout.schema.names == ["offset", "avro_error"]
    assert finished(avro, [framed(1, b"\2"), framed(2, b"\4\6")]).to_pylist() == [{"a": 1, "b": 0}, {"a": 2, "b": 3}]
    assert layout.schema.names == ["offset", "a", "b", "avro_error"]
    early = pa.RecordBatch.from_pydict({"offset": [1], "avro_error": ["bad"]})
    assert layout.table([early]).to_pylist() == [{"offset": 1, "a": None, "b": None, "avro_error": "bad"}]


def test_schema_header_comes_before_prefix():
    guid = "12345678-9abc-def0-1234-56789abcdef0"
    schemas = {1: json.dumps(record(field("a", "int"))), guid: json.dumps(record(field("a", "long")))}
    avro = AvroFormat(schemas[1], registry=schemas, framing="header")
    avro_of_guid = AvroFormat(schemas[guid], registry=schemas, framing="header")
    headers = [
        [{"key": "other", "value": b"x"}],
        [{"key": VALUE_HEADER, "value": b"\7"}, {"key": VALUE_HEADER, "value": reference_bytes(1)}],
        [],
    ]

    assert [row["a"] for row in finished(avro, [framed(1, b"\2"), b"\4", None], headers).to_pylist()] == [1, 2, None]
    by_guid = [{"key": VALUE_HEADER, "value": reference_bytes(guid)}]
    assert finished(avro_of_guid, [b"\6"], [by_guid]).to_pylist() == [{"a": 3}]
    with pytest.raises(UndecodableValue, match=r"orders-3 at offset 100.*expected 00"):
        finished(avro, [b"\6"], [[{"key": VALUE_HEADER, "value": b"\7"}]])


def test_undecodable_values_name_their_place_or_become_rows_with_reason():
    schema = json.dumps(
        record(field("a", "int"), field("t", {"type": "array", "items": record(field("s", "string"), name="I")}))
    )
    values = [framed(1, b"\2\2\4ab\0"), b"", framed(1, b"\2\2\4\xff\xff\0"), framed(9, b"\2\0"), framed(1, b"\2\0\0")]
    avro = AvroFormat(schema, registry={1: schema})

    with pytest.raises(UndecodableValue, match=r"orders-3 at offset 101: .*no schema id"):
        finished(avro, values)
    found = finished(avro, values, avro_errors=True)
    assert found.column("avro_error").to_pylist() == [
        None,
        "no schema id: expected byte 00 and an id of 4 bytes before the value",
        "schema 1: field 't.s': text that is not UTF-8",
        "schema 9 is unknown to the registry",
        "schema 1: bytes follow the Avro value",
    ]
    assert found.column("a").to_pylist() == [1, None, None, None, None]
    assert found.column("t").to_pylist() == [[{"s": "ab"}], None, None, None, None]


def test_registry_is_asked_for_few_unknown_schemas_of_a_batch():
    asked: list[int] = []

    def registry(schema_id: int) -> str:
        asked.append(schema_id)
        raise KeyError(schema_id)

    avro = AvroFormat('"int"', registry=registry)
    found = finished(avro, [framed(n, b"\2") for n in range(1000)], avro_errors=True)

    assert len(asked) == 16
    assert "not asked" in found.column("avro_error")[999].as_py()


def test_unknown_schemas_of_later_values_leave_an_earlier_value_decodable():
    avro = AvroFormat('"int"', registry={1: '"int"'})
    unknown = [framed(n, b"\2") for n in range(100, 130)]

    found = finished(avro, [framed(1, b"\4"), *unknown], avro_errors=True)

    assert found.to_pylist()[0] == {"value": 2, "avro_error": None}


def test_registered_bytes_without_a_length_are_a_reason_of_the_value():
    avro = AvroFormat('"bytes"', registry={1: '"bytes"'})

    (row,) = finished(avro, [framed(1, b"\4ab")], avro_errors=True).to_pylist()

    assert row["value"] is None
    assert "no length before values of the schema bytes" in row["avro_error"]


def test_symbol_that_is_no_unicode_text_is_a_reason_of_the_value():
    enum = '{"type": "enum", "name": "e", "symbols": ["\\ud800"]}'
    registry = {1: json.dumps(record(field("a", json.loads(enum))))}
    avro = AvroFormat(json.dumps(record(field("a", "string"))), registry=registry)

    (row,) = finished(avro, [framed(1, b"\0")], avro_errors=True).to_pylist()

    assert row["a"] is None
    assert row["avro_error"] is not None


def test_references_define_types_of_other_names_than_their_own():
    inner = record(field("cents", "long"), name="shop.Inner")
    outer = record(field("i", inner), name="shop.Outer")
    schema = json.dumps(record(field("price", "shop.Inner"), field("more", "shop.Outer")))

    for name in ("money.avsc", "shop.Outer"):
        found = parse_schema(schema, {"other": '"int"', name: json.dumps(outer)})
        assert [str(one.type) for one in found.fields] == ["shop.Inner", "shop.Outer"]


def test_incompatible_writer_schema_is_reported_with_its_values():
    assert "field 'a': string cannot be read as int" in reason(
        [b"\0"], record(field("a", "string")), record(field("a", "int"))
    )
    assert "'b' is missing" in reason([b"\0"], record(field("a", "int")), record(field("b", "int")))
    decimals = [
        record(field("a", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": s})) for s in (1, 2)
    ]
    assert "scale" in reason([b"\0"], *decimals)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "truncated"),
        (b"\x80", "truncated"),
        (b"\xff" * 11, "more than 64 bits"),
        (HUGE, "more items than the value has bytes"),
        (b"\1" + HUGE, "truncated"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\0" * 20, "more items"),
        (b"\1\1\0", "a negative length"),
        (b"\2" + HUGE, "truncated"),
    ],
)
def test_hostile_lists_are_problems(value, problem):
    schema = record(field("a", {"type": "array", "items": "string"}))
    skipped = record(field("b", "int", default=0))

    assert problem in reason([value], schema)
    assert problem in reason([value], schema, skipped)


def test_blocks_with_a_size_are_read_and_skipped():
    schema = record(field("a", {"type": "array", "items": "int"}), field("b", "int"))
    value = b"\3\4\2\4" + b"\2\6" + b"\0" + b"\x0a"

    assert read([value], schema) == [{"a": [1, 2, 3], "b": 5}]
    assert read([value], schema, record(field("b", "int"))) == [{"b": 5}]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ("int", b"\x80\x80\x80\x80\x20", "more than 32 bits"),
        ("boolean", b"\2", "boolean other than"),
        (["null", "int"], b"\4", "outside the schema"),
        (["null", "int"], b"\1", "outside the schema"),
        ({"type": "enum", "name": "E", "symbols": ["a"]}, b"\2", "outside the schema"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x80\xf0\xb3\x52", "outside of one day"),
        ("string", b"\6\xed\xa0\x80", "not UTF-8"),
        ("string", b"\4\xc0\x80", "not UTF-8"),
        ("double", b"\0" * 7, "truncated"),
    ],
)
def test_malformed_values_are_problems(schema, value, problem):
    assert problem in reason([value], record(field("f", schema)))


def test_timestamp_outside_of_readers_unit_is_a_problem():
    kinds = [{"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "nanos")]

    assert "does not fit" in reason([HUGE], *kinds)


def test_columns_grow_with_long_texts_and_lists():
    schema = record(field("t", "string"), field("l", {"type": "array", "items": "long"}))
    values = [{"t": "x" * n, "l": list(range(n))} for n in (0, 3, 5000, 1, 20_000)]

    assert read([encoded(schema, value) for value in values], schema) == values


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "not JSON"),
        ('"x"', "unknown Avro type 'x'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}', "contains itself"),
        ("[" * 100 + '"int"' + "]" * 100, "nested more than 64"),
        ('[["int"]]', "branches that are not unions"),
        ("[]", "branches"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
            "two",
        ),
        ('{"type": "array"}', "'items'"),
        ("7", "expected an Avro type"),
        (" " * (1 << 21), "characters"),
    ],
)
def test_invalid_schema_is_refused(schema, problem):
    with pytest.raises(UsageError, match=problem):
        AvroFormat(schema, framing="none")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array", "items": "null"}, "items without bytes"),
        (record(), "no field"),
    ],
)
def test_schema_without_columns_is_refused_before_first_value(schema, problem):
    with pytest.raises(UsageError, match=problem):
        Layout(avro=AvroFormat(json.dumps(schema), framing="none"))


@pytest.mark.parametrize("levels", [6, 30])
def test_writers_schema_that_nests_deeply_through_names_is_a_problem_of_its_values(levels):
    kinds: list[Any] = []
    inner: Any = "int"
    for n in range(levels):
        for _ in range(50):
            inner = {"type": "array", "items": inner}
        kinds.append(["null", record(field("x", inner), name=f"R{n}")])
        inner = f"R{n}"
    writer = record(*(field(f"f{n}", kind) for n, kind in enumerate(kinds)), field("z", "int"), name="W")
    lists = 50 * levels
    value = b"\0" * (levels - 1) + b"\2" + b"\2" * lists + b"\2" + b"\0" * lists + b"\2"

    assert "nested more than 64" in reason([value], writer, record(field("z", "int"), name="W"))


def test_schema_that_expands_without_bound_is_refused():
    kind: Any = record(field("x", "int"), name="R0")
    for n in range(1, 40):
        kind = record(field("x", kind), field("y", f"R{n - 1}"), name=f"R{n}")

    with pytest.raises(UsageError, match="more than 4096 columns"):
        Layout(avro=AvroFormat(json.dumps(kind), framing="none"))
    assert "instructions" in reason(
        [b""], record(field("u", ["null", kind]), name="W"), record(field("b", "int", default=1))
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"framing": "none"}, "needs schema="),
        ({"framing": "none", "schema": '"int"', "registry": {}}, "no registry="),
        ({"schema": '"int"'}, "framing='none'"),
        ({"registry": {}, "framing": "confluent"}, "prefix, header, none"),
    ],
)
def test_invalid_format_is_refused(options, problem):
    with pytest.raises(UsageError, match=problem):
        AvroFormat(**options)


def test_layout_refuses_two_formats_and_duplicate_columns():
    avro = AvroFormat(json.dumps(record(field("key", "int"))), framing="none")

    with pytest.raises(UsageError, match="'key' is a column of the record and of its Avro value"):
        Layout(avro=avro)
    with pytest.raises(UsageError, match="exclude each other"):
        Layout(json=pa.schema([("a", pa.int32())]), avro=avro)
    with pytest.raises(UsageError, match=r"kohort\.AvroFormat, not dict"):
        Layout(avro={})
    with pytest.raises(UsageError, match="avro_errors=True needs avro="):
        Layout(avro_errors=True)


def test_floats_of_ints_are_promoted():
    assert read([b"\5"], "int", "float") == [{"value": -3.0}]
    assert read([struct.pack("<f", 0.1)], "float", "double") == [
        {"value": struct.unpack("f", struct.pack("f", 0.1))[0]}
    ]


def test_registry_clients_resolve_schemas_and_references():
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    with fake_registry() as server:
        clients = [
            (kohort, kohort.SchemaRegistry(server.url)),
            (confluent, confluent.SchemaRegistryClient.new_client({"url": "mock://avro"})),
        ]
        for library, client in clients:
            check_registry_client(library, client)


def check_registry_client(library: Any, client: Any) -> None:
    money = record(field("cents", "long"), name="shop.Money")
    order = record(field("id", "int"), field("price", "shop.Money"), name="shop.Order")
    client.register_schema("money", library.Schema(json.dumps(money), "AVRO"))
    reference = library.SchemaReference("shop.Money", "money", 1)
    schema_id = client.register_schema("orders-value", library.Schema(json.dumps(order), "AVRO", [reference]))
    protobuf_id = client.register_schema("p-value", library.Schema('syntax = "proto3";', "PROTOBUF"))
    values = [framed(schema_id, b"\2\4"), framed(protobuf_id, b""), framed(99, b"")]

    found = finished(AvroFormat(registry=client), values[:1])
    assert found.to_pylist() == [{"id": 1, "price": {"cents": 2}}]
    reasons = finished(AvroFormat(registry=client), values, avro_errors=True).column("avro_error").to_pylist()
    assert reasons == [
        None,
        f"schema {protobuf_id}: the schema has type PROTOBUF, not AVRO",
        "schema 99 is unknown to the registry",
    ]


def test_registry_for_asyncio_is_refused():
    avro = AvroFormat(registry=kohort.AsyncSchemaRegistry("http://127.0.0.1:9"))

    with pytest.raises(UsageError, match="blocking client"):
        finished(avro, [framed(1, b"")])


def test_one_huge_value_does_not_enlarge_the_buffers_of_later_batches():
    schema = record(field("l", {"type": "array", "items": "long"}), field("t", "string"))
    decoder = decoder_of(AvroFormat(json.dumps(schema), framing="none"))
    huge = encoded(schema, {"l": [0] * 100_000, "t": "x" * 100_000})
    decoder.decode(pa.array([huge]), None)

    small = pa.array([encoded(schema, {"l": [0], "t": "x"})] * 10_000)
    before = pa.total_allocated_bytes()
    kept = decoder.decode(small, None)

    assert kept.problems == {}
    assert pa.total_allocated_bytes() - before < 2_000_000


def test_arrow_schema_selects_fields_and_their_types():
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "color": ({"type": "enum", "name": "E", "symbols": ["red", "blue"]}, "blue", pa.string()),
        "code": ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(16), pa.string()),
        "count": ("int", 5, pa.int64()),
        "price": (
            {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2},
            Decimal("1.25"),
            pa.decimal128(9, 2),
        ),
        "raw": ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(2)),
        "at": ({"type": "long", "logicalType": "timestamp-millis"}, 1000, pa.timestamp("us", "UTC")),
        "tags": ({"type": "array", "items": "string"}, ["a"], pa.list_(pa.field("element", pa.string()))),
        "map": ({"type": "map", "values": "int"}, {"k": 1}, pa.map_(pa.string(), pa.int32())),
        "inner": (
            record(field("x", "int"), field("y", "int"), name="I"),
            {"x": 1, "y": 2},
            pa.struct([("y", pa.int32())]),
        ),
        "absent": (None, None, pa.float64()),
    }
    writer = record(field("skipped", "string"), *(field(name, kind[0]) for name, kind in kinds.items() if kind[0]))
    value = encoded(writer, {"skipped": "x", **{name: kind[1] for name, kind in kinds.items()}})
    wanted = pa.schema([(name, kind[2]) for name, kind in kinds.items()])

    found = finished(AvroFormat(wanted, registry={1: json.dumps(writer)}), [framed(1, value), None])

    assert found.schema == wanted
    row, nothing = found.to_pylist()
    assert nothing == dict.fromkeys(wanted.names)
    assert (row["color"], row["code"]) == ("blue", "00000000-0000-0000-0000-000000000000")
    assert (row["count"], row["price"], row["raw"], row["absent"]) == (5, Decimal("1.25"), b"ab", None)
    assert (row["tags"], row["map"], row["inner"]) == (["a"], [("k", 1)], {"y": 2})
    assert row["at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_arrow_schema_refuses_types_without_avro_and_missing_fields():
    with pytest.raises(UsageError, match="column 'a': int8 cannot be read from Avro"):
        Layout(avro=AvroFormat(pa.schema([("a", pa.int8())]), registry={}))
    with pytest.raises(UsageError, match="needs schema= as Avro text"):
        AvroFormat(pa.schema([("a", pa.int32())]), framing="none")
    with pytest.raises(UsageError, match=r"JSON text or a pyarrow\.Schema, not list"):
        AvroFormat([], registry={})
    needed = AvroFormat(
        pa.schema([pa.field("b", pa.int32(), nullable=False)]), registry={1: json.dumps(record(field("a", "int")))}
    )
    with pytest.raises(UndecodableValue, match="'b' is missing in the writer's schema"):
        finished(needed, [framed(1, b"\2")])

"""Change events become rows: operations, keys, tombstones, unchanged columns, positions, JSON and Avro."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from kohort.errors import ConfigError  # noqa: E402 - behind importorskip
from kohort.spark.options.changes import ChangeOptions  # noqa: E402 - behind importorskip
from kohort.spark.values.debezium import PLACEHOLDER, ChangeReader  # noqa: E402 - behind importorskip
from kohort.spark.values.keys import KeyFormat  # noqa: E402 - behind importorskip

ROW = [("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))]
SOURCE_TYPE = pa.struct([("table", pa.string()), ("txId", pa.string()), ("lsn", pa.int64()), ("row", pa.int32())])
COLUMNS = pa.schema(
    [
        *ROW,
        ("__op", pa.string()),
        ("__before", pa.struct(ROW)),
        ("__unchanged", pa.list_(pa.string())),
        ("__position", pa.string()),
        ("__ts", pa.timestamp("us", "UTC")),
        ("__source", SOURCE_TYPE),
    ]
)  # fmt: skip
FIELDS: list[dict[str, Any]] = [
    {"type": "int64", "field": "id"},
    {"type": "string", "field": "name"},
    {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}, "field": "price"},
]
ENVELOPE = {"type": "struct", "fields": [{"type": "struct", "fields": FIELDS, "field": f} for f in ("before", "after")]}
SOURCE = {"connector": "postgresql", "table": "items", "txId": 7, "lsn": 42, "ts_ms": 5}
A = {"id": 1, "name": "a", "price": "AN4="}
KEY = b'{"id": 1}'


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1_700_000_000_000, **more}


def framed(content: Any, schema: Any = ENVELOPE) -> bytes:
    return json.dumps({"schema": schema, "payload": content}).encode()


def rows_of(
    *records: tuple[bytes | None, bytes | None], options: ChangeOptions | None = None
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    values, keys = (pa.array([record[i] for record in records], pa.binary()) for i in (1, 0))
    decoded = ChangeReader(COLUMNS, options or ChangeOptions()).read_block(values, keys)
    return pa.table(decoded.columns, schema=COLUMNS).to_pylist(), decoded.problems


def row_of(value: Any, key: bytes | None = KEY, options: ChangeOptions | None = None) -> dict[str, Any]:
    content = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    (row,), problems = rows_of((key, content), options=options)
    assert not problems
    return row


def problem_of(value: Any, key: bytes | None = KEY, options: ChangeOptions | None = None) -> str:
    content = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    (row,), problems = rows_of((key, content), options=options)
    assert set(row.values()) == {None}
    return problems[0]


def test_insert_with_a_schema_becomes_a_row_with_metadata() -> None:
    assert row_of(framed(event("c", None, A))) == {
        "id": 1,
        "name": "a",
        "price": Decimal("2.22"),
        "__op": "c",
        "__before": None,
        "__unchanged": None,
        "__position": "00000000000000000042",
        "__ts": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "__source": {"table": "items", "txId": "7", "lsn": 42, "row": None},
    }


def test_records_with_and_without_a_schema_alternate_in_a_topic() -> None:
    bare = json.dumps(event("u", None, A)).encode()
    rows, problems = rows_of((KEY, framed(event("u", None, A))), (KEY, bare), options=ChangeOptions(decimals="precise"))

    assert not problems
    assert rows[0] == rows[1]


def test_new_schema_in_the_middle_of_a_topic_applies_to_its_records() -> None:
    wider = [*FIELDS[:2], {**FIELDS[2], "parameters": {"scale": "1"}}]
    later = {"type": "struct", "fields": [{"type": "struct", "fields": wider, "field": "after"}]}
    rows, _ = rows_of((KEY, framed(event("u", None, A))), (KEY, framed(event("u", None, A), later)))

    assert [row["price"] for row in rows] == [Decimal("2.22"), Decimal("22.20")]


def test_delete_event_becomes_a_row_with_the_values_of_before() -> None:
    found = row_of(framed(event("d", A)))

    assert (found["id"], found["name"], found["__op"], found["__before"]["name"]) == (1, "a", "d", "a")


@pytest.mark.parametrize("value", [framed(event("d")), None])
@pytest.mark.parametrize("key", [KEY, framed({"id": 1}, {"type": "struct", "fields": FIELDS[:1]})])
def test_delete_without_before_and_tombstone_have_the_columns_of_the_key(value: bytes | None, key: bytes) -> None:
    found = row_of(value, key)

    assert (found["id"], found["name"], found["__op"], found["__before"]) == (1, None, "d", None)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "a delete without before and without a key"),
        (b"1", "the key of a delete without before cannot be read: not a JSON object"),
        (b'{"uid": 1}', "a delete without before needs a key with columns of the row"),
        (b"\xff", "the key of a delete without before cannot be read: "),
    ],
)
def test_delete_without_before_and_usable_key_is_an_error(key: bytes | None, problem: str) -> None:
    assert problem in problem_of(framed(event("d")), key)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"nope", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"op": "c"} more', "not JSON"),
        (framed(5), "the payload is not a JSON object"),
        (framed(event("c"), 5), "the schema of the record is not a JSON object"),
        ({"id": 1}, "expected op c, r, u, d, t, m, found None. Rows without an envelope need envelope: false"),
        (event("x"), "found x"),
        (event("u"), "a change event with op u needs after, found None"),
        (event("c", None, {"id": "1"}), "column 'id': expected an integer"),
        (event("c", None, {"price": "123.45"}), "column 'price': the record has no schema, so the decimal"),
        (b'{"op": "c", "after": {"name": "\\ud800"}}', "not JSON"),
        (b'{"op": "c", "after": ' + b"[" * 100_000, "not JSON"),
    ],
)
def test_value_that_is_no_change_event_is_an_error(value: Any, problem: str) -> None:
    assert problem in problem_of(value)


@pytest.mark.parametrize(
    "field",
    [
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": float("inf")}},
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": 5},
        {"type": ["bytes"], "name": {}},
        {},
    ],
)
def test_odd_schema_of_a_record_is_an_error_of_the_record(field: dict[str, Any]) -> None:
    fields = [{**field, "field": "price"}, 5, {"field": []}]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}

    value = framed(event("c", None, {"price": "AN4="}), schema).replace(b"Infinity", b"1e999")

    assert "column 'price': " in problem_of(value)


def test_mutated_records_are_rows_or_problems() -> None:
    chance, records = random.Random(7), []
    words = [b"null", b"1e999", b"[]", b"{}", b"-1", b"99999999999999999999", b'"\\u0000"', b"Infinity"]
    for _ in range(1500):
        record = bytearray(framed(event("u", A, {**A, "name": PLACEHOLDER})))
        for _ in range(3):
            at = chance.randrange(len(record))
            if chance.random() < 0.5:
                colon = record.find(b":", at) % len(record)
                end = min(e for e in (record.find(b",", colon), record.find(b"}", colon), len(record)) if e > 0)
                record[colon + 1 : end] = chance.choice(words)
            else:
                record[at : at + chance.randrange(3)] = bytes([chance.randrange(256)])
        records.append((KEY, bytes(record)))

    rows, problems = rows_of(*records)

    assert 100 < len(problems) < len(rows)


def test_truncate_and_message_have_no_row() -> None:
    for op in ("t", "m"):
        found = row_of(event(op))
        assert (found["id"], found["__op"]) == (None, op)


@pytest.mark.parametrize("before", [None, {"id": 1}, {"id": 1, "name": PLACEHOLDER}])
def test_placeholder_of_an_unchanged_column_becomes_null_and_its_name(before: Any) -> None:
    found = row_of(event("u", before, {"id": 1, "name": PLACEHOLDER}))

    assert (found["name"], found["__unchanged"]) == (None, ["name"])


def test_unchanged_column_takes_its_value_from_before() -> None:
    found = row_of(event("u", {"id": 1, "name": "long"}, {"id": 1, "name": PLACEHOLDER}))

    assert (found["name"], found["__unchanged"]) == ("long", None)


def test_placeholder_is_found_in_columns_of_other_types() -> None:
    columns = [("b", pa.binary()), ("t", pa.list_(pa.string())), ("n", pa.list_(pa.float64()))]
    schema = pa.schema([*columns, ("__unchanged", pa.list_(pa.string()))])
    after = {"b": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "t": [PLACEHOLDER], "n": list(PLACEHOLDER.encode())}
    values = pa.array([json.dumps(event("u", None, after)).encode()], pa.binary())
    decoded = ChangeReader(schema, ChangeOptions()).read_block(values, pa.nulls(1, pa.binary()))

    assert not decoded.problems
    assert decoded.columns[3].to_pylist() == [["b", "t", "n"]]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"lsn": 9}, {"lsn": 10}),
        ({"file": "bin.999999", "pos": 9, "row": 0}, {"file": "bin.1000000", "pos": 4, "row": 0}),
        ({"file": "bin.000001", "pos": 9, "row": 2}, {"file": "bin.000001", "pos": 10, "row": 0}),
        ({"file": "bin.000001", "pos": 9, "row": 9}, {"file": "bin.000001", "pos": 9, "row": 10}),
        ({"commit_lsn": "0027:01", "change_lsn": None}, {"commit_lsn": "0027:01", "change_lsn": "0027:01"}),
        ({"commit_lsn": "0027:01", "event_serial_no": 1}, {"commit_lsn": "0027:01", "event_serial_no": 2}),
    ],
)
def test_positions_are_in_the_order_of_the_databases_log(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    first, second = (row_of(event("r", None, {"id": 1}, source=source))["__position"] for source in (earlier, later))

    assert first < second


def test_position_of_another_database_is_null_and_odd_source_fields_are_null() -> None:
    found = row_of(event("r", None, {"id": 1}, source={"collection": "c", "lsn": "x", "row": 1 << 40}, ts_ms=1 << 80))

    assert (found["__position"], found["__ts"]) == (None, None)
    assert found["__source"] == {"table": "c", "txId": None, "lsn": None, "row": None}


@pytest.mark.parametrize(
    ("value", "op", "row"),
    [
        ({"id": 1, "name": "a", "__op": "r", "__lsn": 5}, "r", (1, "a")),
        ({"id": 1, "name": "a"}, None, (1, "a")),
        ({"id": 1, "name": "a", "__deleted": "true"}, "d", (1, "a")),
        ({"id": None, "name": None, "__deleted": "true"}, "d", (1, None)),
        ({"id": 1, "name": "a", "__deleted": "false"}, None, (1, "a")),
        (None, "d", (1, None)),
    ],
)
def test_unwrapped_row_is_read_without_an_envelope(value: Any, op: str | None, row: tuple[Any, ...]) -> None:
    found = row_of(value, options=ChangeOptions(envelope=False))

    assert (found["__op"], (found["id"], found["name"])) == (op, row)


def test_unwrapped_row_with_an_op_that_is_no_text_is_an_error() -> None:
    problem = problem_of({"id": 1, "__op": {"a": 1}}, options=ChangeOptions(envelope=False))

    assert problem == "the field __op is not text: {'a': 1}"


NAME = "org.apache.kafka.connect.data.Decimal"
AVRO = json.dumps({
    "type": "record", "name": "Envelope", "namespace": "db.items", "fields": [
        {"name": "before", "default": None, "type": ["null", {"type": "record", "name": "Value", "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "price", "type": ["null", {"type": "bytes", "scale": 2, "precision": 10, "connect.name": NAME,
             "connect.parameters": {"scale": "2"}, "logicalType": "decimal"}], "default": None},
        ]}]},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}},
        {"name": "op", "type": "string"},
    ],
})  # fmt: skip
AVRO_KEY = '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}'


def avro(schema: str, value: Any, frame: bytes = b"\x00\x00\x00\x00\x07") -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(schema), value)
    return frame + out.getvalue()


def test_events_in_avro_become_the_same_rows() -> None:
    options = ChangeOptions(avro=AVRO, avro_key=AVRO_KEY, framed=True)
    key = avro(AVRO_KEY, {"id": 1})
    row, source = {"id": 1, "name": "a", "price": Decimal("2.22")}, {"lsn": 42}
    insert = avro(AVRO, {"before": None, "after": row, "source": source, "op": "c"})
    delete = avro(AVRO, {"before": None, "after": None, "source": source, "op": "d"})

    rows, problems = rows_of((key, insert), (key, delete), (key, insert[1:]), (key, insert + b"x"), options=options)

    assert [(r["id"], r["name"], r["price"], r["__op"], r["__position"]) for r in rows[:2]] == [
        (1, "a", Decimal("2.22"), "c", f"{42:020d}"),
        (1, None, None, "d", f"{42:020d}"),
    ]
    assert list(problems) == [2, 3]
    assert problems[3] == "1 bytes follow the Avro value"


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ([("__opp", pa.string())], "change events have no column '__opp': expected __op, __before"),
        ([("x", pa.duration("us"))], "column 'x': value.format=debezium does not support duration"),
        ([("x", pa.list_(pa.duration("us")))], "value.format=debezium does not support duration"),
    ],
)
def test_unsupported_columns_are_refused(columns: list[Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ChangeReader(pa.schema(columns), ChangeOptions())


STRUCT = pa.struct([("id", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "column", "key", "expected"),
    [
        ("text", pa.string(), "clé".encode(), "clé"),
        ("int", pa.int32(), b"\xff\xff\xff\xff", -1),
        ("long", pa.int64(), b"\x00" * 7 + b"\x05", 5),
        ("json", STRUCT, b'{"id": 1, "more": 2}', {"id": 1}),
        ("debezium", STRUCT, framed({"id": 1}, {"type": "struct", "fields": FIELDS[:1]}), {"id": 1}),
        ("debezium", STRUCT, b'{"id": 1}', {"id": 1}),
        ("avro", STRUCT, avro(AVRO_KEY, {"id": 1}), {"id": 1}),
    ],
)
def test_key_becomes_one_column(kind: str, column: Any, key: bytes, expected: Any) -> None:
    schema = {"avro": AVRO_KEY, "framing": "confluent"} if kind == "avro" else {}
    decoded = KeyFormat(kind, pa.field("key", column), **schema).decode(pa.array([key, None], pa.binary()))

    assert decoded.columns[0].to_pylist() == [expected, None]
    assert not decoded.problems


@pytest.mark.parametrize(
    ("kind", "column", "key", "problem"),
    [
        ("text", pa.string(), b"\xff", "the key: not UTF-8"),
        ("int", pa.int32(), b"12345", "the key: 5 bytes, expected 4 for key.format=int"),
        ("json", STRUCT, b"5", "the key: not a JSON object"),
        ("debezium", STRUCT, b'{"id": "x"}', "the key: column 'id': expected an integer"),
    ],
)
def test_undecodable_key_is_an_error(kind: str, column: Any, key: bytes, problem: str) -> None:
    decoded = KeyFormat(kind, pa.field("key", column)).decode(pa.array([key], pa.binary()))

    assert problem in decoded.problems[0]


@pytest.mark.parametrize(
    ("kind", "column", "problem"),
    [
        ("text", pa.int32(), "column 'key' must be string for key.format=text"),
        ("json", pa.string(), "column 'key' must be a struct for key.format=json"),
    ],
)
def test_key_column_of_another_type_is_refused(kind: str, column: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        KeyFormat(kind, pa.field("key", column))

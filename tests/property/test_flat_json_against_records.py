"""The kernel and msgspec against the reader of objects: the same columns and the same verdict on every value."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from kohort.columns.json_values.columns import read_json, read_records  # noqa: E402 - behind importorskip
from kohort.columns.json_values.flat_objects import flat_columns, is_flat  # noqa: E402 - behind importorskip

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("small", pa.int8()), ("amount", pa.float64()), ("rough", pa.float32()),
        ("name", pa.string()), ("é", pa.string()), ("sure", pa.bool_()), ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")), ("day", pa.date32()), ("price", pa.decimal128(10, 2)),
    ]
)  # fmt: skip
MANY = settings(max_examples=300, derandomize=True, deadline=None, database=None)
NAMES = st.sampled_from([*SCHEMA.names, "more", "nam", "names", ""])
NUMBERS = st.one_of(
    st.integers(-200, 200), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.floats()
).map(json.dumps)
ODD = st.sampled_from(
    [
        *("01", "-0", "-", "1.", ".5", "+1", "1e5", "1E+05", "1e", "-0.0", "1e400", "9" * 400, "1e99", "NaN"),
        *("null", "nul", "true", "tru", "talse", "false", "frue", "[1]", '{"id":1}', "", "'a'"),
        *('"\\u00e9"', '"a\\"b"', '"unended', '"tab\there"'),
        *('"2024-01-15"', '"2024-02-30"', '"2024-1-5"', '"2024-01-15T10:20:30Z"', '"2024-01-15 10:20:30.1234567"'),
        *('"2024-03-10T02:30:00"', '"2024-11-03T01:30:00"', '"2024-01-15T10:20:30+02:00"', '"2024-01-15T24:00:00"'),
        *("1.005", "1.50", "99999999.99", "123456789.1", "1e39", "3.4028235e38", "1700000000"),
    ]
)
TEXTS = st.text(max_size=20).map(lambda t: json.dumps(t, ensure_ascii=False))
SPACES = st.sampled_from(["", "", "", " ", "\n", " \t\r\n", "\v"])


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    fields = draw(st.lists(st.tuples(NAMES, st.one_of(NUMBERS, TEXTS, ODD)), max_size=6))
    gap = draw(SPACES)
    body = ",".join(f'{gap}"{name}"{gap}:{gap}{value}{gap}' for name, value in fields)
    return (draw(SPACES) + "{" + body + "}" + draw(SPACES)).encode()


BYTES = st.one_of(
    st.none(),
    st.binary(max_size=10),
    st.sampled_from([b'{"name": "\xff"}', b'{"more": "\xff"}', b"{}x", b"{", b"{}{}"]),
)


NEW_YORK = ZoneInfo("America/New_York")


NESTED = pa.schema(
    [
        ("id", pa.int16()), ("name", pa.string()), ("amount", pa.float64()), ("at", pa.timestamp("us", tz="UTC")),
        ("more", pa.list_(pa.field("element", pa.string()))),
        ("small", pa.struct([("id", pa.int8()), ("amount", pa.list_(pa.float64()))])),
    ]
)  # fmt: skip
INSIDE = st.one_of(NUMBERS, TEXTS, ODD)
VALUES = st.one_of(
    INSIDE,
    st.lists(INSIDE, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    st.tuples(st.sampled_from(["id", "amount", "x"]), INSIDE, INSIDE).map(
        lambda parts: f'{{"{parts[0]}": {parts[1]}, "amount": [{parts[2]}]}}'
    ),
)


@st.composite
def nested_objects(draw: st.DrawFn) -> bytes:
    fields = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    return ("{" + ",".join(f'"{name}": {value}' for name, value in fields) + "}").encode()


def outcome(read: Any, values: Any, schema: Any = SCHEMA) -> tuple[list[tuple[str, ...]], dict[int, str]]:
    """Rows (as text, for a NaN is not itself) and problems."""
    decoded = read(values, schema, NEW_YORK)
    for column, field in zip(decoded.columns, schema, strict=True):
        column.validate(full=True)
        assert column.type == field.type
    rows = [tuple(map(repr, row)) for row in zip(*(c.to_pylist() for c in decoded.columns), strict=True)]
    return rows, decoded.problems


@MANY
@given(st.lists(st.one_of(objects(), BYTES), max_size=12), st.integers(0, 3))
def test_kernel_and_record_reader_agree_on_each_value(values: list[bytes | None], cut: int) -> None:
    block = pa.array(values, pa.binary())

    rows, problems = outcome(read_json, block)

    assert (rows, problems) == outcome(read_records, block)
    assert outcome(read_json, block.slice(cut))[0] == rows[cut:]


@MANY
@given(st.lists(st.one_of(nested_objects(), BYTES), min_size=1, max_size=6))
def test_msgspec_and_object_reader_agree_on_each_value(values: list[bytes | None]) -> None:
    block = pa.array(values, pa.binary())

    assert outcome(read_json, block, NESTED) == outcome(read_records, block, NESTED)


def test_kernel_reads_plain_rows_by_itself() -> None:
    row = (
        '{"id": -7, "small": 3, "amount": 1.25e-3, "rough": 2, "name": "a b", "é": null, "sure": true, "more": 1, '
        '"at": "2024-07-15T10:20:30", "local": "2024-01-15 10:20:30.5", "day": "2024-01-15", "price": 1.5}'
    )
    plain = [row.encode(), b"{}", b' {"sure":false,"id":999999999999999999,"at":"2024-01-15T10:20:30Z"} ']

    flat = flat_columns(pa.array(plain, pa.binary()), SCHEMA, NEW_YORK)

    assert flat is not None
    assert list(flat.left) == []
    found = dict(zip(SCHEMA.names, (c.to_pylist() for c in flat.columns), strict=True))
    assert found["id"] == [-7, None, 999999999999999999]
    assert (found["small"], found["amount"], found["rough"]) == (
        [3, None, None],
        [0.00125, None, None],
        [2, None, None],
    )
    assert (found["name"], found["é"], found["sure"]) == (["a b", None, None], [None] * 3, [True, None, False])
    assert [str(at) for at in found["at"]] == ["2024-07-15 14:20:30+00:00", "None", "2024-01-15 10:20:30+00:00"]
    assert [str(found[name][0]) for name in ("local", "day", "price")] == [
        "2024-01-15 10:20:30.500000", "2024-01-15", "1.50"
    ]  # fmt: skip


def test_kernel_rejects_nested_values_and_unsupported_types() -> None:
    nested = pa.array([b'{"id": 1, "more": [1]}'] * 1000, pa.binary())

    assert flat_columns(nested, SCHEMA, UTC) is None
    assert not is_flat(pa.schema([("tags", pa.list_(pa.string()))]))
    assert outcome(read_json, nested) == outcome(read_records, nested)

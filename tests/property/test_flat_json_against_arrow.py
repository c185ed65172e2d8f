"""The kernel for flat JSON against Arrow's reader: the same columns and the same verdict on every value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from kohort.columns.json_values.flat_objects import flat_columns, is_flat  # noqa: E402 - behind importorskip
from kohort.spark.values.value_format import ValueFormat  # noqa: E402 - behind importorskip

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("small", pa.int8()), ("amount", pa.float64()), ("rough", pa.float32()),
        ("name", pa.string()), ("é", pa.string()), ("sure", pa.bool_()),
    ]
)  # fmt: skip
MANY = settings(max_examples=300)
NAMES = st.sampled_from([*SCHEMA.names, "more", "nam", "names", ""])
NUMBERS = st.one_of(
    st.integers(-200, 200), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.floats()
).map(json.dumps)
ODD = st.sampled_from(
    [
        *("01", "-0", "-", "1.", ".5", "+1", "1e5", "1E+05", "1e", "-0.0", "1e400", "9" * 400, "1e99", "NaN"),
        *("null", "nul", "true", "tru", "talse", "false", "frue", "[1]", '{"id":1}', "", "'a'"),
        *('"\\u00e9"', '"a\\"b"', '"unended', '"tab\there"'),
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


def judged(values: list[bytes | None], decode: str) -> tuple[list[tuple[object, ...]], dict[int, str]]:
    """Rows (as text, for a NaN is not itself) and problems, by the whole decoder or by Arrow's reader alone."""
    value_format = ValueFormat("json", SCHEMA)
    given = values if decode == "_decode_lines" else pa.array(values, pa.binary())
    decoded = getattr(value_format, decode)(given)
    for column, field in zip(decoded.columns, SCHEMA, strict=True):
        column.validate(full=True)
        assert column.type == field.type
    rows = [tuple(map(repr, row)) for row in zip(*(c.to_pylist() for c in decoded.columns), strict=True)]
    return rows, decoded.problems


@MANY
@given(st.lists(st.one_of(objects(), BYTES), max_size=12), st.integers(0, 3))
def test_whichever_reads_a_value_the_outcome_is_the_same(values: list[bytes | None], cut: int) -> None:
    whole, lines = judged(values, "decode"), judged(values, "_decode_lines")

    assert whole[0] == lines[0]
    assert whole[1].keys() == lines[1].keys()
    part = ValueFormat("json", SCHEMA).decode(pa.array(values, pa.binary()).slice(cut))
    assert [tuple(map(repr, r)) for r in zip(*(c.to_pylist() for c in part.columns), strict=True)] == whole[0][cut:]


def test_plain_rows_are_not_left_to_the_judge() -> None:
    row = '{"id": -7, "small": 3, "amount": 1.25e-3, "rough": 2, "name": "a b", "é": null, "sure": true, "more": 1}'
    plain = [row.encode(), b"{}", b' {"sure":false,"id":999999999999999999} ']

    flat = flat_columns(pa.array(plain, pa.binary()), SCHEMA)

    assert flat is not None
    assert list(flat.left) == []
    assert [c.to_pylist() for c in flat.columns] == [
        [-7, None, 999999999999999999],
        [3, None, None],
        [0.00125, None, None],
        [2.0, None, None],
        ["a b", None, None],
        [None, None, None],
        [True, None, False],
    ]


def test_where_most_rows_are_nested_or_a_type_is_another_nothing_is_gained() -> None:
    nested = pa.array([b'{"id": 1, "more": [1]}'] * 1000, pa.binary())

    assert flat_columns(nested, SCHEMA) is None
    assert not is_flat(pa.schema([("at", pa.timestamp("us", tz="UTC"))]))
    assert judged([b'{"id": 1, "more": [1]}'] * 1000, "decode") == judged(
        [b'{"id": 1, "more": [1]}'] * 1000, "_decode_lines"
    )

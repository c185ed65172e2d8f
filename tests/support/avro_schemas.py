"""Hypothesis strategies for Avro schemas, values and evolved schemas; the rows that pyarrow must show for them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Schema = Any
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTS = st.one_of(st.integers(-70, 70), st.integers(-(2**31), 2**31 - 1))
LONGS = st.one_of(st.integers(-70, 70), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(width=32, allow_nan=False)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=10),
    "string": TEXTS,
}
SYMBOLS = ("red", "green", "blue")
PROMOTED = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "double"],
    "float": ["float", "double"],
    "string": ["string", "bytes"],
    "bytes": ["bytes", "string"],
}
LEAVES = st.sampled_from([kind for kind in PRIMITIVES if kind != "null"])
NAMED = st.sampled_from([{"type": "enum", "symbols": list(SYMBOLS)}, {"type": "fixed", "size": 3}])
WIDE = st.sampled_from([["null", "int", "string"], ["string", "boolean", "bytes"], ["double", "null", "string"]])


def _inner(kinds: st.SearchStrategy[Schema], *, wide: bool) -> st.SearchStrategy[Schema]:
    fields = st.lists(kinds, min_size=1, max_size=4)
    single = kinds.filter(lambda kind: not isinstance(kind, list))
    options = [
        kinds.map(lambda items: {"type": "array", "items": items}),
        kinds.map(lambda values: {"type": "map", "values": values}),
        fields.map(lambda given: {"type": "record", "fields": given}),
        single.map(lambda kind: ["null", kind]),
        single.map(lambda kind: [kind, "null"]),
    ]
    return st.one_of(*options, WIDE) if wide else st.one_of(*options)


def records(*, wide: bool) -> st.SearchStrategy[Schema]:
    """Return schemas of records. ``wide``: with unions of several types."""
    kinds = st.recursive(st.one_of(LEAVES, NAMED), lambda inner: _inner(inner, wide=wide), max_leaves=8)
    return st.lists(kinds, min_size=1, max_size=5).map(
        lambda given: _with_names({"type": "record", "fields": given}, itertools.count())
    )


def _with_names(schema: Schema, numbers: itertools.count[int]) -> Schema:
    """Return the schema with names for its types and fields."""
    if isinstance(schema, list):
        return [_with_names(branch, numbers) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if schema["type"] in ("record", "enum", "fixed"):
        made["name"] = f"n.T{next(numbers)}"
    for key in ("items", "values"):
        if key in schema:
            made[key] = _with_names(schema[key], numbers)
    if "fields" in schema:
        kinds = [_with_names(kind, numbers) for kind in schema["fields"]]
        made["fields"] = [{"name": f"f{i}", "type": kind} for i, kind in enumerate(kinds)]
    return made


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return values of a schema, as fastavro writes them."""
    if isinstance(schema, str):
        return PRIMITIVES[schema]
    if isinstance(schema, list):
        return st.one_of(*map(values, schema))
    kind = schema["type"]
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(TEXTS, values(schema["values"]), max_size=3)
    return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


def evolved(schema: Schema) -> st.SearchStrategy[Schema]:
    """Return schemas that can read values of a schema: promoted, reordered, renamed, with new or fewer fields."""
    if isinstance(schema, str):
        return st.sampled_from(PROMOTED.get(schema, [schema]))
    if isinstance(schema, list):
        return st.tuples(*map(evolved, schema)).map(list)
    kind = schema["type"]
    if kind == "enum":
        more = {**schema, "symbols": ["blue", "black", "red"], "default": "black"}
        return st.sampled_from([schema, more])
    if kind in ("array", "map"):
        key = "items" if kind == "array" else "values"
        return evolved(schema[key]).map(lambda inner: {**schema, key: inner})
    if kind == "record":
        return _evolved_record(schema)
    return st.just(schema)


NEW_FIELDS = [
    {"name": "new_text", "type": "string", "default": "né"},
    {"name": "new_null", "type": ["null", "int"], "default": None},
    {"name": "new_long", "type": "long", "default": -7},
    {"name": "new_list", "type": {"type": "array", "items": "int"}, "default": [1, 2, 3]},
    {"name": "new_map", "type": {"type": "map", "values": "double"}, "default": {"a": 0.5}},
]


@st.composite
def _evolved_record(draw: st.DrawFn, schema: Schema) -> Schema:
    fields = []
    for field in schema["fields"]:
        change = draw(st.sampled_from(["keep", "keep", "drop", "rename", "nullable"]))
        kind = draw(evolved(field["type"]))
        if change == "drop":
            continue
        if change == "rename":
            fields.append({"name": f"{field['name']}_new", "aliases": [field["name"]], "type": kind})
        elif change == "nullable" and not isinstance(kind, list):
            fields.append({"name": field["name"], "type": ["null", kind]})
        else:
            fields.append({"name": field["name"], "type": kind})
    fields += draw(st.lists(st.sampled_from(NEW_FIELDS), unique_by=lambda field: field["name"], max_size=2))
    return {**schema, "fields": draw(st.permutations(fields or NEW_FIELDS[:1]))}


def shown(schema: Schema, value: Any) -> Any:
    """Return a value that fastavro read as pyarrow shows it."""
    if isinstance(schema, list):
        return _shown_union(schema, value)
    if isinstance(schema, str):
        return struct.unpack("f", struct.pack("f", value))[0] if schema == "float" else value
    kind = schema["type"]
    if kind == "array":
        return [shown(schema["items"], item) for item in value]
    if kind == "map":
        return [(key, shown(schema["values"], item)) for key, item in value.items()]
    if kind == "record":
        return {field["name"]: shown(field["type"], value[field["name"]]) for field in schema["fields"]}
    return value


TESTS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "double": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
}


def _shown_union(schema: list[Schema], value: Any) -> Any:
    branches = [branch for branch in schema if branch != "null"]
    if value is None:
        return None
    if len(branches) == 1:
        return shown(branches[0], value)
    return {f"member{i}": value if TESTS[branch](value) else None for i, branch in enumerate(branches)}

"""Decodes Debezium's change events into flat rows: the columns of the table, and metadata columns (``__op``, ...).

A row has the values after the change; for a delete, the values before it. A delete without ``before`` has the columns
of the record's key. Records with and without a schema (``schemas.enable``) may alternate in a topic. With
``envelope=False`` values are rows that Debezium's transformation ExtractNewRecordState unwrapped.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions import REASON_MOST, Decoded
from kohort.columns.conversions.scalars import shown
from kohort.errors import ConfigError
from kohort.spark.options.changes import META_TYPES, ChangeOptions
from kohort.spark.values.avro_changes import avro_reader
from kohort.spark.values.connect_schema import Convert, Encodings, Node, fields_of
from kohort.spark.values.connect_types import check_column, converter

PLACEHOLDER: Final = "__debezium_unavailable_value"
"""Value of a column that the database did not send because the update did not change it (Postgres TOAST)."""
_UNCHANGED_UUID: Final = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
_BYTES: Final = PLACEHOLDER.encode()
_PLACEHOLDERS: Final = (
    PLACEHOLDER,
    _BYTES,
    b64encode(_BYTES).decode(),
    [PLACEHOLDER],
    [b64encode(_BYTES).decode()],
    list(_BYTES),
    {PLACEHOLDER: PLACEHOLDER},
    [_UNCHANGED_UUID],
)
"""Forms of the placeholder in columns of other types. An array of numbers has one item for each byte."""
_OPS: Final = ("c", "r", "u", "d", "t", "m")
_TOP: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY: Final = msgspec.json.Decoder(float_hook=Decimal)
"""JSON decoder that keeps all digits of numbers."""
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ChangeReader:
    """Reader of change events into the columns of ``schema``. Picklable, since it compiles its converters lazily."""

    def __init__(self, schema: pa.Schema, options: ChangeOptions) -> None:
        """Check the columns. Raises ConfigError for unknown metadata columns, unsupported types and Avro schemas."""
        self._schema = schema
        self._options = options
        for field in schema:
            if field.name.startswith("__") and field.name not in META_TYPES:
                raise ConfigError(
                    f"schema: change events have no column {field.name!r}: expected {', '.join(META_TYPES)}"
                )
            try:
                check_column(field.type)
            except TypeError as error:
                raise ConfigError(
                    f"schema: column {field.name!r}: value.format=debezium does not support {error}; declare the "
                    "column as string"
                ) from None
        payload_reader(options.avro, framed=options.framed)
        payload_reader(options.avro_key, framed=options.framed)

    def read_block(self, values: pa.Array, keys: pa.Array) -> Decoded:
        """Decode a block of records: their values and their keys (binary). A tombstone is a delete of its key."""
        events = _Events(self._schema, self._options)
        rows: list[list[Any]] = []
        problems: dict[int, str] = {}
        nothing: list[Any] = [None] * len(self._schema)
        for place, (value, key) in enumerate(zip(values.to_pylist(), keys.to_pylist(), strict=True)):
            try:
                rows.append(events.read(value, key))
            except _UNREADABLE as error:
                problems[place] = f"not JSON: {error}"[:REASON_MOST]
                rows.append(nothing)
            except ValueError as error:
                problems[place] = str(error)[:REASON_MOST]
                rows.append(nothing)
        return Decoded(
            [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self._schema)], problems
        )


class _Payload(NamedTuple):
    """Content of a record: its payload, and its schema (None for JSON without ``schemas.enable``)."""

    value: Any
    node: Node | None


def payload_reader(avro: str, *, framed: bool) -> Callable[[bytes], _Payload]:
    """Return the reader of records in JSON, or in Avro if ``avro`` has a schema. Raises ConfigError for the schema."""
    if not avro:
        return read_payload
    read = avro_reader(avro, framed=framed)
    return lambda value: _Payload(*read(value))


def read_payload(value: bytes) -> _Payload:
    """Read a record of Kafka Connect's JsonConverter. Raises ValueError or an error of msgspec."""
    try:
        top = _TOP.decode(value)
    except msgspec.ValidationError:
        raise ValueError("not a JSON object") from None
    if top.keys() != {"schema", "payload"}:
        return _Payload(_ANY.decode(value), None)
    return _Payload(_ANY.decode(top["payload"]), _node(bytes(top["schema"])))


def _object(payload: _Payload, problem: str) -> _Payload:
    if not isinstance(payload.value, Mapping):
        raise ValueError(problem)  # noqa: TRY004 - of the data
    return payload


@lru_cache(maxsize=32)
def _node(schema: bytes) -> Node | None:
    found = json.loads(schema)
    if found is not None and not isinstance(found, dict):
        raise ValueError("the schema of the record is not a JSON object")
    return found


class _Row:
    """Columns of a table's row, with the converters for one schema of its records."""

    def __init__(self, fields: list[pa.Field], node: Node | None, options: ChangeOptions) -> None:
        nodes = fields_of(node)
        self._columns: list[tuple[str, Convert]] = []
        for field in fields:
            given = Encodings(options.decimals, options.unit_of(field.name))
            self._columns.append((field.name, _convert_later(field.type, nodes.get(field.name), given)))

    def read(self, row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the value of each column, and the names of the unchanged columns, whose values are missing."""
        found: dict[str, Any] = {}
        unchanged = []
        for name, convert in self._columns:
            value = row.get(name)
            if isinstance(value, str | bytes | list | dict) and value in _PLACEHOLDERS:
                unchanged.append(name)
                value = None
            try:
                found[name] = convert(value)
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
        return found, unchanged


def _convert_later(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    """Return a converter. Without a converter for this schema, only values other than NULL are errors."""
    try:
        return converter(kind, node, given)
    except ValueError as error:
        reason = str(error)

    def refuse(value: Any) -> None:
        if value is not None:
            raise ValueError(reason)

    return refuse


class _Events:
    """Reader of one block of change events."""

    def __init__(self, schema: pa.Schema, options: ChangeOptions) -> None:
        self._names = schema.names
        self._columns = [field for field in schema if not field.name.startswith("__")]
        self._options = options
        self._rows: dict[int, tuple[Node | None, _Row]] = {}
        self._source = schema.field("__source").type if "__source" in schema.names else None
        self._payload = payload_reader(options.avro, framed=options.framed)
        self._key = payload_reader(options.avro_key, framed=options.framed)

    def read(self, value: bytes | None, key: bytes | None) -> list[Any]:
        """Return the value of each column of the schema. Raises ValueError."""
        if value is None:
            found = self._row_of_key(key) | {"__op": "d"}
        else:
            payload = _object(self._payload(value), "not a change event: the payload is not a JSON object")
            found = (self._event if self._options.envelope else self._unwrapped)(payload, key)
        return [found.get(name) for name in self._names]

    def _event(self, payload: _Payload, key: bytes | None) -> dict[str, Any]:
        event, nodes = payload.value, fields_of(payload.node)
        op = event.get("op")
        if op not in _OPS:
            raise ValueError(
                f"not a change event: expected op {', '.join(_OPS)}, found {shown(str(op))}. Rows without an "
                "envelope need envelope: false"
            )
        before = event.get("before")
        found: dict[str, Any] = {}
        unchanged: list[str] = []
        old = self._row(nodes.get("before")).read(before)[0] if isinstance(before, Mapping) else None
        if op in ("c", "r", "u"):
            if not isinstance(event.get("after"), Mapping):
                raise ValueError(f"a change event with op {op} needs after, found {shown(str(event.get('after')))}")
            found, unchanged = self._row(nodes.get("after")).read(event["after"])
            if old is not None and isinstance(before, Mapping):
                unchanged = self._fill(found, unchanged, before, old)
        elif op == "d":
            found = dict(old) if old is not None else self._row_of_key(key)
        source = event.get("source")
        return found | {
            "__op": op,
            "__before": old,
            "__unchanged": unchanged or None,
            "__ts": _time_of(event),
            **self._meta(source if isinstance(source, Mapping) else {}),
        }

    @staticmethod
    def _fill(found: dict[str, Any], unchanged: list[str], before: Mapping[str, Any], old: dict[str, Any]) -> list[str]:
        """Take unchanged columns from ``before``. Return the columns that ``before`` lacks too."""
        known = [name for name in unchanged if name in before and old[name] is not None]
        found.update({name: old[name] for name in known})
        return [name for name in unchanged if name not in known]

    def _unwrapped(self, payload: _Payload, key: bytes | None) -> dict[str, Any]:
        row = payload.value
        meta = {name[2:].removeprefix("source_"): value for name, value in row.items() if name.startswith("__")}
        is_delete = meta.get("op") == "d" or str(meta.get("deleted")).lower() == "true"
        found, unchanged = self._row(payload.node).read(row)
        if is_delete and all(value is None for value in found.values()):
            found = self._row_of_key(key)
        op = "d" if is_delete else meta.get("op")
        if op is not None and not isinstance(op, str):
            raise ValueError(f"the field __op is not text: {shown(str(op))}")
        return found | {"__op": op, "__unchanged": unchanged or None, "__ts": None, **self._meta(meta)}

    def _row(self, node: Node | None) -> _Row:
        known = self._rows.get(id(node))
        if known is None:
            # the entry keeps the schema alive, so that no other schema gets its id
            known = self._rows[id(node)] = node, _Row(self._columns, node, self._options)
        return known[1]

    def _row_of_key(self, key: bytes | None) -> dict[str, Any]:
        """Return the columns of a record's key. Raises ValueError for a key without any column of the row."""
        if key is None:
            raise ValueError("a delete without before and without a key")
        try:
            payload = self._key(key)
        except (*_UNREADABLE, ValueError) as error:
            raise ValueError(f"the key of a delete without before cannot be read: {error}") from None
        if not isinstance(payload.value, Mapping) or not {f.name for f in self._columns} & payload.value.keys():
            raise ValueError("a delete without before needs a key with columns of the row")
        return self._row(payload.node).read(payload.value)[0]

    def _meta(self, source: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"__position": position(source)}
        if self._source is not None:
            values = {**source, "ts": _time_of(source), "table": source.get("table", source.get("collection"))}
            fields = (self._source.field(i) for i in range(self._source.num_fields))
            found["__source"] = {f.name: _plain(f.type, values.get(f.name)) for f in fields}
        return found


def _plain(kind: pa.DataType, value: Any) -> Any:
    """Return a field of ``source``. Other types than the column's become NULL, except that text accepts any value."""
    if is_type.is_string(kind):
        return value if value is None or isinstance(value, str) else json.dumps(value, default=str)
    if is_type.is_timestamp(kind):
        return value
    most = 1 << (kind.bit_width - 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and -most <= value < most else None


def _time_of(event: Mapping[str, Any]) -> int | None:
    """Return the time of an event or its source, in microseconds since 1970. Years after 9999 give None."""
    for name, nanos in (("ts_us", 1000), ("ts_ns", 1), ("ts_ms", 1_000_000)):
        value = event.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            found = value * nanos // 1000
            return found if _FIRST_US <= found < _END_US else None
    return None


_FIRST_US, _END_US = -62_135_596_800_000_000, 253_402_300_800_000_000


def position(source: Mapping[str, Any]) -> str | None:
    """Return a text that orders the changes of one database by their place in its log; None for other databases.

    Postgres: lsn. MySQL and MariaDB: file, pos, row. SQL Server: commit_lsn, change_lsn, event_serial_no.
    """
    lsn, file, pos = source.get("lsn"), source.get("file"), source.get("pos")
    if isinstance(lsn, int):
        return f"{lsn:020d}"
    if isinstance(file, str) and isinstance(pos, int):
        name, _, number = file.rpartition(".")
        row = source.get("row")
        return f"{name}.{number.zfill(10)}/{pos:020d}/{row if isinstance(row, int) else 0:010d}"
    commit, change, serial = (source.get(name) for name in ("commit_lsn", "change_lsn", "event_serial_no"))
    if isinstance(commit, str):
        return f"{commit}/{change or ''}/{serial if isinstance(serial, int) else 0:010d}"
    return None


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Reader of keys in JSON of Kafka Connect, with or without a schema, into the columns of ``schema``."""

    schema: pa.Schema

    def read_block(self, keys: pa.Array) -> Decoded:
        rows: list[dict[str, Any]] = []
        problems: dict[int, str] = {}
        for place, key in enumerate(keys.to_pylist()):
            found: dict[str, Any] = {}
            try:
                if key is not None:
                    payload = _object(read_payload(key), "not a JSON object")
                    found = _Row(list(self.schema), payload.node, ChangeOptions()).read(payload.value)[0]
            except (*_UNREADABLE, ValueError) as error:
                problems[place] = str(error)[:REASON_MOST]
            rows.append(found)
        return Decoded([pa.array([row.get(f.name) for row in rows], f.type) for f in self.schema], problems)

"""Parses the section ``decode`` of a pipeline file: the formats of values and keys, and their columns."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from kohort.errors import ConfigError
from kohort.spark.options.changes import DECIMALS, KEY_TYPES, TIMES
from kohort.spark.options.table import separator
from kohort.spark.pipeline.definition import Decode, KeyDecode
from kohort.spark.pipeline.parse_sources import SchemaProblem, parse_schema
from kohort.spark.pipeline.sections import YamlSection
from kohort.spark.values.avro import compile_schema, field_names

_COLUMN: Final = re.compile(r"[A-Za-z_]\w*")
TOMBSTONES: Final = ("row", "drop", "bad")
FORMATS: Final = ("json", "csv", "avro", "debezium", "raw")
_OWN: Final = ("_source", "_problem", "_failed", "_error", "_redelivered", "_corrupt_record")
_UNSUPPORTED: Final = ("protobuf", "msgpack", "thrift", "xml")


def parse_decode(section: YamlSection | None, root: Path) -> Decode:
    if section is None:
        return Decode()
    line, schema_line, avro_line = (section.line_of(key) for key in ("format", "schema", "avro_schema"))
    kind = section.text_of("format")
    if kind in _UNSUPPORTED:
        raise section.error(
            f"format: {kind} is not supported; formats are {', '.join(FORMATS)}. Use format: raw and "
            "decode the values in a python: step",
            line,
        )
    kind = section.choice("format", FORMATS, "raw")
    is_change = kind == "debezium"
    envelope = section.take("envelope", bool, True) if is_change else True
    avro = section.take("avro_schema", str, "") if kind in ("avro", "debezium") else ""
    decode = Decode(
        kind,
        section.take("schema", str, ""),
        separator=_separator(section) if kind == "csv" else ",",
        avro_schema=_avro_text(avro, root, section, avro_line) if kind == "avro" or avro else "",
        framing=section.choice("framing", ("none", "confluent"), "none") if kind == "avro" or avro else "none",
        tombstones=section.choice("tombstones", TOMBSTONES, "drop" if is_change and envelope else "row")
        if kind != "raw"
        else "row",
        envelope=envelope,
        decimals=_optional(section, "decimals", DECIMALS) if is_change else "",
        times=_times(section) if is_change else (),
        key_schema=_key_schema(section, root) if is_change and avro else "",
        key=_key(section.section("key"), kind, root),
    )
    section.close()
    if kind != "raw" and not decode.schema:
        raise section.error(f"{section.name}: format {kind} needs a schema such as: id long, amount double")
    if kind == "raw" and decode.schema:
        raise section.error(f"{section.name}: format raw returns the columns of the record: remove the schema")
    _check_schema(decode, section, schema_line, avro_line)
    return decode


def _optional(section: YamlSection, key: str, allowed: Collection[str]) -> str:
    return section.choice(key, allowed, "") if key in section else ""


def _times(section: YamlSection) -> tuple[tuple[str, str], ...]:
    """Parse the units of times, as pairs of column and unit. The column "" stands for all columns."""
    if not section.holds_section("times"):
        unit = _optional(section, "times", TIMES)
        return (("", unit),) if unit else ()
    units = section.take("times", YamlSection)
    return tuple((column, _optional(units, column, TIMES)) for column in units.names())


def _key_schema(section: YamlSection, root: Path) -> str:
    line, text = section.line_of("key_schema"), section.take("key_schema", str, "")
    return _avro_text(text, root, section, line) if text else ""


def _key(section: YamlSection | None, values: str, root: Path) -> KeyDecode | None:
    if section is None:
        return None
    if values == "raw":
        raise section.error("key: format raw returns the key as bytes: set the format of the values, or remove key")
    kind = _optional(section, "format", KEY_TYPES)
    lines = {name: section.line_of(name) for name in ("schema", "column", "avro_schema")}
    key = KeyDecode(
        kind,
        section.take("schema", str, ""),
        section.take("column", str, "key"),
        _avro_text(section.take("avro_schema", str, ""), root, section, lines["avro_schema"]) if kind == "avro" else "",
    )
    section.close()
    if not kind:
        raise section.error(f"{section.name} needs a format: {', '.join(KEY_TYPES)}")
    if bool(key.schema) == bool(KEY_TYPES[kind]):
        what = f"gives one column of type {KEY_TYPES[kind]}: remove the schema" if key.schema else "needs a schema"
        raise section.error(f"{section.name}: format {kind} {what}", lines["schema"])
    if not _COLUMN.fullmatch(key.column) or key.column.lower() in _OWN:
        raise section.error(f"column: {key.column!r}: expected another name of letters, digits and _", lines["column"])
    if key.schema:
        _check_columns(key.schema, section, lines["schema"])
    if kind == "avro":
        _check_avro(key.avro_schema, parse_schema(key.schema), section, lines["schema"], lines["avro_schema"])
    return key


def _separator(section: YamlSection) -> str:
    line = section.line_of("separator")
    try:
        return separator("separator", section.take("separator", str, ","))
    except ConfigError as error:
        raise section.error(str(error), line) from None


def _avro_text(text: str, root: Path, section: YamlSection, line: int) -> str:
    if not text:
        raise section.error("format avro needs avro_schema: a file such as orders.avsc, or a schema as JSON")
    if text.lstrip()[:1] == "{":
        return text
    try:
        return (root / text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise section.error(f"avro_schema: {text}: cannot be read: {error}", line) from None


def _check_schema(decode: Decode, section: YamlSection, line: int, avro_line: int) -> None:
    if not decode.schema:
        return
    columns = _check_columns(decode.schema, section, line)
    own = {name.lower() for name in columns}
    if decode.key is not None and decode.key.column.lower() in own:
        raise section.error(
            f"schema: column {decode.key.column!r} is also the column of the decoded key: give the key another name, "
            "such as key: {column: record_key}",
            line,
        )
    if decode.format == "debezium":
        names = [*columns, *([decode.key.column] if decode.key is not None else [])]
        taken = next((name for name in names if name.startswith("__")), None)
        if taken:
            raise section.error(f"schema: column {taken!r} is reserved for change events", line)
        unknown = {column for column, _ in decode.times if column} - set(columns)
        if unknown:
            raise section.error(f"times: schema has no column {unknown.pop()!r}", section.line_of("times"))
    for schema, fields in ((decode.avro_schema, columns), (decode.key_schema, None)):
        if schema:
            of_rows = fields if decode.format == "avro" else None
            _check_avro(schema, of_rows, section, line, avro_line)


def _check_columns(schema: str, section: YamlSection, line: int) -> list[str]:
    try:
        columns = parse_schema(schema)
    except SchemaProblem as problem:
        raise section.error(f"schema: {problem}", line) from None
    for column in columns:
        if column.lower() in _OWN:
            raise section.error(f"schema: column {column!r} is reserved for the pipeline", line)
    return columns


def _check_avro(schema: str, columns: list[str] | None, section: YamlSection, line: int, avro_line: int) -> None:
    """Check an Avro schema. ``columns``: names that must be fields of the schema; None for change events."""
    try:
        compile_schema(schema)
        known = field_names(schema) if columns is not None else []
    except ConfigError as error:
        raise section.error(str(error).replace("value.avro.schema", "avro_schema"), avro_line) from None
    for column in columns or ():
        if column not in known:
            raise section.error(f"schema: avro_schema has no field {column!r}, only {', '.join(known)}", line)

"""Reads ``decode:`` of a pipeline file: how the value of a record becomes columns."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kohort.errors import ConfigError
from kohort.spark.options.text import separator
from kohort.spark.pipeline.definition import Decode
from kohort.spark.pipeline.document.schema_text import SchemaProblem, parse_schema
from kohort.spark.pipeline.document.sections import PipelineError, YamlSection
from kohort.spark.values.avro import compile_schema, field_names

TOMBSTONES: Final = ("row", "drop", "bad")
FORMATS: Final = ("json", "csv", "avro", "raw")
_OWN: Final = ("_source", "_problem", "_failed", "_error", "_redelivered", "_corrupt_record")
_ELSEWHERE: Final = ("protobuf", "msgpack", "thrift", "xml")


def parse_decode(section: YamlSection | None, root: Path) -> Decode:
    """Read the section ``decode``; raw where there is none. Raises PipelineError."""
    if section is None:
        return Decode()
    line, schema_line, avro_line = (section.line_of(key) for key in ("format", "schema", "avro_schema"))
    said = section.text_of("format")
    if said in _ELSEWHERE:
        there = f"not decoded here (there is {', '.join(FORMATS)})"
        raise PipelineError(
            section.file, line, f"format: {said}: {there}: read the value raw, and decode it in a python: step"
        )
    kind = section.choice("format", FORMATS, "raw")
    decode = Decode(
        kind,
        section.take("schema", str, ""),
        separator=_separator(section) if kind == "csv" else ",",
        avro_schema=_avro_text(section.take("avro_schema", str, ""), root, section, avro_line)
        if kind == "avro"
        else "",
        framing=section.choice("framing", ("none", "confluent"), "none") if kind == "avro" else "none",
        tombstones=section.choice("tombstones", TOMBSTONES, "row") if kind != "raw" else "row",
    )
    section.close()
    if kind != "raw" and not decode.schema:
        raise section.error(f"{section.name}: format {kind} needs a schema such as: id long, amount double")
    if kind == "raw" and decode.schema:
        raise section.error(f"{section.name}: format raw has the columns of the source; leave the schema out")
    _check_schema(decode, section.file, schema_line, avro_line)
    return decode


def _separator(section: YamlSection) -> str:
    line = section.line_of("separator")
    try:
        return separator("separator", section.take("separator", str, ","))
    except ConfigError as error:
        raise PipelineError(section.file, line, str(error)) from None


def _avro_text(said: str, root: Path, section: YamlSection, line: int) -> str:
    """Return the schema that values were written with: JSON, or a file that holds it."""
    if not said:
        raise section.error("format avro needs avro_schema: a file such as orders.avsc, or its JSON")
    if said.lstrip()[:1] == "{":
        return said
    try:
        return (root / said).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(section.file, line, f"avro_schema: {said}: cannot be read: {error}") from None


def _check_schema(decode: Decode, file: str, line: int, avro_line: int) -> None:
    if not decode.schema:
        return
    try:
        columns = parse_schema(decode.schema)
    except SchemaProblem as problem:
        raise PipelineError(file, line, f"schema: {problem}") from None
    for column in columns:
        if column.lower() in _OWN:
            raise PipelineError(file, line, f"schema: {column!r} is a column that the pipeline itself adds")
    if decode.format != "avro":
        return
    try:
        compile_schema(decode.avro_schema)
        known = field_names(decode.avro_schema)
    except ConfigError as error:
        raise PipelineError(file, avro_line, str(error).replace("value.avro.schema", "avro_schema")) from None
    for column in columns:
        if column not in known:
            raise PipelineError(
                file, line, f"schema: {column!r} is no field of avro_schema, which has {', '.join(known)}"
            )

"""Settings of change events, decoded keys and latest sinks in a pipeline file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.spark.options.source import SourceOptions, parse_source_options
from kohort.spark.pipeline.check_sql import check_sql, columns_of_source
from kohort.spark.pipeline.definition import Decode
from kohort.spark.pipeline.parse import load_pipeline, parse_pipeline
from kohort.spark.pipeline.sections import PipelineError
from kohort.spark.pipeline.sinks.latest import LatestSink

ROOT = Path(__file__).parents[4]
FILE = """\
name: items
source: {brokers: "a:1", topics: [items]}
decode: {format: debezium, schema: "id long, at timestamp_ntz"}
steps:
  - sql: select * from input where __op <> 'm'
    filters: true
sinks:
  - latest: {path: out, key: id}
"""
DECODE = FILE.splitlines()[2]
SINK = FILE.splitlines()[-1]
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'


def decode(settings: str) -> Decode:
    text = FILE.replace(DECODE, f"decode: {settings}")
    return parse_pipeline(text, Path("/pipelines/items.yaml"), {}).stream.decode


def options(settings: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "items", **decode(settings).options}
    return parse_source_options(given, streaming=True)


def problem(old: str, new: str) -> str:
    with pytest.raises(PipelineError) as error:
        check_sql(parse_pipeline(FILE.replace(old, new), Path("/pipelines/items.yaml"), {}))
    return re.sub(r"^\S+, ", "", str(error.value))


def test_change_events_have_flat_columns_metadata_and_the_key() -> None:
    pipeline = parse_pipeline(
        FILE.replace('ntz"}', 'ntz", key: {format: debezium, schema: id long}}'), Path("/pipelines/items.yaml"), {}
    )

    columns = columns_of_source(pipeline.stream)
    assert columns == (
        "id", "at", "__op", "__before", "__unchanged", "__ts", "__position", "__source", "key", "_source"
    )  # fmt: skip
    assert "__before struct<id long, at timestamp_ntz>" in pipeline.stream.decode.columns
    assert pipeline.stream.decode.columns.endswith("`key` struct<id long>")


def test_settings_of_change_events_become_options_of_the_source() -> None:
    found = options('{format: debezium, schema: "id long, at time", decimals: string, times: {at: milliseconds}}')
    assert (found.changes.envelope, found.changes.decimals, found.changes.unit_of("at")) == (
        True,
        "string",
        "milliseconds",
    )
    assert (found.changes.unit_of("id"), found.tombstones) == ("", "skip")
    found = options("{format: debezium, schema: id long, envelope: false, times: microseconds}")
    assert (found.changes.envelope, found.changes.unit_of("any"), found.tombstones) == (False, "microseconds", "row")
    settings = f"{{format: debezium, schema: id long, avro_schema: '{AVRO}', key_schema: '{AVRO}', framing: confluent}}"
    found = options(settings)
    assert (found.changes.avro, found.changes.avro_key, found.changes.framed) == (AVRO, AVRO, True)


def test_settings_of_keys_become_options_of_the_source() -> None:
    found = options("{format: json, schema: id long, key: {format: text, column: sku}}")
    assert (found.key_format, found.key_column) == ("text", "sku")
    found = options(f"{{format: json, schema: n long, key: {{format: avro, schema: id long, avro_schema: '{AVRO}'}}}}")
    assert (found.key_format, found.key_column, found.key_avro_schema) == ("avro", "key", AVRO)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("{format: debezium}", "line 3: decode: format debezium needs a schema such as: id long"),
        ('{format: debezium, schema: "id long, __op string"}', "column '__op' is reserved for change events"),
        ('{format: debezium, schema: "id long, __row string"}', "column '__row' is reserved for change events"),
        ("{format: debezium, schema: id long, key: {format: text, column: __op}}", "column '__op' is reserved"),
        ("{format: debezium, schema: id long, decimals: base64}", "decimals: 'base64': expected precise or string or"),
        ("{format: debezium, schema: id long, times: hours}", "times: 'hours': expected milliseconds or microseconds"),
        ("{format: debezium, schema: id long, times: {at: milliseconds}}", "times: schema has no column 'at'"),
        ("{format: debezium, schema: id long, avro_schema: '{}'}", "avro_schema: expected a type"),
        ("{format: json, schema: id long, decimals: string}", "unknown key 'decimals' in decode"),
        ("{key: {format: text}}", "key: format raw returns the key as bytes"),
        ("{format: json, schema: id long, key: {schema: id long}}", "decode.key needs a format: text, int, long, json"),
        ("{format: json, schema: id long, key: {format: json}}", "decode.key: format json needs a schema"),
        (
            "{format: json, schema: id long, key: {format: int, schema: id int}}",
            "decode.key: format int gives one column of type int: remove the schema",
        ),
        ("{format: json, schema: key long, key: {format: text}}", "column 'key' is also the column of the decoded key"),
        (
            "{format: json, schema: id long, key: {format: text, column: _source}}",
            "column: '_source': expected another",
        ),
        (
            f"{{format: json, schema: id long, key: {{format: avro, schema: k long, avro_schema: '{AVRO}'}}}}",
            "schema: avro_schema has no field 'k', only id",
        ),
    ],
)
def test_invalid_settings_of_change_events_and_keys_are_rejected(settings: str, expected: str) -> None:
    assert expected in problem(DECODE, f"decode: {settings}")


def test_settings_of_a_latest_sink_are_parsed() -> None:
    text = FILE.replace(
        SINK, "  - latest: {path: out, key: [id, at], order: __position, delete: __op = 'd', buckets: 2}"
    )
    pipeline = parse_pipeline(text, Path("/pipelines/items.yaml"), {})
    check_sql(pipeline)
    (sink,) = pipeline.sinks

    assert isinstance(sink, LatestSink)
    assert (sink.name, sink.folder, sink.key, sink.buckets) == ("latest", Path("/pipelines/out"), ("id", "at"), 2)
    assert sink.columns == (("key", "id"), ("key", "at"), ("order", "__position"))
    assert sink.conditions == (("delete", "__op = 'd'"),)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("key: id}", "key: sku}", "line 8: key: no column 'sku'"),
        ("key: id}", "key: []}", "line 8: key: []: expected columns of the row"),
        ("key: id}", "key: [id, ID]}", "line 8: key: id, ID: a column is named twice"),
        ("key: id}", "key: __op}", "line 8: key: __op: expected columns of the row"),
        ("key: id}", "key: id, order: lsn}", "line 8: order: no column 'lsn'"),
        ("key: id}", "key: id, delete: gone}", "line 8: delete: no column 'gone'"),
        ("key: id}", "key: id, buckets: 0}", "line 8: buckets: 0: expected 1 to 4096 files"),
        (SINK, f"{SINK}\n    counts: id", "counts: a latest sink stores no aggregates: remove counts"),
        (SINK, f"{SINK}\n  - parquet: {{path: out/a}}", "Parquet outputs /pipelines/out and /pipelines/out/a overlap"),
        (
            "topics: [items]}",
            "topics: [items], group: g, group_mode: member}\ntrigger: {every: 2 seconds}",
            "sink 'latest': group_mode: member does not support latest",
        ),
        (
            "  - sql: select * from input where __op <> 'm'\n    filters: true",
            "  - window: {time: at, size: 1 minute, agg: {n: count(*)}}",
            "sink 'latest' orders rows by their offsets, which rows of windows and joins of streams lack",
        ),
    ],
)
def test_invalid_latest_sinks_are_rejected(old: str, new: str, expected: str) -> None:
    assert expected in problem(old, new)


def test_example_and_guide_of_change_events_have_valid_pipelines() -> None:
    check_sql(load_pipeline(ROOT / "examples" / "change_events.yaml", {}))
    guide = (ROOT / "docs" / "guides" / "change-events.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    parts = {"source": 'source: {brokers: "a:1", topics: [items]}', "sinks": "sinks: [noop: ]", "name": "name: items"}
    parts["decode"] = 'decode: {format: debezium, schema: "country string, id long"}'

    for block in blocks:
        missing = [text for key, text in parts.items() if not re.search(f"^{key}:", block, re.MULTILINE)]
        check_sql(parse_pipeline("\n".join([*missing, block]), Path("/pipelines/items.yaml"), {}))
    assert len(blocks) == 4

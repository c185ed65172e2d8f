"""Parsing of a pipeline file. Each error names the line of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.spark.options.source import parse_source_options
from kohort.spark.pipeline.definition import (
    DeadLetters,
    Decode,
    Pipeline,
    PipelineTest,
    RowRule,
    Source,
    Step,
    Window,
)
from kohort.spark.pipeline.parse import load_pipeline, parse_pipeline
from kohort.spark.pipeline.sections import PipelineError
from kohort.spark.pipeline.sinks.console import NoopSink
from kohort.spark.pipeline.sinks.parquet import ParquetSink
from kohort.spark.pipeline.sinks.registry import KINDS
from kohort.spark.pipeline.sinks.topic import TopicSink
from kohort.spark.pipeline.sources import lookup_options, stream_options

WHOLE = """\
version: 1
name: orders
source: {brokers: "${BROKERS:-localhost:9092}", topics: [orders], group: orders, start: group, limit: {rows: 500}}
decode: {format: json, schema: "id long, amount double"}
steps:
  - sql: select * from input where amount > 0
    filters: true
expect:
  - {not_null: id, reason: no id}
  - {check: amount < 1e6, else: drop, name: sane}
sinks:
  - parquet: {path: out/orders, partition_by: [country]}
    name: table
  - topic: {topic: good, key: id}
  - noop:
dlq: {topic: orders-dlq, partitions: 3}
trigger: {every: 2 seconds}
checkpoint: state
"""


def read(text: str, **environ: str) -> Pipeline:
    return parse_pipeline(text, Path("/pipelines/orders.yaml"), environ)


def refused(text: str, **environ: str) -> str:
    with pytest.raises(PipelineError) as error:
        read(text, **environ)
    return str(error.value).removeprefix("/pipelines/orders.yaml, ")


def changed(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new)


def test_complete_pipeline_file_is_parsed() -> None:
    pipeline = read(WHOLE)

    assert pipeline.sources == (
        Source(
            "input",
            "localhost:9092",
            ("orders",),
            group="orders",
            start="group",
            decode=Decode("json", "id long, amount double"),
            max_rows=500,
        ),
    )
    assert pipeline.steps == (Step("sql", "select * from input where amount > 0", filters=True, line=6),)
    assert pipeline.rules == (
        RowRule("not_null: id", "`id` is not null", "quarantine", "no id", line=9),
        RowRule("sane", "amount < 1e6", "drop", "not amount < 1e6", line=10),
    )
    assert pipeline.sinks == (
        ParquetSink(name="table", path=Path("/pipelines/out/orders"), partition_by=("country",)),
        TopicSink(name="topic", brokers="localhost:9092", topic="good", key="id"),
        NoopSink(name="noop"),
    )
    assert pipeline.dead_letters == DeadLetters("localhost:9092", "orders-dlq", 3)
    assert (pipeline.every, pipeline.state) == ("2 seconds", Path("/pipelines/state/orders"))


def test_pipeline_file_with_a_missing_environment_variable_is_rejected() -> None:
    assert read(WHOLE, BROKERS="kafka:9092").stream.brokers == "kafka:9092"
    problem = "line 3: ${BROKERS}: the environment variable is not set, and has no default"
    assert refused(changed(":-localhost:9092", "")) == problem


def test_pipeline_file_accepts_numbers_in_environment_variables() -> None:
    text = changed("noop:", "console:\n      rows: ${ROWS}")

    sink: Any = read(text, ROWS="7").sinks[-1]
    assert sink.rows == 7


def test_pipeline_with_one_stream_and_several_tables_is_accepted() -> None:
    several = """\
name: joined
brokers: localhost:9092
sources:
  flights: {topics: [flights]}
  weather: {topics: [weather], read: table}
sinks: [{noop: }]
"""
    pipeline = read(several)

    assert (pipeline.stream.name, [t.name for t in pipeline.tables]) == ("flights", ["weather"])
    assert "no source is a stream" in refused(several.replace("[flights]", "[flights], read: table"))
    assert "'flights' is joined with another stream: add watermark: {column: ..." in refused(
        several.replace(", read: table", "")
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sinks:", "sink:", "line 11: unknown key 'sink' in the file; did you mean sinks?"),
        ("group: orders,", "grup: orders,", "line 3: unknown key 'grup' in source; did you mean group?"),
        ("else: drop", "else: ignore", "line 10: else: 'ignore': expected quarantine or drop or fail"),
        ("not_null: id,", "notnull: id,", "line 9: unknown key 'notnull' in expect[0]; did you mean not_null?"),
        (
            "  - noop:",
            "  - delta: {path: x}",
            f"line 15: unknown key 'delta' in sinks[2]; keys are {', '.join(KINDS)}",
        ),
        (
            "partition_by: [country]}",
            "counts: n}",
            "line 12: unknown key 'counts' in sinks[0].parquet; move it out of this section, to the level of the "
            "key parquet",
        ),
        ("version: 1", "version: 9", "line 1: version 9 of the pipeline file is not supported: expected version: 1"),
        (
            "name: orders",
            "name: a/b",
            "line 2: name: 'a/b': expected letters, digits, - and _, beginning with a letter or _",
        ),
        (
            "format: json",
            "format: jsn",
            "line 4: format: 'jsn': expected json or csv or avro or debezium or raw; did you mean json?",
        ),
        (
            ', schema: "id long, amount double"',
            "",
            "line 4: decode: format json needs a schema such as: id long, amount double",
        ),
        ("filters: true", "filters: maybe", "line 7: filters: expected true or false"),
        ("rows: 500", "rows: many", "line 3: rows: expected a whole number"),
        (
            "localhost:9092",
            "localhost",
            "line 3: brokers: 'localhost': expected HOST:PORT, or several separated by commas",
        ),
        ("every: 2 seconds", "every: soon", "line 17: trigger: every: 'soon': expected a duration such as 2 seconds"),
        (
            "dlq: {topic: orders-dlq, partitions: 3}\n",
            "",
            "line 9: rule 'not_null: id': 'else: quarantine' needs a dead-letter topic: add dlq: {topic: ...}",
        ),
        ("- noop:", "- noop:\n    name: topic", "line 1: two sinks have the name 'topic': give each its own name"),
        ("start: group", "start: begin", "line 3: start: 'begin': expected earliest, latest or group"),
        ("checkpoint: state", "checkpoint: state\nname: again", "line 19: 'name' appears twice in the file"),
        ("sql: select", "sql: [select", "line 7: the pipeline file is not YAML: expected ',' or ']', but got ':'"),
        ("start: group", "start: 2024-13-45", "line 3: start: '2024-13-45': expected earliest, latest or group"),
        ("rows: 500", "rows: 0x_", "line 3: rows: expected a whole number"),
        (
            "name: orders",
            "name: &a [*a]",
            "line 1: the pipeline file is nested too deeply, or has an alias that contains itself",
        ),
    ],
)
def test_error_of_an_invalid_pipeline_setting_has_its_line_number(old: str, new: str, message: str) -> None:
    assert refused(changed(old, new)) == message


def test_quarantine_rule_is_rejected_if_a_sink_has_the_counts_setting() -> None:
    counted = changed("    name: table\n", "    name: table\n    counts: n\n")

    assert "a sink with the key 'counts' stores aggregates, but rules drop and quarantine only single rows" in refused(
        counted
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[country]", "[country], compact_every: 1", "line 12: compact_every: 1: expected 0, "
         "or at least 2 micro-batches"),
        ("    name: table\n", "    name: table\n    counts: country\n", "line 12: counts: column country is also "
         "in partition_by, so the files do not contain it"),
        ("  - noop:", "  - parquet: {path: out/orders/new}\n", "line 1: Parquet outputs "
         "/pipelines/out/orders and /pipelines/out/orders/new overlap: give each sink and summary its own folder"),
    ],
)  # fmt: skip
def test_invalid_parquet_sinks_are_rejected(old: str, new: str, message: str) -> None:
    assert refused(changed(old, new)) == message


AVRO = '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}'


def test_csv_and_avro_settings_of_a_pipeline_are_parsed_and_checked(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(AVRO)
    file, json_is = tmp_path / "orders.yaml", 'decode: {format: json, schema: "id long, amount double"}'

    def decode(settings: str) -> Decode:
        file.write_text(changed(json_is, f"decode: {settings}"))
        return load_pipeline(file, {}).stream.decode

    found = decode('{format: csv, schema: "id long", separator: ";"}')
    assert found.options == {"value.format": "csv", "value.separator": ";", "value.tombstones": "row"}
    found = decode(r"{format: csv, schema: id long, separator: '\t', tombstones: drop}")
    assert (found.separator, found.tombstones) == ("\t", "drop")
    found = decode('{format: avro, schema: "id long", avro_schema: order.avsc, framing: confluent}')
    assert found.options["value.avro.schema"] == AVRO
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", **found.options}
    assert parse_source_options(options, streaming=True).avro_framing == "confluent"
    assert decode(f"{{format: avro, schema: id long, avro_schema: '{AVRO}'}}").avro_schema == AVRO
    for decode_settings, problem in (
        ("{format: csv, schema: id long, separator: ab}", "separator='ab': expected one character"),
        ("{format: csv}", "format csv needs a schema"),
        (
            "{format: avro, schema: id long}",
            "format avro needs avro_schema: a file such as orders.avsc, or a schema as JSON",
        ),
        ("{format: avro, schema: id long, avro_schema: none.avsc}", "none.avsc: cannot be read"),
        ("{format: avro, schema: idd long, avro_schema: order.avsc}", "avro_schema has no field 'idd', only id"),
        ("{format: avro, schema: id long, avro_schema: '{}'}", "line 4: avro_schema: expected a type, found"),
        ("{format: json, schema: id long, separator: ;}", "unknown key 'separator' in decode; keys are format, schema"),
        (
            "{format: protobuf}",
            "format: protobuf is not supported; formats are json, csv, avro, debezium, raw. Use format: raw",
        ),
    ):
        with pytest.raises(PipelineError, match=problem):
            decode(decode_settings)


def test_python_step_with_missing_function_is_rejected_without_import_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("raise SystemExit('run')\ndef enrich(rows):\n    return rows\n")
    file = tmp_path / "orders.yaml"
    text = changed("sql: select * from input where amount > 0", "python: steps.py:enrich")

    file.write_text(text)
    assert load_pipeline(file, {}).steps[0] == Step("python", "steps.py:enrich", filters=True, line=6)
    file.write_text(text.replace(":enrich", ":enrihc"))
    with pytest.raises(PipelineError, match=r"line 6: python: steps.py has no function 'enrihc', only enrich"):
        load_pipeline(file, {})


WINDOWS = """\
name: sales
brokers: localhost:9092
sources:
  orders:
    topics: [orders]
    limit: {bytes: 64MiB}
    decode: {format: json, schema: "id long, at timestamp"}
    watermark: {column: at, delay: 10 minutes}
  payments: {topics: [payments], watermark: {column: timestamp, delay: 1 hour}}
steps:
  - sql: select o.* from orders o join payments p on o.id = p.id
  - window: {time: at, size: 1 minute, watermark: 10 minutes, by: [id], agg: {n: count(*)}}
mode: update
sinks: [{topic: {topic: out}, counts: n}]
"""


def test_join_of_streams_with_windows_is_parsed() -> None:
    pipeline = read(WINDOWS)

    assert pipeline.stateful
    assert [(s.name, s.watermark) for s in pipeline.streams] == [
        ("orders", ("at", "10 minutes")),
        ("payments", ("timestamp", "1 hour")),
    ]
    assert pipeline.stream.max_bytes == "64MiB"
    assert pipeline.steps[1].window == Window("at", "1 minute", "10 minutes", "", ("id",), (("n", "count(*)"),))
    assert not read(WHOLE).stateful


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("delay: 10 minutes", "delay: soon", "line 8: delay: 'soon': expected a duration such as 10 minutes"),
        ("size: 1 minute,", "", "line 12: steps[1].window needs 'size'"),
        (", agg: {n: count(*)}", "", "line 12: steps[1].window needs agg, such as agg: {n: count(*)}"),
        ("bytes: 64MiB", "bytes: much", "line 6: bytes='much': expected a size such as 64m, 1g or 1048576"),
        ("{topic: {topic: out}, counts: n}", "parquet: {path: out}", "line 1: mode: update would replace the "
         "row of a window, but Parquet sinks only add rows: use mode: append"),
        ("watermark: 10 minutes, by", "watermark: 1 hour, by", "line 12: watermark: 1 hour on column at: Spark allows "
         "only one watermark, and the source already has one (orders has at with 10 minutes, payments has timestamp "
         "with 1 hour). Remove one of them"),
        ("time: at,", "time: paid,", "line 12: watermark: 10 minutes on column paid: Spark allows only one "
         "watermark, and the source already has one (orders has at with 10 minutes, payments has timestamp with "
         "1 hour). Remove one of them"),
        ("mode: update", "  - window: {time: window_start, size: 1 hour, watermark: 1 hour, agg: {n: count(*)}}\n"
         "mode: update", "line 13: watermark: remove this key: a window on the rows of another window uses "
         "the watermark of that window"),
        ("mode: update", "mode: complete", "line 13: mode: 'complete': expected append or update"),
    ],
)  # fmt: skip
def test_invalid_windows_and_joins_are_rejected(old: str, new: str, message: str) -> None:
    assert old in WINDOWS
    assert refused(WINDOWS.replace(old, new)) == message


MEMBER = """\
name: orders
brokers: localhost:9092
source:
  topics: [orders]
  group: g
  group_mode: member
  kafka:
    session.timeout.ms: 12000
    group.instance.id: "${HOSTNAME}"
sinks: [{noop: }]
trigger: {every: 2 seconds}
"""


@pytest.mark.parametrize("settings", ["watermark: 600 seconds, by", "by"])
def test_window_with_the_watermark_of_its_source_or_without_watermark_is_accepted(settings: str) -> None:
    assert read(WINDOWS.replace("watermark: 10 minutes, by", settings)).stateful


def test_source_in_member_mode_gets_the_options_of_a_group_member() -> None:
    source = read(MEMBER, HOSTNAME="left").stream

    assert source.member
    assert stream_options(source) == {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "orders",
        "failOnDataLoss": "true",
        "kafka.session.timeout.ms": "12000",
        "kafka.group.instance.id": "left",
        "group.id": "g",
        "group.mode": "member",
        "groupFallback": "earliest",
        "includeHeaders": "true",
    }
    assert parse_source_options(stream_options(source), streaming=True).stream_start == "group"
    assert lookup_options(source).client == {"session.timeout.ms": "12000", "group.instance.id": "left"}
    quick = MEMBER.replace("12000", "2000\n    heartbeat.interval.ms: 500")
    assert read(quick, HOSTNAME="left").stream.kafka[:2] == (
        ("session.timeout.ms", "2000"),
        ("heartbeat.interval.ms", "500"),
    )
    from_the_group = read(MEMBER.replace("group: g", "group: g\n  start: group"), HOSTNAME="left").stream
    assert "groupFallback" not in stream_options(from_the_group)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mode: member", "mode: membr", "line 6: group_mode: 'membr': expected standalone or member; did you mean "
         "member?"),
        ("  group: g\n", "", "line 5: group_mode: member needs a group"),
        ("group: g", "group: g\n  read: table", "line 7: a table is read whole: group_mode must be standalone"),
        ("trigger: {every: 2 seconds}", "", "line 6: group_mode: member needs a continuous run. In an "
         "available-now run, a rebalance would change the end offsets. Use trigger: {every: 2 seconds} "
         "and --continuous, or remove group_mode"),
        ("group: g", "group: g\n  watermark: {column: timestamp, delay: 1 minute}", "line 7: group_mode: member does "
         "not support windows and joins of streams: their state cannot move with a partition to another member"),
        ("session.timeout.ms", "sesion.timeout.ms", "line 8: unknown option 'kafka.sesion.timeout.ms'; did you mean "
         "kafka.session.timeout.ms?"),
        ("12000", "soon", "line 8: session.timeout.ms='soon': expected an integer from 0 to 2147483647"),
        ("12000", "1000", "line 8: heartbeat.interval.ms=3000 must be below session.timeout.ms=1000"),
        ("12000", "12000\n    heartbeat.interval.ms: 12000", "line 9: heartbeat.interval.ms=12000 must be below "
         "session.timeout.ms=12000"),
        ("12000", "[1]", "line 8: kafka: session.timeout.ms: expected text, a number, true or false"),
        ("session.timeout.ms: 12000", "group.id: x", "line 8: kafka: group.id: remove this option, and set group "
         "in the section that has kafka"),
        ("session.timeout.ms: 12000", "enable.auto.commit: true", "line 8: option 'kafka.enable.auto.commit' is "
         "not supported: the query commits each completed micro-batch; see commitOffsets"),
    ],
)  # fmt: skip
def test_error_of_an_invalid_member_setting_has_its_line_number(old: str, new: str, message: str) -> None:
    assert old in MEMBER
    assert refused(MEMBER.replace(old, new), HOSTNAME="left") == message


def test_tests_section_of_a_pipeline_file_is_parsed() -> None:
    text = (
        WHOLE
        + """\
tests:
  - given: [{value: {id: 1}, key: a}, {raw: x}, {value: null}]
    expect: {rows: [{id: 1}], dlq: [{stage: decode}], dropped: 1}
"""
    )
    (test,) = read(text).tests

    assert test == PipelineTest(
        "tests[0]",
        {"input": ({"value": {"id": 1}, "key": "a"}, {"raw": "x"}, {"value": None})},
        rows=({"id": 1},),
        dead_letters=({"stage": "decode"},),
        dropped=1,
        line=20,
    )
    assert refused(text.replace("raw: x", "rwa: x")).startswith(
        "line 20: given: expected a record such as {value: {id: 1}} or {raw"
    )
    assert refused(text.replace("raw: x", "raw: no")) == (
        "line 20: given: expected text for raw, but YAML reads False: put it in quotes"
    )
    assert refused(text.replace("[{value: {id: 1}, key: a}, {raw: x}, {value: null}]", "{input: 7}")) == (
        "line 20: given: expected a list of records for the source 'input'"
    )
    assert refused(text.replace("given: [", "given: {other: [").replace("null}]", "null}]}")) == (
        "line 20: given: source 'other' does not exist; sources are input"
    )


def test_pipeline_secret_is_read_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "brokers"
    secret.write_text("hidden:9092\n")
    text = changed("${BROKERS:-localhost:9092}", f"${{file:{secret}}}")

    assert read(text).stream.brokers == "hidden:9092"
    assert "cannot read the file" in refused(text.replace("brokers}", "brokers-not-there}"))


def test_function_of_an_installed_module_is_accepted_as_pipeline_step() -> None:
    shipped = Path(__file__).parents[4] / "examples" / "consumer_offsets.yaml"

    assert load_pipeline(shipped, {}).steps[0].text == "kohort.spark.group_tables:group_records"
    with pytest.raises(PipelineError, match=r"no module 'kohort\.nothing'"):
        read(changed("sql: select * from input where amount > 0", "python: kohort.nothing:f"))


def test_pipeline_file_is_parsed_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = changed("rows: 500", "rows: 0x1F4")
    found = parse_pipeline(odd, Path("/pipelines/orders.yaml"), {})

    monkeypatch.setattr("yaml.__with_libyaml__", False)

    assert parse_pipeline(odd, Path("/pipelines/orders.yaml"), {}) == found
    assert found.stream.max_rows == 500


def test_empty_pipeline_file_and_top_level_yaml_list_are_rejected() -> None:
    assert refused("") == "line 1: the pipeline file is empty"
    assert refused("- a\n- b") == "line 1: expected keys and values at the top of the pipeline file"


def test_example_pipeline_of_the_package_is_valid() -> None:
    from kohort.demo import flight_delays_file

    pipeline = load_pipeline(flight_delays_file(), {})

    assert [s.name for s in pipeline.sources] == ["flights", "weather"]

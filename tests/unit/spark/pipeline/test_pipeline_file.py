"""A pipeline file: what it means, and what is said, with the line, where it cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.spark.pipeline.definition import DeadLetters, Decode, Pipeline, Rule, Sink, Source, Step
from kohort.spark.pipeline.document import PipelineError
from kohort.spark.pipeline.parse import load_pipeline, parse_pipeline

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


def test_a_whole_file_means_what_it_says() -> None:
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
        Rule("not_null: id", "`id` is not null", "quarantine", "no id", line=9),
        Rule("sane", "amount < 1e6", "drop", "not amount < 1e6", line=10),
    )
    assert pipeline.sinks == (
        Sink("parquet", "table", path=Path("/pipelines/out/orders"), partition_by=("country",)),
        Sink("topic", "topic", brokers="localhost:9092", topic="good", key="id"),
        Sink("noop", "noop"),
    )
    assert pipeline.dead_letters == DeadLetters("localhost:9092", "orders-dlq", 3)
    assert (pipeline.every, pipeline.state) == ("2 seconds", Path("/pipelines/state/orders"))


def test_the_environment_fills_in_addresses_and_a_missing_one_is_an_error() -> None:
    assert read(WHOLE, BROKERS="kafka:9092").stream.brokers == "kafka:9092"
    assert refused(changed(":-localhost:9092", "")) == "line 3: ${BROKERS}: not set in the environment, and no default"


def test_numbers_may_come_from_the_environment_too() -> None:
    text = changed("noop:", "console:\n      rows: ${ROWS}")

    assert read(text, ROWS="7").sinks[-1].rows == 7


def test_one_source_is_a_stream_and_the_others_are_tables() -> None:
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
    assert "exactly one source is a stream" in refused(several.replace(", read: table", ""))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sinks:", "sink:", "line 11: unknown key 'sink' in the file; did you mean sinks?"),
        ("group: orders,", "grup: orders,", "line 3: unknown key 'grup' in source; did you mean group?"),
        ("else: drop", "else: ignore", "line 10: else: 'ignore': expected quarantine or drop or fail"),
        ("not_null: id,", "notnull: id,", "line 9: unknown key 'notnull' in expect[0]; did you mean not_null?"),
        ("version: 1", "version: 9", "line 1: version 9: this kohort reads version 1"),
        ("name: orders", "name: a/b", "line 2: name: 'a/b': letters, digits, - and _"),
        ("format: json", "format: jsn", "line 4: format: 'jsn': expected json or raw; did you mean json?"),
        (
            ', schema: "id long, amount double"',
            "",
            "line 4: decode: format json needs a schema such as: id long, amount double",
        ),
        ("filters: true", "filters: maybe", "line 7: filters: expected true or false"),
        ("rows: 500", "rows: many", "line 3: rows: expected a whole number"),
        ("localhost:9092", "localhost", "line 3: brokers: 'localhost': expected HOST:PORT, or several with commas"),
        ("every: 2 seconds", "every: soon", "line 17: trigger: every: 'soon': expected a time such as 2 seconds"),
        ("dlq: {topic: orders-dlq, partitions: 3}\n", "", "line 9: not_null: id: quarantine needs a dlq"),
        ("- noop:", "- noop:\n    name: topic", "line 1: two sinks are called 'topic': give each a name"),
        ("start: group", "start: begin", "line 3: start: 'begin': expected earliest, latest or group"),
        ("checkpoint: state", "checkpoint: state\nname: again", "line 19: 'name' is given twice in the file"),
        ("sql: select", "sql: [select", "line 7: not YAML: expected ',' or ']', but got ':'"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_line(old: str, new: str, said: str) -> None:
    assert refused(changed(old, new)) == said


def test_a_sink_of_aggregated_rows_cannot_set_rows_aside() -> None:
    counted = changed("    name: table\n", "    name: table\n    counts: n\n")

    assert "a sink with counts takes aggregated rows, which cannot be set aside" in refused(counted)


def test_a_python_step_must_be_there_and_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("raise SystemExit('run')\ndef enrich(rows):\n    return rows\n")
    file = tmp_path / "orders.yaml"
    text = changed("sql: select * from input where amount > 0", "python: steps.py:enrich")

    file.write_text(text)
    assert load_pipeline(file, {}).steps[0] == Step("python", "steps.py:enrich", filters=True, line=6)
    file.write_text(text.replace(":enrich", ":enrihc"))
    with pytest.raises(PipelineError, match=r"line 6: python: steps.py has no function 'enrihc'; it has enrich"):
        load_pipeline(file, {})


def test_an_empty_file_and_a_list_are_no_pipelines() -> None:
    assert refused("") == "line 1: the file is empty"
    assert refused("- a\n- b") == "line 1: expected keys and values at the top"


def test_the_shipped_pipeline_is_valid() -> None:
    from kohort.demo import flight_delays_file

    pipeline = load_pipeline(flight_delays_file(), {})

    assert [s.name for s in pipeline.sources] == ["flights", "weather"]

"""PipelineBuilder defines the same pipelines as pipeline files. Its errors name a line of the Python file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.spark.pipeline.builder import PipelineBuilder
from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.sections import PipelineError

FILE = """\
name: orders
brokers: localhost:9092
sources:
  orders:
    topics: [orders]
    group: g
    limit: {rows: 5}
    decode: {format: json, schema: id long}
  rates: {topics: [rates], read: table}
steps:
  - sql: select * from orders
expect:
  - {not_null: id, else: drop}
sinks:
  - parquet: {path: out, partition_by: [id]}
  - topic: {topic: good, key: id}
dlq: {topic: dead}
trigger: {every: 2 seconds}
"""


def same_lines(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "sources": pipeline.sources,
        "steps": [(s.kind, s.text, s.filters) for s in pipeline.steps],
        "rules": [(r.name, r.condition, r.otherwise, r.reason) for r in pipeline.rules],
        "sinks": pipeline.sinks,
        "dlq": pipeline.dead_letters,
        "every": pipeline.every,
        "state": pipeline.state,
    }


def test_pipeline_builder_and_file_define_the_same_pipeline(tmp_path: Path) -> None:
    built = (
        PipelineBuilder("orders", brokers="localhost:9092", folder=tmp_path)
        .read("orders", topics=["orders"], group="g", json="id long", rows=5)
        .table("rates", topics=["rates"])
        .sql("select * from orders")
        .expect(not_null="id", otherwise="drop")
        .to_parquet("out", partition_by=["id"])
        .to_topic("good", key="id")
        .dead_letters("dead")
        .every("2 seconds")
        .build()
    )

    assert same_lines(built) == same_lines(parse_pipeline(FILE, tmp_path / "orders.yaml", {}))


def test_pipeline_builder_accepts_the_settings_of_member_mode(tmp_path: Path) -> None:
    built = (
        PipelineBuilder("orders", brokers="localhost:9092", folder=tmp_path)
        .read(
            "orders",
            topics=["orders"],
            group="g",
            json="id long",
            rows=5,
            group_mode="member",
            kafka={"session.timeout.ms": 12_000},
        )
        .table("rates", topics=["rates"])
        .to_noop()
        .every("2 seconds")
        .build()
    )
    text = FILE.replace("group: g", "group: g\n    group_mode: member\n    kafka: {session.timeout.ms: 12000}")

    assert built.sources == parse_pipeline(text, tmp_path / "orders.yaml", {}).sources
    assert (built.stream.member, built.stream.kafka) == (True, (("session.timeout.ms", "12000"),))


def test_pipeline_builder_accepts_a_function_as_step_and_errors_have_the_line_of_the_call() -> None:
    def enrich(rows: Any) -> Any:
        return rows

    builder = PipelineBuilder("orders", brokers="localhost:9092").read("orders", topics=["orders"]).step(enrich)
    assert builder.to_noop().build().steps[0].function is enrich

    builder = builder.window("at", "1 minute", agg={"n": "count(*)"}, watermak="1 minute")
    with pytest.raises(PipelineError, match=rf"{Path(__file__).name}, line \d+: unknown key 'watermak'.*watermark"):
        builder.build()

"""Runs a pipeline without a broker: the tests in its file, and the dry run of its steps over no rows at all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any

from kohort.spark.pipeline.definition import Pipeline, PipelineTest
from kohort.spark.pipeline.frames import FAILED, PROBLEM, SOURCE, failed_rules, judge
from kohort.spark.pipeline.outputs.sinks import quarantines
from kohort.spark.pipeline.steps import run_steps
from kohort.spark.pipeline.testing.given_rows import decoded_views, good_rows
from kohort.spark.pipeline.testing.outcome import TestOutcome, compare_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def run_test(pipeline: Pipeline, test: PipelineTest, spark: SparkSession) -> TestOutcome:
    """Run one test: records go through decoding, steps and rules, as one batch; nothing is written anywhere."""
    outcome = TestOutcome(test.name, test.line)
    frames = decoded_views(spark, pipeline, test.given)
    letters: list[Mapping[str, Any]] = []
    for source in pipeline.sources:
        bad = frames[source.name].where(f"{PROBLEM} is not null")
        letters += [_letter("decode", row[PROBLEM], row) for row in bad.select(PROBLEM, SOURCE).collect()]
    judged = judge(run_steps(pipeline, good_rows(frames[pipeline.stream.name])), pipeline.rules)
    passed, dropped = [], 0
    for row in judged.collect():
        verdict = row[FAILED]
        if verdict is None:
            passed.append({k: _value(v) for k, v in row.asDict().items() if k not in (FAILED, SOURCE)})
            continue
        failed = failed_rules(verdict, pipeline.rules)
        fatal = next((rule for rule in failed if rule.otherwise == "fail"), None)
        if fatal is not None:
            outcome.problems.append(f"a row fails {fatal.name!r}, which ends the run: {fatal.reason}")
        elif quarantines(verdict, pipeline.rules):
            letters.append(_letter("expect", "; ".join(rule.reason for rule in failed), row))
        else:
            dropped += 1
    if test.rows is not None:
        outcome.problems += compare_rows("rows", test.rows, passed)
    outcome.problems += compare_rows("dlq", test.dead_letters, letters)
    if dropped != test.dropped:
        outcome.problems.append(f"dropped: {dropped} rows, expected {test.dropped}")
    return outcome


def analysed(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """Return the frame that the sinks would get, over no rows. Raises StepFailed where Spark refuses a step."""
    frames = decoded_views(spark, pipeline, {})
    judged = judge(run_steps(pipeline, good_rows(frames[pipeline.stream.name])), pipeline.rules)
    return judged.drop(FAILED, SOURCE)


def _letter(stage: str, reason: str, row: Row) -> Mapping[str, Any]:
    source = row.asDict().get(SOURCE)
    where = {n: _value(source[n]) for n in ("topic", "partition", "offset", "key", "value")} if source else {}
    return {"stage": stage, "reason": reason, **where}


def _value(value: Any) -> Any:
    """Return a value of Spark's as the file would say it. Spark hands times over in the zone of this machine."""
    from datetime import datetime

    from pyspark.sql import Row

    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, Row):
        return {k: _value(v) for k, v in value.asDict().items()}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value

"""Runs the steps over a frame, of one micro-batch or of whole streams: SQL over views, Python functions, windows."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.errors import KohortError
from kohort.spark.pipeline.definition import Pipeline, Step, Window
from kohort.spark.pipeline.frames import FAILED, PROBLEM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_WATERMARK: Final = "spark.watermarkDelayMs"
"""Spark's mark on a column that has a watermark."""


class StepFailed(KohortError):
    """A step that Spark or its own code refused."""


def run_steps(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """Run all steps and return their rows. Sources are views by their names; each step's result is ``input`` to the
    next.

    ``rows``: those of the first stream. Views of the other sources were made before the query began: a micro-batch
    lives in a copy of the session, made at that time.
    """
    from pyspark.errors import AnalysisException

    rows.createOrReplaceTempView(pipeline.stream.name)
    current = rows
    for step in pipeline.steps:
        current.createOrReplaceTempView("input")
        try:
            current = run_step(pipeline, step, current)
        except AnalysisException as error:
            raise StepFailed(f"{pipeline.file}, line {step.line}: {error}") from error
        reserved = {PROBLEM, FAILED} & set(current.columns)
        if reserved:
            raise StepFailed(f"{pipeline.file}, line {step.line}: the column {reserved.pop()} is the pipeline's own")
    return current


def run_step(pipeline: Pipeline, step: Step, rows: DataFrame) -> DataFrame:
    """Run one step over ``rows``, which are the view ``input``."""
    if step.kind == "sql":
        return rows.sparkSession.sql(step.text)
    if step.window is not None:
        return aggregate(rows, pipeline, step, step.window)
    function = step.function or load_function(pipeline, step)
    result: DataFrame = function(rows)
    return result


def aggregate(rows: DataFrame, pipeline: Pipeline, step: Step, window: Window) -> DataFrame:
    """Return ``window_start``, ``window_end``, the columns ``by``, and the aggregates.

    Rows that have a watermark, of their source or of a window before, keep it: Spark refuses another.
    """
    from pyspark.sql import functions as f

    frame = rows
    if rows.isStreaming:
        first = next(s for s in pipeline.steps if s.window is not None)
        if step is first and not any(s.watermark for s in pipeline.streams):
            frame = rows.withWatermark(window.time, window.late or "0 seconds")
        elif window.time in rows.columns and _WATERMARK not in rows.schema[window.time].metadata:
            have = [field.name for field in rows.schema.fields if _WATERMARK in field.metadata]
            raise StepFailed(
                f"{pipeline.file}, line {step.line}: the column {window.time} has no watermark, by which Spark knows "
                f"when a window is complete; {', '.join(have) or 'no column that comes in here'} has one"
            )
    slots = f.window(window.time, window.size, window.slide or None)
    totals = [f.expr(sql).alias(name) for name, sql in window.agg]
    grouped = frame.groupBy(slots.alias("window"), *window.by).agg(*totals)
    bounds = [f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end")]
    return grouped.select(*bounds, *window.by, *(name for name, _ in window.agg))


def load_function(pipeline: Pipeline, step: Step) -> Callable[[DataFrame], DataFrame]:
    """Import the function of ``file.py:name``, its file relative to the pipeline's, or of ``package.module:name``."""
    file, _, name = step.text.rpartition(":")
    if not file.endswith(".py"):
        found: Callable[[DataFrame], DataFrame] = getattr(importlib.import_module(file), name)
        return found
    path = Path(pipeline.file).parent / file
    spec = importlib.util.spec_from_file_location(f"kohort_step_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise StepFailed(f"{pipeline.file}, line {step.line}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[DataFrame], DataFrame] = getattr(module, name)
    return function

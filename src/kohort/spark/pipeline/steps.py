"""Runs the steps over one micro-batch: SQL over views, or a function of a Python file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.errors import KohortError
from kohort.spark.pipeline.definition import Pipeline, Step
from kohort.spark.pipeline.frames import FAILED, PROBLEM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StepFailed(KohortError):
    """A step that Spark or its own code refused."""


def run_steps(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    """The rows after all steps. Sources are views by their names; each step's result is ``input`` to the next.

    Views of tables were made before the query began: a micro-batch lives in a copy of the session, made at that time.
    """
    from pyspark.errors import AnalysisException

    spark = rows.sparkSession
    rows.createOrReplaceTempView(pipeline.stream.name)
    current = rows
    for step in pipeline.steps:
        current.createOrReplaceTempView("input")
        try:
            current = spark.sql(step.text) if step.kind == "sql" else load_function(pipeline, step)(current)
        except AnalysisException as error:
            raise StepFailed(f"{pipeline.file}, line {step.line}: {error}") from error
        reserved = {PROBLEM, FAILED} & set(current.columns)
        if reserved:
            raise StepFailed(f"{pipeline.file}, line {step.line}: the column {reserved.pop()} is the pipeline's own")
    return current


def load_function(pipeline: Pipeline, step: Step) -> Callable[[DataFrame], DataFrame]:
    """The function of ``file.py:name``, its file relative to the pipeline's."""
    file, _, name = step.text.rpartition(":")
    path = Path(pipeline.file).parent / file
    spec = importlib.util.spec_from_file_location(f"kohort_step_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise StepFailed(f"{pipeline.file}, line {step.line}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[DataFrame], DataFrame] = getattr(module, name)
    return function

"""Checks the SQL of a pipeline without Spark: that it parses, and that the columns it names are there.

Steps in Python may make any columns: behind one, only what later SQL itself says is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kohort.spark.pipeline.definition import Pipeline, Source, Step, Window
from kohort.spark.pipeline.document.schema_text import parse_schema
from kohort.spark.pipeline.document.sections import PipelineError
from kohort.spark.pipeline.document.sql_names import Columns, Query, SqlProblem, check_expression, hint
from kohort.spark.pipeline.frames import FAILED, PROBLEM, RECORD_COLUMNS, SOURCE

LETTER_COLUMNS: Final = ("stage", "reason", "topic", "partition", "offset", "key", "value")
"""Columns of the dead letters that a test expects."""
_RAW = (*RECORD_COLUMNS, "timestampType")


def check_sql(pipeline: Pipeline) -> None:
    """Check schemas, SQL and columns. Raises PipelineError, with the line, for the first of what cannot be."""
    nested = set(RECORD_COLUMNS) | {"redelivered"}
    tables: dict[str, Columns] = {}
    for source in pipeline.sources:
        tables[source.name.lower()] = columns_of_source(source)
        if source.decode.schema:
            nested |= {field for column in parse_schema(source.decode.schema) for field in column.fields}
        if source.watermark:
            with _at(pipeline, source.line):
                _must_be(source.watermark[0], tables[source.name.lower()], "watermark")
    current, any_table = tables[pipeline.stream.name.lower()], False
    for step in pipeline.steps:
        tables["input"] = current
        if step.kind in ("python", "function"):
            current, any_table = None, True
        else:
            with _at(pipeline, step.line):
                current = _columns_of_step(step, tables, nested, any_table=any_table)
    _check_rules(pipeline, current, nested)
    _check_sinks(pipeline, current)
    _check_tests(pipeline, current)
    written = {sink.name.lower(): current for sink in pipeline.sinks if sink.kind == "parquet"}
    for summary in pipeline.summaries:
        with _at(pipeline, summary.line):
            Query(summary.sql, written, nested).check()


def columns_of_source(source: Source) -> Columns:
    """Return what steps see of a source: its columns, and where each row of a stream came from."""
    names = tuple(c.name for c in parse_schema(source.decode.schema)) if source.decode.schema else _RAW
    return names if source.table else (*names, SOURCE)


def _columns_of_step(step: Step, tables: dict[str, Columns], nested: Iterable[str], *, any_table: bool) -> Columns:
    if step.window is not None:
        return _columns_of_window(step.window, tables["input"], nested)
    query = Query(step.text, tables, nested)
    query.check(any_table=any_table)
    columns = query.columns()
    reserved = {PROBLEM, FAILED} & {name.lower() for name in columns or ()}
    if reserved:
        raise SqlProblem(f"{reserved.pop()!r} is a column that the pipeline itself adds")
    return columns


def _columns_of_window(window: Window, given: Columns, nested: Iterable[str]) -> Columns:
    for name in (window.time, *window.by):
        _must_be(name, given, "window")
    for name, text in window.agg:
        try:
            check_expression(text, given, nested)
        except SqlProblem as problem:
            raise SqlProblem(f"agg: {name}: {problem}") from None
    return ("window_start", "window_end", *window.by, *(name for name, _ in window.agg))


def _check_rules(pipeline: Pipeline, columns: Columns, nested: Iterable[str]) -> None:
    for rule in pipeline.rules:
        with _at(pipeline, rule.line):
            check_expression(rule.condition, columns, nested)


def _check_sinks(pipeline: Pipeline, columns: Columns) -> None:
    for sink in pipeline.sinks:
        named = [("partition_by", name) for name in sink.partition_by]
        named += [("key", sink.key)] if sink.key else []
        named += [("counts", sink.counts)] if sink.counts else []
        for key, name in named:
            with _at(pipeline, sink.line):
                _must_be(name, columns, key)


def _check_tests(pipeline: Pipeline, columns: Columns) -> None:
    for test in pipeline.tests:
        with _at(pipeline, test.line):
            for row in test.rows or ():
                for name in row:
                    _must_be(str(name), columns, f"test {test.name!r}: rows")
            for letter in test.dead_letters:
                for name in letter:
                    _must_be(str(name), LETTER_COLUMNS, f"test {test.name!r}: dlq")


def _must_be(name: str, columns: Columns, key: str) -> None:
    if columns is not None and name.lower() not in {c.lower() for c in columns} and "." not in name:
        raise SqlProblem(f"{key}: no column {name!r}{hint(name, {c.lower() for c in columns})}")


@contextmanager
def _at(pipeline: Pipeline, line: int) -> Iterator[None]:
    """Say of what is wrong within the block that it is at this line."""
    try:
        yield
    except SqlProblem as problem:
        raise PipelineError(str(pipeline.file), line, str(problem)) from None

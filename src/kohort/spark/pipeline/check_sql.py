"""Checks the syntax and the column names in the SQL of a pipeline, without Spark.

sqlglot resolves names against the columns of the tables. The check must never reject a valid query; ``dry-run`` finds
the mistakes that the check misses. So the check accepts queries on tables with unknown columns, and queries whose
columns depend on data (PIVOT). A Python step may add any columns. So after a Python step, only the columns that later
SQL steps define are known.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kohort.extras import needs
from kohort.nearest import did_you_mean
from kohort.spark.pipeline.definition import FAILED, PROBLEM, RECORD_COLUMNS, SOURCE, Pipeline, Source, Step, Window
from kohort.spark.pipeline.parse_sources import parse_schema
from kohort.spark.pipeline.sections import PipelineError

if TYPE_CHECKING:
    from sqlglot import exp

Columns = tuple[str, ...] | None
"""Column names of a table, in order; None if unknown."""
LETTER_COLUMNS: Final = ("stage", "reason", "topic", "partition", "offset", "key", "value")
_RAW: Final = (*RECORD_COLUMNS, "timestampType")
_SHOWN: Final = 12
_ROWS: Final = "_rows"
_UNSURE: Final = re.compile(
    r"\b(transform|match_recognize|tablesample|cluster|distribute|sort|void|identifier)\b|\|>|\w:\w|\{\{", re.IGNORECASE
)
"""Spark syntax that sqlglot may not know. Only Spark itself checks SQL with such syntax."""
_UNRESOLVED: Final = re.compile(r"(?:Column '|Unknown column: |Cannot automatically join: )`?([^'`.\s]+)")


class SqlProblem(ValueError):
    pass


def check_sql(pipeline: Pipeline) -> None:
    """Check the schemas, SQL queries and column names of a pipeline. Raises PipelineError for the first mistake."""
    tables: dict[str, Columns] = {}
    for source in pipeline.sources:
        tables[source.name.lower()] = columns_of_source(source)
        if source.watermark:
            with _at(pipeline, source.line):
                _require_column(source.watermark[0], tables[source.name.lower()], "watermark")
    current, any_table = tables[pipeline.stream.name.lower()], False
    for step in pipeline.steps:
        tables["input"] = current
        if step.kind in ("python", "function"):
            current, any_table = None, True
        else:
            with _at(pipeline, step.line):
                current = _columns_of_step(step, tables, any_table=any_table)
    for rule in pipeline.rules:
        with _at(pipeline, rule.line):
            check_expression(rule.condition, current)
    _check_sinks(pipeline, current)
    _check_tests(pipeline, current)
    written = {sink.name.lower(): current for sink in pipeline.sinks if sink.stores_rows}
    for summary in pipeline.summaries:
        with _at(pipeline, summary.line):
            columns_of_query(summary.sql, written)


def columns_of_source(source: Source) -> Columns:
    """Return the columns that a source provides to steps.

    A stream also has ``_source``: the source record of each row.
    """
    names = tuple(parse_schema(source.decode.columns)) if source.decode.schema else _RAW
    return names if source.table else (*names, SOURCE)


def _columns_of_step(step: Step, tables: Mapping[str, Columns], *, any_table: bool) -> Columns:
    if step.window is not None:
        return _columns_of_window(step.window, tables["input"])
    columns = columns_of_query(step.text, tables, any_table=any_table)
    reserved = {PROBLEM, FAILED} & {name.lower() for name in columns or ()}
    if reserved:
        raise SqlProblem(f"column {reserved.pop()!r} is reserved for the pipeline")
    return columns


def _columns_of_window(window: Window, given: Columns) -> Columns:
    for name in (window.time, *window.by):
        _require_column(name, given, "window")
    for name, text in window.agg:
        _check_setting(f"agg: {name}", text, given)
    return ("window_start", "window_end", *window.by, *(name for name, _ in window.agg))


def _check_sinks(pipeline: Pipeline, columns: Columns) -> None:
    for sink in pipeline.sinks:
        counts = (("counts", sink.counts),) if sink.counts else ()
        for key, name in (*sink.columns, *counts):
            with _at(pipeline, sink.line):
                _require_column(name, columns, key)
        for key, condition in sink.conditions:
            with _at(pipeline, sink.line):
                _check_setting(key, condition, columns)


def _check_setting(key: str, condition: str, columns: Columns) -> None:
    try:
        check_expression(condition, columns)
    except SqlProblem as problem:
        raise SqlProblem(f"{key}: {problem}") from None


def _check_tests(pipeline: Pipeline, columns: Columns) -> None:
    for test in pipeline.tests:
        with _at(pipeline, test.line):
            for row in test.rows or ():
                for name in row:
                    _require_column(str(name), columns, f"test {test.name!r}: rows")
            for letter in test.dead_letters:
                for name in letter:
                    _require_column(str(name), LETTER_COLUMNS, f"test {test.name!r}: dlq")


def _require_column(name: str, columns: Columns, key: str) -> None:
    if columns is not None and name.lower() not in {c.lower() for c in columns} and "." not in name:
        raise SqlProblem(f"{key}: no column {name!r}{_hint(name, columns)}")


@contextmanager
def _at(pipeline: Pipeline, line: int) -> Iterator[None]:
    """Convert a SqlProblem into a PipelineError. ``line``: line number of the SQL in the pipeline file."""
    try:
        yield
    except SqlProblem as problem:
        raise PipelineError(str(pipeline.file), line, str(problem)) from None


def check_expression(text: str, columns: Columns) -> None:
    columns_of_query(f"select {text} from {_ROWS}", {_ROWS: columns})


def columns_of_query(text: str, tables: Mapping[str, Columns], *, any_table: bool = False) -> Columns:
    """Return the columns of a query's result; None if only Spark can determine the columns.

    ``tables``: lower-case table name to columns. ``any_table``: True if other tables may exist. Raises SqlProblem for
    invalid SQL, and for an unknown table or column.
    """
    tree = _parsed(text)
    if tree is None:
        return None
    from sqlglot import errors, exp
    from sqlglot.optimizer.qualify import qualify

    if tree.find(exp.Pivot, exp.Command):
        return None
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    read = [table for table in tree.find_all(exp.Table) if not table.find_ancestor(exp.Hint)]
    if any(not isinstance(table.this, exp.Identifier) or table.db for table in read):
        return None
    for name in (table.name for table in read):
        if name.lower() not in tables and name.lower() not in ctes:
            if any_table:
                return None
            raise SqlProblem(f"source {name!r} does not exist{_hint(name, {*tables, *ctes})}")
    known = {name: tables[name] for name in {table.name.lower() for table in read} & tables.keys()}
    if any(columns is None for columns in known.values()):
        return None
    schema: dict[str, object] = {name: dict.fromkeys(columns or (), "string") for name, columns in known.items()}
    try:
        resolved = qualify(tree.copy(), dialect="spark", schema=schema, quote_identifiers=False)
    except errors.OptimizeError as error:
        raise _unresolved(str(error), tree, [name for columns in known.values() for name in columns or ()]) from None
    names = resolved.named_selects if isinstance(resolved, exp.Query) else []
    is_known = names and not any(name in ("", "*") or name.startswith("_col_") for name in names)
    return tuple(names) if is_known and not tree.find(exp.Lateral) else None


def _unresolved(message: str, tree: exp.Query, columns: Iterable[str]) -> SqlProblem:
    from sqlglot import exp

    found = _UNRESOLVED.search(message)
    if found is None:
        return SqlProblem(message.splitlines()[0])
    name = found[1]
    column = next((c for c in tree.find_all(exp.Column) if c.name.lower() == name.lower()), None)
    table = column.table if column is not None else ""
    aliases = {t.alias_or_name.lower() for t in tree.find_all(exp.Table)}
    if table and table.lower() not in aliases:
        return SqlProblem(f"no table or column {table!r}{_hint(table, columns)}")
    there = [known for known in columns if known.lower() != name.lower()]
    return SqlProblem(f"{f'{table} has no' if table else 'no'} column {name!r}{_hint(name, there)}")


def _hint(name: str, known: Iterable[str]) -> str:
    there = sorted({other.lower() for other in known if not other.startswith("_")})
    more = ", ..." if len(there) > _SHOWN else ""
    return did_you_mean(name.lower(), there) or f"; found {', '.join(there[:_SHOWN])}{more}"


def _parsed(text: str) -> exp.Query | None:
    with needs("pipeline", "the check of SQL"):
        import sqlglot
        from sqlglot import errors, exp
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # hide sqlglot's warnings about unsupported syntax
    try:
        trees = sqlglot.parse(text, dialect="spark")
    except errors.SqlglotError as error:
        if _UNSURE.search(text):
            return None
        raise SqlProblem(_syntax_error(error)) from None
    except RecursionError:
        return None
    found = [tree for tree in trees if tree is not None]
    if not found:
        raise SqlProblem("the SQL query is empty")
    if len(found) > 1:
        raise SqlProblem(f"expected one SQL query, found {len(found)}")
    return found[0] if isinstance(found[0], exp.Query) and "|>" not in text else None


def _syntax_error(error: Exception) -> str:
    details = getattr(error, "errors", None) or [{}]
    near = str(details[0].get("highlight") or "")
    context = str(details[0].get("start_context") or "")[-20:]
    after = str(details[0].get("end_context") or "")[:20]
    if not near:
        return "invalid SQL"
    return f"invalid SQL at {near!r}, in: {' '.join((context + near + after).split())}"

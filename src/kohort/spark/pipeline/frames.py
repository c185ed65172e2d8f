"""The shape of rows on their way: decoded columns, where each row came from, and which rules it fails.

``_source`` is one struct with the record as it was (topic, partition, offset, timestamp, key, value, headers), and with
``redelivered``: whether the row may have been delivered before. Steps that select ``*`` keep it; with it, a row set
aside becomes a dead letter with its original bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kohort.spark.pipeline.definition import RowRule
from kohort.spark.pipeline.ledger import Count
from kohort.spark.values.columns import REDELIVERED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

SOURCE: Final = "_source"
PROBLEM: Final = "_problem"
FAILED: Final = "_failed"
RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def counts_by(frame: DataFrame, column: str) -> dict[str, Count]:
    """Return the rows of each value of a column, and their mark, from the data; where it is null, under the empty text.

    Without ``_source`` the mark is 0.
    """
    return _counts(_grouped(frame, column))


def counts_of_source(decoded: DataFrame) -> tuple[dict[str, Count], int]:
    """Return what ``counts_by`` says of ``_problem``, and how many of all the rows may have been delivered before."""
    from pyspark.sql import functions as f

    again = f.count_if(f.col(f"{SOURCE}.{REDELIVERED}"))
    rows = _grouped(decoded, PROBLEM, again.alias("again"))
    return _counts(rows), sum(row["again"] for row in rows)


def _grouped(frame: DataFrame, column: str, *more: Column) -> list[Row]:
    from pyspark.sql import functions as f

    mark: Column = f.lit(0).cast("long")
    if SOURCE in frame.columns:
        mark = f.bit_xor(f.xxhash64(f"{SOURCE}.topic", f"{SOURCE}.partition", f"{SOURCE}.offset"))
    else:
        mark = f.max(mark)
    totals = (f.count(f.lit(1)).alias("n"), mark.alias("mark"), *more)
    found: list[Row] = frame.groupBy(f.col(column).alias("k")).agg(*totals).collect()
    return found


def _counts(rows: Iterable[Row]) -> dict[str, Count]:
    return {row["k"] or "": Count(row["n"], row["mark"] or 0) for row in rows}


def judge(frame: DataFrame, rules: Sequence[RowRule]) -> DataFrame:
    """Add ``_failed``: the numbers of the rules that a row fails, in their order, as text such as ``0,2``; else null.

    A rule whose condition is null for a row is not satisfied by it.
    """
    from pyspark.sql import functions as f

    if not rules:
        return frame.withColumn(FAILED, f.lit(None).cast("string"))
    failed = [f.when(~f.coalesce(f.expr(rule.condition), f.lit(False)), f.lit(str(i))) for i, rule in enumerate(rules)]
    return frame.withColumn(FAILED, f.nullif(f.concat_ws(",", *failed), f.lit("")))


def failed_rules(verdict: str, rules: Sequence[RowRule]) -> list[RowRule]:
    """Return the rules behind a value of ``_failed``."""
    return [rules[int(i)] for i in verdict.split(",")]

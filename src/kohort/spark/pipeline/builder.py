"""Builder of a pipeline in Python, without a pipeline file. Steps may be Python functions.

    orders = (
        PipelineBuilder("orders", brokers="localhost:9092")
        .read("orders", topics=["orders"], group="orders", json="id long, amount double")
        .sql("select *, amount * 1.2 as with_tax from orders")
        .step(enrich)                         # any function DataFrame -> DataFrame
        .expect(not_null="id")
        .to_parquet("out/orders")
        .dead_letters("orders-dlq")
        .build()
    )
    run_pipeline(orders, session("orders"), once=True)

The parser of pipeline files checks all settings; its errors name the line of the Python file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.parse import pipeline_of
from kohort.spark.pipeline.sections import YamlSection, section_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Call = tuple[Mapping[str, Any], str, int, str]
"""One call of a builder method: its settings, its Python file and line, and the name of the pipeline section."""


class StreamSettings(TypedDict, total=False):
    """Settings of ``PipelineBuilder.read``, as in a pipeline file.

    ``start``: earliest, latest or group. ``group_mode``: standalone or member. ``watermark``: time column, and maximum
    lateness of rows. ``kafka``: client options under Kafka's names. ``decode``: settings of the section ``decode``,
    instead of ``json``.
    """

    brokers: str
    group: str
    start: str
    group_mode: str
    watermark: tuple[str, str] | None
    fail_on_data_loss: bool
    kafka: Mapping[str, Any] | None
    decode: Mapping[str, Any]


class PipelineBuilder:
    """Builder of a pipeline. Methods collect settings; ``build`` checks them. Relative paths start at ``folder``."""

    def __init__(
        self,
        name: str,
        *,
        brokers: str = "",
        profile: str = "",
        kafka: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
        checkpoint: str = "state",
    ) -> None:
        self._file, line = _caller()
        self._path = Path(folder).absolute() / Path(self._file).name
        self._line = line
        self._top: dict[str, Any] = {"name": name, "checkpoint": checkpoint}
        self._top |= {key: text for key, text in (("brokers", brokers), ("profile", profile)) if text}
        self._top |= {"kafka": section_of(dict(kafka), self._file, line, "kafka")} if kafka else {}
        self._sources: dict[str, _Call] = {}
        self._lists: dict[str, list[_Call]] = {}
        self._singles: dict[str, _Call] = {}

    def read(
        self,
        name: str,
        *,
        topics: Sequence[str],
        json: str = "",
        rows: int | None = None,
        size: str = "",
        **more: Unpack[StreamSettings],
    ) -> Self:
        """Add a source that reads topics as a stream.

        ``json``: schema of JSON values. ``rows``, ``size``: maximum number of rows and maximum size (such as ``64m``)
        of a micro-batch.
        """
        limit = ({"rows": rows} if rows is not None else {}) | ({"bytes": size} if size else {})
        settings: dict[str, Any] = {"limit": limit} if limit else {}
        settings |= {key: value for key, value in more.items() if key != "watermark" and (key != "kafka" or value)}
        watermark = more.get("watermark")
        if watermark is not None:
            settings["watermark"] = {"column": watermark[0], "delay": watermark[1]}
        return self._add_source(name, topics, json, settings)

    def table(self, name: str, *, topics: Sequence[str], group: str = "", json: str = "", **more: Any) -> Self:
        """Add a table source. Each run reads its topics only once, at the start of the run."""
        settings = {"group": group} if group else {}
        return self._add_source(name, topics, json, {**settings, "read": "table", **more})

    def sql(self, text: str, *, filters: bool = False) -> Self:
        """Add a SQL step.

        The query reads the sources, or the view ``input`` with the result of the previous step.
        """
        return self._add("steps", {"sql": text, "filters": filters})

    def step(self, function: Callable[[DataFrame], DataFrame], *, filters: bool = False) -> Self:
        """Add a Python function as a step.

        Functions that it passes to Spark's workers must be picklable.
        """
        return self._add("steps", {"function": function, "filters": filters})

    def window(self, time: str, size: str, *, agg: Mapping[str, str], by: Sequence[str] = (), **more: str) -> Self:
        """Add a step that aggregates rows in time windows.

        ``time``: time column. ``more``: the settings ``watermark`` and ``slide``.
        """
        return self._add("steps", {"window": {"time": time, "size": size, "agg": agg, "by": list(by), **more}})

    def expect(self, **rule: str) -> Self:
        """Add a rule that each row must satisfy.

        ``rule``: ``not_null`` (a column) or ``check`` (a SQL condition), and optionally ``name``, ``reason`` and
        ``otherwise``: the action for rows that fail the rule (quarantine, drop or fail).
        """
        if "otherwise" in rule:
            rule["else"] = rule.pop("otherwise")
        return self._add("expect", rule)

    def to_parquet(
        self,
        path: str,
        *,
        name: str = "parquet",
        partition_by: Sequence[str] = (),
        counts: str = "",
        compact_every: int = 0,
    ) -> Self:
        """Add a Parquet sink.

        ``counts``: column with the number of source rows that an output row aggregates. ``compact_every``: merge small
        files after every N micro-batches; 0: never.
        """
        body = {"path": path, "partition_by": list(partition_by), "compact_every": compact_every}
        return self._add("sinks", {"parquet": body, "name": name, "counts": counts})

    def to_topic(self, topic: str, *, key: str = "", name: str = "topic") -> Self:
        return self._add("sinks", {"topic": {"topic": topic, "key": key}, "name": name})

    def to_console(self, rows: int = 20, *, name: str = "console") -> Self:
        return self._add("sinks", {"console": {"rows": rows}, "name": name})

    def to_noop(self, *, name: str = "noop") -> Self:
        return self._add("sinks", {"noop": None, "name": name})

    def summary(self, name: str, sql: str, path: str, **more: str) -> Self:
        """Add a summary: a table that a SQL query computes from all rows of the Parquet sinks at the end of a run.

        ``more``: the settings ``counts`` and ``of``.
        """
        return self._add("summaries", {"name": name, "sql": sql, "path": path, **more})

    def dead_letters(self, topic: str, *, partitions: int = 1) -> Self:
        """Set the dead-letter topic for rows that cannot be decoded or fail a quarantine rule."""
        self._singles["dlq"] = self._call({"topic": topic, "partitions": partitions}, "dlq")
        return self

    def every(self, interval: str) -> Self:
        """Make runs continuous: start a micro-batch every ``interval``, such as ``2 seconds``."""
        self._singles["trigger"] = self._call({"every": interval}, "trigger")
        return self

    def test(self, name: str, given: Any, expect: Mapping[str, Any]) -> Self:
        return self._add("tests", {"name": name, "given": given, "expect": expect})

    def build(self) -> Pipeline:
        """Check the settings and return the pipeline. Raises PipelineError for an invalid setting."""
        entries: dict[str, tuple[Any, int]] = {key: (value, self._line) for key, value in self._top.items()}
        entries |= {key: (section_of(*settings), settings[2]) for key, settings in self._singles.items()}
        entries |= {key: ([section_of(*s) for s in items], self._line) for key, items in self._lists.items()}
        sources = {name: (section_of(*settings), settings[2]) for name, settings in self._sources.items()}
        entries["sources"] = (YamlSection(self._file, self._line, "sources", sources), self._line)
        return pipeline_of(YamlSection(self._file, self._line, "the file", entries), self._path)

    def _add_source(self, name: str, topics: Sequence[str], json: str, settings: Mapping[str, Any]) -> Self:
        decode = {"decode": {"format": "json", "schema": json}} if json else {}
        self._sources[name] = self._call({"topics": list(topics), **settings, **decode}, f"sources.{name}")
        return self

    def _add(self, key: str, settings: Mapping[str, Any]) -> Self:
        entries = self._lists.setdefault(key, [])
        entries.append(self._call(settings, f"{key}[{len(entries)}]"))
        return self

    @staticmethod
    def _call(settings: Mapping[str, Any], name: str) -> _Call:
        return (settings, *_caller(), name)


def _caller() -> tuple[str, int]:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno

"""``format("kohort")``, source and sink. Checks options when the DataFrame is created or the write is planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSource

from kohort.config.options import unknown_option
from kohort.errors import ConfigError
from kohort.spark.options.sink import SINK_TABLE, SinkOptions, parse_sink_options
from kohort.spark.options.source import parse_source_options
from kohort.spark.options.table import BY_LOWER_NAME, REFUSED, TABLE
from kohort.spark.reading.member_stream import MemberStreamReader
from kohort.spark.reading.ranges import KohortBatchReader
from kohort.spark.reading.stream import KohortStreamReader
from kohort.spark.sending.sink import KohortBatchWriter, KohortStreamWriter, check_sink_schema
from kohort.spark.values.columns import ddl
from kohort.spark.values.row_builders import row_builder_of

_SPARK_OPTIONS: Final = ("path", "checkpointlocation", "queryname")


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for an option that neither source nor sink has. ``kafka.`` options are checked later."""
    known = {*BY_LOWER_NAME, *REFUSED, *(o.name.lower() for o in SINK_TABLE), *_SPARK_OPTIONS}
    for name in names:
        if name.lower() not in known and not name.lower().startswith("kafka."):
            raise unknown_option(name, [o.name for o in (*TABLE, *SINK_TABLE)] + ["kafka.bootstrap.servers"])


class KohortDataSource(DataSource):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    """Spark data source for topics of kohort's broker, Apache Kafka, and other brokers with the Kafka protocol."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark creates this object for reads and for writes, so accept the options of both.
        super().__init__(options)
        check_names(dict(options))

    @classmethod
    def name(cls) -> str:
        return "kohort"

    def schema(self) -> str:
        # Spark has not yet chosen batch or stream: reader() and streamReader() check the other options.
        decoded = dict(self.options).get("value.format", "raw").strip().lower()
        if decoded != "raw":
            raise ConfigError(
                f'value.format={decoded} needs a schema such as .schema("id long, amount double"). The schema '
                "may also have the record columns _key, _topic, _partition, _offset and _timestamp"
            )
        headers = dict(self.options).get("includeheaders", "false")
        return ddl(include_headers=headers.strip().lower() == "true")

    def reader(self, schema: Any) -> KohortBatchReader:
        options = parse_source_options(dict(self.options), streaming=False)
        return KohortBatchReader(options, row_builder_of(schema, options))

    def streamReader(self, schema: Any) -> KohortStreamReader:  # noqa: N802 - Spark's name
        options = parse_source_options(dict(self.options), streaming=True)
        reader = MemberStreamReader if options.group_mode == "member" else KohortStreamReader
        return reader(options, row_builder_of(schema, options))

    def writer(self, schema: Any, overwrite: bool) -> KohortBatchWriter:
        if overwrite:
            raise ConfigError('format("kohort") cannot overwrite a topic: write with mode("append")')
        return KohortBatchWriter(*self._sink(schema, streaming=False))

    def streamWriter(self, schema: Any, overwrite: bool) -> KohortStreamWriter:  # noqa: N802, ARG002 - Spark's names
        # In complete mode Spark passes overwrite=True. The sink sends the whole result again, like Spark's Kafka sink.
        return KohortStreamWriter(*self._sink(schema, streaming=True))

    def _sink(self, schema: Any, *, streaming: bool) -> tuple[SinkOptions, tuple[str, ...]]:
        options = parse_sink_options(dict(self.options), streaming=streaming)
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        return options, check_sink_schema(fields, options)

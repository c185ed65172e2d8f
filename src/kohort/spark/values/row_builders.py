"""Builds the rows of a read: the columns of the record, or the columns of its decoded value. Handles bad values.

Spark compares the schema of the first batch with its own, including order and nullability. So each batch is built with
the same schema object. Columns that the user's schema omits are never built.

A value that cannot be decoded either fails the query, or its row is dropped, set to NULL, or sent to a topic as a dead
letter. A dead letter has the key, value and headers of the record, and headers ``kohort-error.*`` for reason and
origin. The task sends its dead letters before it ends. Delivery is at least once, since a repeated task sends them
again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.columns.conversions.times import zone_named
from kohort.errors import ConfigError, KohortError
from kohort.spark.options.client import connecting
from kohort.spark.options.source import SourceOptions
from kohort.spark.sending.send import add_headers
from kohort.spark.values.columns import REDELIVERED, TYPES, arrow_schema, check_schema, client_columns, conform

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.spark.values.keys import KeyFormat
    from kohort.spark.values.value_format import ValueFormat

SESSION_ZONE: Final = "spark.sql.session.timeZone"


def session_zone() -> tzinfo:
    """Return the time zone of the task's Spark session. The default is the local time zone, as in Spark."""
    from pyspark import TaskContext

    task = TaskContext.get()
    name = task.getLocalProperty(SESSION_ZONE) if task is not None else None
    machine = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    try:
        return zone_named(name or os.environ.get("TZ") or machine)
    except ValueError:
        return UTC


log = logging.getLogger(__name__)


class BadRecord(KohortError):
    pass


@dataclass(frozen=True, slots=True)
class BadRecords:
    """Policy for undecodable values (option ``badRecords``). ``settings``: options of the dead-letter producer."""

    policy: str
    topic: str
    settings: dict[str, Any]

    @classmethod
    def of(cls, options: SourceOptions) -> BadRecords:
        settings = {**connecting(options.client), "bootstrap.servers": options.bootstrap_servers}
        settings["client.id"] = "kohort-dead-letters"
        return cls(options.bad_records, options.dead_letter_topic, settings)

    @property
    def sends(self) -> bool:
        return self.policy == "dlq"

    def judge(
        self, batch: pa.RecordBatch, built: pa.RecordBatch, problems: Mapping[int, str], *, keep: bool
    ) -> pa.RecordBatch:
        """Apply the policy to undecodable rows. Raises BadRecord if the policy is ``fail``.

        ``batch``: the source records. ``built``: the rows built from these records. ``keep``: True to keep rows whose
        records become dead letters.
        """
        if not problems or self.policy == "null":
            return built
        row = min(problems)
        where = f"{batch.column('topic')[row]}-{batch.column('partition')[row]} offset {batch.column('offset')[row]}"
        if self.policy == "fail":
            raise BadRecord(
                f"{where}: {problems[row]}. To continue after such records, set badRecords to drop, null or dlq"
            )
        if self.sends:
            self._send(batch, problems)
            if keep:
                return built
        action = f"sent to {self.topic}" if self.sends else "dropped"
        log.warning("%d undecodable values were %s, the first at %s: %s", len(problems), action, where, problems[row])
        import numpy as np
        import pyarrow as pa

        good = np.ones(batch.num_rows, bool)
        good[list(problems)] = False
        return built.filter(pa.array(good))

    def _send(self, batch: pa.RecordBatch, problems: Mapping[int, str]) -> None:
        import pyarrow as pa

        from kohort.spark.sending.send import LetterSender

        rows = sorted(problems)
        bad = batch.take(pa.array(rows))
        error_headers = {
            "reason": [problems[row].encode() for row in rows],
            "stage": [b"decode"] * len(rows),
            "topic": [str(v).encode() for v in bad.column("topic").to_pylist()],
            "partition": [str(v).encode() for v in bad.column("partition").to_pylist()],
            "offset": [str(v).encode() for v in bad.column("offset").to_pylist()],
        }
        more = [(f"kohort-error.{name}", pa.array(values, pa.binary())) for name, values in error_headers.items()]
        headers = add_headers(bad.column("headers"), len(rows), more)
        sender = LetterSender(self.settings)
        try:
            arrays = [bad.column("key"), bad.column("value"), headers]
            sender.send(self.topic, pa.RecordBatch.from_arrays(arrays, names=["key", "value", "headers"]))
            sender.finish()
        except KohortError:
            sender.fail()
            raise


ERROR: Final = "_error"
NO_VALUE: Final = "the record has no value"
SKIPPED: Final = "skipped: a tombstone"
"""Content of ``_error`` for a record that ``value.tombstones=skip`` skips. It is no decoding error."""
RECORD_COLUMNS: Final = {f"_{name}": name for name in TYPES}
"""Columns of the record beside the columns of its value, with an underscore: ``_key`` is the key of the record."""


class RecordRowBuilder:
    """Builds rows of undecoded records. ``names``: record columns of the rows, such as key and value."""

    def __init__(self, names: Sequence[str]) -> None:
        self._schema = arrow_schema(names)
        self.client_columns = client_columns(names)
        self.marks_redelivered = REDELIVERED in names

    def build(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return conform(batch, self._schema)


class ValueRowBuilder:
    """Builds rows from decoded values, record columns (``_key``, ``_topic``, ...) and decoding errors (``_error``)."""

    def __init__(
        self,
        schema: pa.Schema,
        value: ValueFormat,
        bad: BadRecords,
        *,
        tombstones: str = "row",
        zone: str = "",
        key: KeyFormat | None = None,
    ) -> None:
        """Create a builder.

        ``tombstones``: value of the option value.tombstones. ``zone``: default time zone. ``key``: decoder of keys.
        """
        self._schema = schema
        self._value = value
        self._bad = bad
        self._tombstones = "drop" if tombstones == "skip" and ERROR not in schema.names else tombstones
        self._key = key
        self._zone = zone
        self._record_columns = [n for n in schema.names if n in RECORD_COLUMNS]
        own = [RECORD_COLUMNS[n] for n in self._record_columns]
        self._record_schema = arrow_schema(own)
        keys = ["key"] if key is not None or value.changes is not None else []
        needed = ["value", "topic", "partition", *own, *keys, *(("key", "headers") if bad.sends else ())]
        self.client_columns = client_columns(list(dict.fromkeys(needed)))
        self.marks_redelivered = REDELIVERED in own

    def build(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        values = batch.column("value")
        if values.null_count and self._tombstones == "drop":
            batch = batch.filter(values.is_valid())
            values = batch.column("value")
        keys = batch.column("key") if self._value.changes is not None else None
        decoded = self._value.decode(values, zone_named(self._zone) if self._zone else session_zone(), keys)
        columns = dict(zip(self._value.schema.names, decoded.columns, strict=True))
        if self._key is not None:
            found = self._key.decode(batch.column("key"))
            columns[self._key.name] = found.columns[0]
            for row, reason in found.problems.items():
                decoded.problems.setdefault(row, reason)
        absent = np.flatnonzero(np.asarray(values.is_null())).tolist() if values.null_count else []
        skipped = dict.fromkeys(absent, SKIPPED) if self._tombstones == "skip" else {}
        for row in skipped:
            decoded.problems.pop(row, None)
        if self._tombstones == "bad":
            decoded.problems.update(dict.fromkeys(absent, NO_VALUE))
        columns |= zip(self._record_columns, conform(batch, self._record_schema).columns, strict=True)
        if ERROR in self._schema.names:
            errors = {**skipped, **decoded.problems}
            columns[ERROR] = pa.array([errors.get(row) for row in range(batch.num_rows)], pa.string())
        built = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        return self._bad.judge(batch, built, decoded.problems, keep=ERROR in self._schema.names)


RowBuilder = RecordRowBuilder | ValueRowBuilder
"""Builder that converts the client's Arrow batches into rows for Spark. It is picklable."""


def row_builder_of(schema: Any, options: SourceOptions) -> RowBuilder:
    """Return the row builder for a read schema. Raises ConfigError for an unsupported column or type."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from kohort.spark.values.value_format import ValueFormat  # imports pyarrow, which takes 0.3 s

    key_column = options.key_column if options.key_format != "raw" else None
    named = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if options.value_format == "raw":
        return RecordRowBuilder(check_schema(named))
    types = {n: TYPES[RECORD_COLUMNS[n]] for n in RECORD_COLUMNS} | {ERROR: "string"}
    for name, kind in named:
        if name in types and kind != types[name]:
            raise ConfigError(f"schema: column {name!r} must be {types[name]}, not {kind}")
    required = next((f.name for f in schema.fields if not f.nullable), None)
    if required:
        raise ConfigError(f"schema: column {required!r} is NOT NULL, but a value may lack it: remove NOT NULL")
    arrow = to_arrow_schema(schema, timezone="UTC")
    fields = arrow.empty_table().select([n for n, _ in named if n not in types and n != key_column]).schema
    if not len(fields):
        raise ConfigError(f"schema: value.format={options.value_format} needs a column for the decoded value")
    value = ValueFormat(
        options.value_format,
        fields,
        options.value_separator,
        avro=options.avro_schema,
        framing=options.avro_framing,
        changes=options.changes,
    )
    key = _key_format(arrow, options) if key_column in arrow.names else None
    bad = BadRecords.of(options)
    return ValueRowBuilder(arrow, value, bad, tombstones=options.tombstones, zone=options.time_zone, key=key)


def _key_format(schema: pa.Schema, options: SourceOptions) -> KeyFormat:
    from kohort.spark.values.keys import KeyFormat

    field = schema.field(options.key_column)
    return KeyFormat(options.key_format, field, avro=options.key_avro_schema, framing=options.avro_framing)

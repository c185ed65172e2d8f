"""The rows of a read: the record's columns as they are, or the columns of its decoded value; and values that are bad.

Spark compares the first batch's schema with its own, order and nullability included, so every batch is built from one
schema object. A schema given by the user picks columns: those that it leaves out are never built.

For a value that cannot be decoded the query fails, or the row is dropped, nulled, or sent to a topic. Such a dead
letter is the record as it was (key, value, headers) with headers ``kohort-error.*`` for the reason and the origin. The
task that found it sends it before the task ends: at least once, since a task that Spark repeats sends it again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.columns.conversions.times import zone_named
from kohort.errors import ConfigError, KohortError
from kohort.spark.options.client import connecting
from kohort.spark.options.source import SourceOptions
from kohort.spark.sending.send import add_headers
from kohort.spark.values.columns import REDELIVERED, TYPES, arrow_schema, check_schema, client_columns, conform
from kohort.spark.values.value_format import ValueFormat

if TYPE_CHECKING:
    import pyarrow as pa

SESSION_ZONE: Final = "spark.sql.session.timeZone"


def session_zone() -> tzinfo:
    """Return the zone that a task's query has; the machine's where the session sets none, as in Spark."""
    from pyspark import TaskContext

    task = TaskContext.get()
    name = task.getLocalProperty(SESSION_ZONE) if task is not None else None
    try:
        return zone_named(name or os.environ.get("TZ") or _machine_zone())
    except ValueError:
        return UTC


def _machine_zone() -> str:
    return str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]


log = logging.getLogger(__name__)


class BadRecord(KohortError):
    """A value that cannot be decoded, where the options say that this ends the query."""


@dataclass(frozen=True, slots=True)
class BadRecords:
    """The policy of ``badRecords``: fail, drop, null or dlq. ``settings``: those of the producer of dead letters."""

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
        """Return the rows to hand on. ``batch``: the records as they were; ``keep``: rows of dead letters stay, with
        their ``_error``. Raises BadRecord where the policy is to fail."""
        if not problems or self.policy == "null":
            return built
        row = min(problems)
        where = f"{batch.column('topic')[row]}-{batch.column('partition')[row]} offset {batch.column('offset')[row]}"
        if self.policy == "fail":
            raise BadRecord(
                f"{where}: {problems[row]}. To go on without such records, set badRecords to drop, null or dlq"
            )
        if self.sends:
            self._send(batch, problems)
            if keep:
                return built
        fate = f"sent to {self.topic}" if self.sends else "dropped"
        log.warning("%d undecodable values %s, the first at %s: %s", len(problems), fate, where, problems[row])
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
        said = {
            "reason": [problems[row].encode() for row in rows],
            "stage": [b"decode"] * len(rows),
            "topic": [str(v).encode() for v in bad.column("topic").to_pylist()],
            "partition": [str(v).encode() for v in bad.column("partition").to_pylist()],
            "offset": [str(v).encode() for v in bad.column("offset").to_pylist()],
        }
        more = [(f"kohort-error.{name}", pa.array(values, pa.binary())) for name, values in said.items()]
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
RECORD_COLUMNS: Final = {f"_{name}": name for name in TYPES}
"""Beside a decoded value, the record's own columns go by these names, which no field of a value is likely to have."""


class RowBuilder(Protocol):
    """Turns the client's batches into Spark's. Picklable."""

    @property
    def client_columns(self) -> Sequence[str]:
        """What to ask of the client."""

    @property
    def marks_redelivered(self) -> bool:
        """Whether ``build`` is to be given the column ``redelivered`` too."""

    def build(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


class RecordRowBuilder:
    """The record's columns ``names``, as they are."""

    def __init__(self, names: Sequence[str]) -> None:
        self._schema = arrow_schema(names)
        self.client_columns = client_columns(names)
        self.marks_redelivered = REDELIVERED in names

    def build(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return conform(batch, self._schema)


class ValueRowBuilder:
    """The fields of the value, beside the record's columns as ``_key``, ``_topic``, ... and ``_error``, where asked."""

    def __init__(
        self, schema: pa.Schema, value: ValueFormat, bad: BadRecords, *, tombstones: str = "row", zone: str = ""
    ) -> None:
        """``tombstones``: row, drop or bad; ``zone``: of timestamps without one, the session's by default."""
        self._schema = schema
        self._value = value
        self._bad = bad
        self._tombstones = tombstones
        self._zone = zone
        own = [RECORD_COLUMNS[n] for n in schema.names if n in RECORD_COLUMNS]
        needed = ["value", "topic", "partition", *own, *(("key", "headers") if bad.sends else ())]
        self.client_columns = client_columns(list(dict.fromkeys(needed)))
        self.marks_redelivered = REDELIVERED in own

    def build(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from kohort.columns.conversions.times import zone_named

        values = batch.column("value")
        if values.null_count and self._tombstones == "drop":
            batch = batch.filter(values.is_valid())
            values = batch.column("value")
        decoded = self._value.decode(values, zone_named(self._zone) if self._zone else session_zone())
        if values.null_count and self._tombstones == "bad":
            decoded.problems.update(dict.fromkeys(np.flatnonzero(np.asarray(values.is_null())).tolist(), NO_VALUE))
        fields = dict(zip(self._value.schema.names, decoded.columns, strict=True))
        own = self._record_columns(batch)
        arrays = []
        for field in self._schema:
            if field.name == ERROR:
                arrays.append(_errors(batch.num_rows, decoded.problems))
            else:
                arrays.append(own[field.name] if field.name in own else fields[field.name])
        built = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return self._bad.judge(batch, built, decoded.problems, keep=ERROR in self._schema.names)

    def _record_columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        wanted = [n for n in self._schema.names if n in RECORD_COLUMNS]
        if not wanted:
            return {}
        raw = conform(batch, arrow_schema([RECORD_COLUMNS[n] for n in wanted]))
        return dict(zip(wanted, raw.columns, strict=True))


def _errors(rows: int, problems: Mapping[int, str]) -> pa.Array:
    import pyarrow as pa

    return pa.array([problems.get(row) for row in range(rows)] if problems else [None] * rows, pa.string())


def row_builder_of(schema: Any, options: SourceOptions) -> RowBuilder:
    """Return what builds rows of Spark's schema, checked. Raises ConfigError for a column or a type that the source
    cannot give."""
    from pyspark.sql.pandas.types import to_arrow_schema

    named = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if options.value_format == "raw":
        return RecordRowBuilder(check_schema(named))
    types = {n: TYPES[RECORD_COLUMNS[n]] for n in RECORD_COLUMNS} | {ERROR: "string"}
    for name, kind in named:
        if name in types and kind != types[name]:
            raise ConfigError(f"schema: column {name!r} is {types[name]}, not {kind}")
    required = next((f.name for f in schema.fields if not f.nullable), None)
    if required:
        raise ConfigError(f"schema: column {required!r} is NOT NULL, which a value need not heed: leave that out")
    arrow = to_arrow_schema(schema, timezone="UTC")
    fields = arrow.empty_table().select([n for n, _ in named if n not in types]).schema
    if not len(fields):
        raise ConfigError(f"schema: no column of the value, for which value.format={options.value_format} is given")
    value = ValueFormat(
        options.value_format, fields, options.value_separator, avro=options.avro_schema, framing=options.avro_framing
    )
    bad = BadRecords.of(options)
    return ValueRowBuilder(arrow, value, bad, tombstones=options.tombstones, zone=options.time_zone)

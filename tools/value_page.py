"""Write the page of decoded values from the tests' table of values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.values.avro_values import AVRO_VALUES
from support.values.change_values import CHANGE_VALUES, ChangeValue
from support.values.csv_values import CSV_PAIRS, CSV_VALUES
from support.values.json_times import JSON_TIMES
from support.values.json_values import JSON_VALUES
from support.values.value import BAD, Value

CONTROL_PICTURES: Final = 0x2400
CELL_MOST: Final = 90
HEAD: Final = """\
What does the value of a record become in a column of a type? One reader answers for each format, on
every road: `poll_arrow(json=)`, `format("kohort")` with `value.format`, and the runs, windows,
tables, tests and dry runs of a pipeline. The tables below are the ones that the tests compare each
road with, and Spark's own readers of JSON, CSV and Avro, value by value.

- A result is exact, or the record is **bad**: it goes where `badRecords` (or `dlq:` of a pipeline)
  says. Two roundings are Spark's: binary floating point, and digits of a time beyond microseconds.
- A timestamp without a zone is in the zone of the session (`spark.sql.session.timeZone`), or of the
  option `value.timeZone`. For `poll_arrow` it is in UTC. The examples have a session in
  America/New_York.
- A record without a value, a tombstone, is a row of NULLs; `value.tombstones` (`tombstones:` in a
  pipeline) can be `drop` or `bad`.
- A NULL, and a field that the value lacks, is NULL. Fields that the schema does not name are
  skipped.
- Control characters are shown as pictures: ␊ is a line feed, ␍ a carriage return, ␉ a tab.
"""
JSON_RULES: Final = """
- The value is one object, by RFC 8259, and NaN, Infinity and -Infinity. The last field of one name
  counts.
- A text column takes any value: the characters of a string, and the JSON text of a number, boolean,
  array or object, as written.
- A timestamp column reads an integer as seconds since 1970. A binary column reads base64 text. A
  decimal column reads numbers and text.
- A date may be a timestamp; its date counts, as written. A time of day alone is bad as a timestamp;
  Spark adds the date of today.
"""
CSV_RULES: Final = """
- A record is one row, whatever quotes and line ends it has. A line end at the end of the record is not data.
- Quotes are doubled inside of quotes (RFC 4180), or have the backslash that Spark writes. A record
  with two meanings is bad.
- An empty field is NULL. A quoted empty field is an empty text in a text column, and NULL in
  others.
"""
AVRO_RULES: Final = """
A test compares these results with Spark's package `spark-avro`: with its reader of files and the
type of the column, and with `from_avro` where that gives the same type. A `long` without a logical
type is milliseconds in a timestamp column, as for Spark.

"""


CHANGE_RULES: Final = """
One reader answers for `value.format=debezium` and for the runs, tests and dry runs of a pipeline:
see [change events](../guides/change-events.md). With a schema in the record (`schemas.enable=true`,
or Avro) the type of a field decides; it is Debezium's or Kafka Connect's. Without a schema the
column decides, with `decimals` and `times` of `decode:`.

| type of the field | value | column | result |
|---|---|---|---|
"""


def values_page(made: str) -> str:
    """Return the page. ``made``: the line about the generation of pages."""
    json_values, csv_values = (*JSON_VALUES, *JSON_TIMES), (*CSV_VALUES, *CSV_PAIRS)
    avro = [f"| {_code(v.written)} | {_code(v.type)} | {_result(v.kohort)} |" for v in AVRO_VALUES if not v.why]
    other = [
        f"| {_code(v.written)} | {_code(v.type)} | {_result(v.kohort)} | {_result(v.spark)} | {v.why} |"
        for v in AVRO_VALUES
        if v.why
    ]
    parts = [
        "# What the value of a record becomes\n",
        made,
        HEAD,
        f"## JSON\n{JSON_RULES}",
        *_differences("from_json", json_values),
        *_results(json_values),
        f"\n## CSV\n{CSV_RULES}",
        *_differences("from_csv", csv_values),
        *_results(csv_values),
        f"\n## Avro\n{AVRO_RULES}".rstrip("\n"),
        "\n### Differences from Spark's reader\n",
        "| Avro type | column | kohort | Spark | reason |\n|---|---|---|---|---|",
        *other,
        "\n### Results that are Spark's\n",
        "| Avro type | column | result |\n|---|---|---|",
        *avro,
        f"\n## Change events\n{CHANGE_RULES}".rstrip("\n"),
        *(f"| {_field(v)} | {_code(_json(v.value))} | {_code(v.type)} | {_result(v.kohort)} |" for v in CHANGE_VALUES),
    ]
    return "\n".join(parts) + "\n"


def _field(value: ChangeValue) -> str:
    if not value.schema:
        return ", ".join(("no schema", *(_code(f"{key}: {setting}") for key, setting in value.settings.items())))
    scale = value.more.get("parameters", {}).get("scale")
    return _code(value.schema) + (f", scale {scale}" if scale else "")


def _json(value: Any) -> str:
    return json.dumps(value, default=str) if not isinstance(value, Decimal) else str(value)


def _differences(reader: str, values: Iterable[Value]) -> list[str]:
    lines = [
        f"### Differences from Spark's `{reader}`\n",
        "| column | value | kohort | Spark | reason |\n|---|---|---|---|---|",
    ]
    return lines + [
        f"| {_code(v.type)} | {_value(v)} | {_result(v.kohort)} | {_result(v.spark)} | {v.why} |"
        for v in values
        if v.why
    ]


def _results(values: Iterable[Value]) -> list[str]:
    lines = ["\n### Results that are Spark's\n", "| column | value | result |\n|---|---|---|"]
    return lines + [f"| {_code(v.type)} | {_value(v)} | {_result(v.kohort)} |" for v in values if not v.why]


def _value(value: Value) -> str:
    if value.value is None:
        return "no value"
    text = value.value.decode(errors="backslashreplace")
    if text.startswith('{"v": ') and text.endswith("}"):
        text = text[len('{"v": ') : -1]
    return _code(text) if text else "empty"


def _result(result: Any) -> str:
    if result is BAD:
        return "**bad**"
    if result is None:
        return "NULL"
    if isinstance(result, tuple):
        return ", ".join(map(_result, result))
    return _code(str(result)) if result != "" else "empty text"


def _code(text: str) -> str:
    """Return text as code in a cell of a table."""
    shown = "".join(chr(CONTROL_PICTURES + ord(c)) if ord(c) < 32 else c for c in text).replace("|", "\\|")
    shown = shown.replace("\x7f", "␡").encode(errors="backslashreplace").decode()
    shown = shown if len(shown) <= CELL_MOST else f"{shown[:CELL_MOST]}..."
    mark = "``" if "`" in shown else "`"
    space = " " if shown[:1] in ("`", " ") or shown[-1:] in ("`", " ") else ""
    return f"{mark}{space}{shown}{space}{mark}"

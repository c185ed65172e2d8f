"""Reads the tests of a pipeline file: records given, and what must come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.spark.pipeline.definition import PipelineTest
from kohort.spark.pipeline.document.sections import PipelineError, YamlSection

RECORD_KEYS: Final = ("value", "raw", "key", "headers", "timestamp")


def parse_test(section: YamlSection, index: int, sources: Sequence[str]) -> PipelineTest:
    """Read one entry of ``tests``. ``given`` is a list of records where there is one source, else a list for each."""
    name = section.take("name", str, f"tests[{index}]")
    given_line = section.line_of("given")
    given = section.plain("given")
    if isinstance(given, list):
        given = {sources[0]: given}
    expect = section.section("expect")
    if not isinstance(given, Mapping) or expect is None:
        raise section.error(f"{section.name} needs given (records) and expect (rows, dlq, dropped)")
    for source, records in given.items():
        if source not in sources:
            raise PipelineError(
                section.file, given_line, f"given: no source is called {source!r}; there is {', '.join(sources)}"
            )
        if not isinstance(records, list | None):
            raise PipelineError(section.file, given_line, f"given: expected a list of records of {source!r}")
        for record in records or ():
            _check_record(record, section.file, given_line)
    test = PipelineTest(
        name=name,
        given={source: tuple(records or ()) for source, records in given.items()},
        rows=_expected(expect, "rows", None),
        dead_letters=_expected(expect, "dlq", ()) or (),
        dropped=expect.take("dropped", int, 0),
        line=section.line,
    )
    expect.close()
    section.close()
    return test


def _expected(section: YamlSection, key: str, default: Any) -> tuple[Mapping[str, Any], ...] | None:
    line = section.line_of(key)
    rows = section.plain(key, default)
    if rows is None:
        return None
    if not isinstance(rows, list | tuple) or any(not isinstance(row, Mapping) for row in rows):
        raise PipelineError(section.file, line, f"{key}: expected a list of rows, such as {{id: 1}}")
    return tuple(rows)


def _check_record(record: Any, file: str, line: int) -> None:
    if not isinstance(record, Mapping) or ("value" in record) == ("raw" in record):
        raise PipelineError(
            file, line, "given: a record is {value: {id: 1}} or {raw: text}, with key, headers if need be"
        )
    if not isinstance(record.get("raw", ""), str):
        said = record["raw"]
        raise PipelineError(file, line, f"given: raw is text, and YAML reads {said!r} here: put it into quotes")
    for key in record:
        if key not in RECORD_KEYS:
            raise PipelineError(file, line, f"given: a record has {', '.join(RECORD_KEYS)}, not {key!r}")

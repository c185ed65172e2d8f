"""Parses the steps, rules and tests of a pipeline file."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kohort.spark.pipeline.definition import PipelineTest, RowRule, Step, Window
from kohort.spark.pipeline.sections import YamlSection

TIME: Final = re.compile(r"(\d+) *(milliseconds?|seconds?|minutes?|hours?|days?)")
_UNIT_MS: Final = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


def time_ms(text: str) -> int:
    found = TIME.fullmatch(text)
    return int(found[1]) * _UNIT_MS[found[2].removesuffix("s")] if found else 0


def parse_step(section: YamlSection, root: Path) -> Step:
    kind = section.one_of("sql", "python", "window", "function")
    line = section.line_of(kind)
    if kind == "window":
        step = Step(kind, "", line=line, window=_window(section.take(kind, YamlSection)))
    elif kind == "function":
        made: Callable[[Any], Any] = section.take(kind, object)  # type: ignore[assignment]  # checked in the next line
        if not callable(made):
            raise section.error("the key 'function' is only for pipelines built in Python: use the key 'python'", line)
        step = Step(kind, getattr(made, "__name__", "function"), section.take("filters", bool, False), line, None, made)
    else:
        text = section.take(kind, str)
        step = Step(kind, text, section.take("filters", bool, False), line)
        if kind == "python":
            _check_function(section, text, root, line)
        elif not text.strip():
            raise section.error("sql is empty: expected a SQL query", line)
    section.close()
    return step


def _window(section: YamlSection) -> Window:
    agg = section.section("agg")
    found = Window(
        time=section.take("time", str),
        size=section.take("size", str),
        late=section.take("watermark", str, ""),
        slide=section.take("slide", str, ""),
        by=tuple(section.texts("by", [])),
        agg=tuple((name, agg.take(name, str)) for name in agg.names()) if agg else (),
    )
    section.close()
    if not found.agg:
        raise section.error(f"{section.name} needs agg, such as agg: {{n: count(*)}}")
    for key, text in {"size": found.size, "watermark": found.late, "slide": found.slide}.items():
        if (text or key == "size") and not TIME.fullmatch(text):
            raise section.error(f"{key}: {text!r}: expected a duration such as 10 minutes")
    return found


def _check_function(section: YamlSection, text: str, root: Path, line: int) -> None:
    """Check that ``text`` names a top-level function. The check does not run the module.

    ``text`` is ``file.py:name`` or ``package.module:name``.
    """
    file, _, name = text.rpartition(":")
    if not file or not name.isidentifier():
        raise section.error(f"python: {text!r}: expected FILE.py:FUNCTION or MODULE:FUNCTION", line)
    path = root / file if file.endswith(".py") else module_file(file)
    if path is None:
        raise section.error(f"python: no module {file!r}; expected a module, or a file whose name ends with .py", line)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise section.error(f"python: {path} cannot be read: {error.strerror}", line) from None
    except SyntaxError as error:
        raise section.error(f"python: {path}, line {error.lineno}: invalid Python code: {error.msg}", line) from None
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    if name not in functions:
        have = ", ".join(functions) or "none"
        raise section.error(f"python: {file} has no function {name!r}, only {have}", line)


def module_file(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def parse_rule(section: YamlSection, index: int) -> RowRule:
    kind = section.one_of("not_null", "check")
    line = section.line_of(kind)
    text = section.take(kind, str)
    condition = f"`{text}` is not null" if kind == "not_null" else text
    rule = RowRule(
        name=section.take("name", str, f"{kind}: {text}" if kind == "not_null" else f"expect[{index}]"),
        condition=condition,
        otherwise=section.choice("else", ("quarantine", "drop", "fail"), "quarantine"),
        reason=section.take("reason", str, f"{text} is null" if kind == "not_null" else f"not {text}"),
        line=line,
    )
    section.close()
    return rule


RECORD_KEYS: Final = ("value", "raw", "key", "headers", "timestamp")


def parse_test(section: YamlSection, index: int, sources: Sequence[str]) -> PipelineTest:
    """Parse one test of the section ``tests`` in a pipeline file.

    ``given`` is a list of records if the pipeline has one source, else a dict: source name to list of records.
    """
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
            raise section.error(
                f"given: source {source!r} does not exist; sources are {', '.join(sources)}", given_line
            )
        if not isinstance(records, list | None):
            raise section.error(f"given: expected a list of records for the source {source!r}", given_line)
        for record in records or ():
            _check_record(record, section, given_line)
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
        raise section.error(f"{key}: expected a list of rows, such as {{id: 1}}", line)
    return tuple(rows)


def _check_record(record: Any, section: YamlSection, line: int) -> None:
    if not isinstance(record, Mapping) or ("value" in record) == ("raw" in record):
        raise section.error(
            "given: expected a record such as {value: {id: 1}} or {raw: text}, optionally with key and headers", line
        )
    if not isinstance(record.get("raw", ""), str):
        raise section.error(f"given: expected text for raw, but YAML reads {record['raw']!r}: put it in quotes", line)
    for key in record:
        if key not in RECORD_KEYS:
            raise section.error(f"given: expected keys {', '.join(RECORD_KEYS)} in a record, not {key!r}", line)

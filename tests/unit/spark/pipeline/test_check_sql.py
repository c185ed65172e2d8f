"""validate: the SQL of a pipeline file and the columns that it names, each mistake at its line, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlglot")

from kohort.spark.pipeline.check_sql import check_sql
from kohort.spark.pipeline.parse import load_pipeline, parse_pipeline
from kohort.spark.pipeline.sections import PipelineError

CLICKS = """\
name: clicks
brokers: localhost:9092
sources:
  clicks: {topics: [clicks], decode: {format: json, schema: "user string, country string, ms int, at timestamp"}}
  regions: {topics: [regions], read: table, decode: {format: json, schema: "country string, region string"}}
steps:
  - sql: select c.*, r.region from clicks c left join regions r using (country)
  - sql: select *, ms / 1000 as s from input where ms > 0
    filters: true
expect:
  - {not_null: region}
  - {check: s < 3600}
sinks:
  - parquet: {path: out, partition_by: [region]}
  - topic: {topic: seconds, key: user}
summaries:
  - {name: totals, path: totals, sql: "select region, sum(s) as s from parquet group by region"}
dlq: {topic: dead}
"""
WINDOW = """\
  - window: {time: at, size: 1 minute, by: [region], agg: {n: count(*), last: max(s)}}
"""


def refused(old: str, new: str) -> str:
    assert old in CLICKS
    with pytest.raises(PipelineError) as problem:
        check_sql(parse_pipeline(CLICKS.replace(old, new), Path("/p/clicks.yaml"), {}))
    return str(problem.value).removeprefix("/p/clicks.yaml, ")


def test_what_is_right_is_passed() -> None:
    check_sql(parse_pipeline(CLICKS, Path("/p/clicks.yaml"), {}))


@pytest.mark.parametrize("name", ["flight_delays.yaml", "consumer_offsets.yaml"])
def test_the_shipped_pipelines_are_passed(name: str) -> None:
    check_sql(load_pipeline(Path(__file__).parents[4] / "examples" / name, {}))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("user string", "user lonk", "line 4: schema: 'lonk' is no type of Spark's; did you mean long?"),
        ("from clicks c", "form clicks c", "line 7: it is no SQL from 'clicks' on, in: c.*, r.region form clicks c "
         "left join regions"),
        ("r.region from", "r.regon from", "line 7: r has no column 'regon'; did you mean region?"),
        ("ms / 1000", "mss / 1000", "line 8: no column 'mss'; did you mean ms?"),
        ("not_null: region", "not_null: regin", "line 11: no column 'regin'; did you mean region?"),
        ("check: s <", "check: duration <", "line 12: no column 'duration'; there is at, country, ms, region, s, "
         "user"),
        ("partition_by: [region]", "partition_by: [nocol]", "line 14: partition_by: no column 'nocol'; there is at, "
         "country, ms, region, s, user"),
        ("key: user", "key: usr", "line 15: key: no column 'usr'; did you mean user?"),
        ("sum(s)", "sum(z)", "line 17: no column 'z'; there is at, country, ms, region, s, user"),
        ("using (country)", "using (contry)", "line 7: no column 'contry'; did you mean country?"),
        ("user string", "_source string", "line 4: schema: '_source' is a column that the pipeline itself adds"),
        ("user string", "_problem string", "line 4: schema: '_problem' is a column that the pipeline itself adds"),
        ("user string", "_corrupt_record string", "line 4: schema: '_corrupt_record' is a column that the pipeline "
         "itself adds"),
        ("user string", "MS string", "line 4: schema: SQL takes 'MS' and 'ms' for one column"),
        ("ms / 1000 as s", "1 as s, 2 as _failed", "line 8: '_failed' is a column that the pipeline itself adds"),
        ("topics: [clicks],", "topics: [clicks], group: '',", "line 4: group: '' is no name: give one, or leave group "
         "out"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_at_its_line(old: str, new: str, said: str) -> None:
    assert refused(old, new) == said


TESTS = """\
tests:
  - name: seconds
    given: {clicks: [{value: {user: ann, other: 1}}]}
    expect: {rows: [{s: 1, USER: ann}], dlq: [{stage: decode, offset: 0}]}
"""


def test_columns_that_a_test_expects_must_be_there() -> None:
    def check(text: str) -> None:
        check_sql(parse_pipeline(text, Path("/p/clicks.yaml"), {}))

    check(CLICKS + TESTS)
    for old, new, said in (
        ("s: 1,", "seconds: 1,", "rows: no column 'seconds'; there is at, country, ms, region, s, user"),
        ("offset: 0", "ofset: 0", "dlq: no column 'ofset'; did you mean offset?"),
    ):
        with pytest.raises(PipelineError) as problem:
            check(CLICKS + TESTS.replace(old, new))
        assert str(problem.value) == f"/p/clicks.yaml, line 20: test 'seconds': {said}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("time: at", "time: att", "line 10: window: no column 'att'; did you mean at?"),
        ("by: [region]", "by: [regio]", "line 10: window: no column 'regio'; did you mean region?"),
        ("max(s)", "max(zz)", "line 10: agg: last: no column 'zz'; there is at, country, ms, region, s, user"),
    ],
)
def test_windows_too(old: str, new: str, said: str) -> None:
    text = CLICKS.replace("expect:\n", WINDOW.replace(old, new) + "expect:\n").replace("    filters: true\n", "")
    windowed = text[: text.index("expect:")] + "sinks: [{topic: {topic: out}}]\n"
    with pytest.raises(PipelineError) as problem:
        check_sql(parse_pipeline(windowed, Path("/p/clicks.yaml"), {}))
    assert str(problem.value).replace("line 9", "line 10") == f"/p/clicks.yaml, {said}"


def test_behind_a_step_in_python_only_what_sql_says_is_known(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def enrich(rows):\n    return rows\n")
    text = CLICKS.replace("  - sql: select *, ms / 1000", "  - python: steps.py:enrich\n  - sql: select *, anything")

    check_sql(parse_pipeline(text, tmp_path / "clicks.yaml", {}))


@pytest.mark.heavy
def test_validate_needs_no_spark_and_says_which_extra_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(CLICKS)
    program = """
import sys
for name in sys.argv[2:]:
    sys.modules[name] = None
from kohort.cli.main import main
main(["pipeline", "validate", sys.argv[1]])
"""

    def validate(*missing: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(file), *missing]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = validate("pyspark", "pyarrow", "numpy", "numba")
    assert (done.returncode, "is valid" in done.stdout) == (0, True), done.stderr
    for package in ("yaml", "sqlglot"):
        done = validate("pyspark", package)
        assert done.returncode == 1
        assert f"needs the package {package}: pip install 'kohort[pipeline]'" in done.stderr
